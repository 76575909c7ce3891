"""Nights and decisions in MLflow, and the folder where they wait while it does not take them."""

from __future__ import annotations

from pathlib import Path

from jobs.findings import NightVerdict
from jobs.history import Decision, History
from jobs.message import Message, markdown
from jobs.night import Night
from jobs.page import html
from jobs.suite import NightRule
from pipeline.outputs import read, write_atomically
from pipeline.spec import Record
from pipeline.tracking.ledger import Entry, Keeper

NIGHT, DECISION = "night", "baseline"
_NIGHT_FILE, _DECISION_FILE = "night.json", "decision.json"
# Trends show sixty nights, and a drift is looked for in fewer.
_NIGHTS, _DECISIONS = 60, 500


def load(keeper: Keeper, suite: str, node_class: str, rule: NightRule) -> History:
    """A suite's nights on one class of machine, with the decisions about them.

    Raises:
        LedgerError: the store cannot be read.
    """
    newest = max(_NIGHTS, rule.nights, rule.drift_nights)
    return _history(keeper, {"suite": suite, "node_class": tag(node_class)}, suite, newest)


def everything(keeper: Keeper, suite: str) -> History:
    """A suite's nights, on whatever machines, for people to look at and decide about."""
    return _history(keeper, {"suite": suite}, suite, _NIGHTS)


def _history(keeper: Keeper, tags: dict[str, str], suite: str, newest: int) -> History:
    nights = keeper.read(NIGHT, tags, _NIGHT_FILE, newest)
    decisions = keeper.read(DECISION, {"suite": suite}, _DECISION_FILE, _DECISIONS)
    return History(
        [Night.model_validate_json(text) for text in nights],
        [Decision.model_validate_json(text) for text in decisions],
    )


def night_entry(night: Night, verdict: NightVerdict, message: Message) -> Entry:
    """A judged night as a document that MLflow shows and a later night reads."""
    return Entry(
        role=NIGHT,
        key=f"{night.suite}/{night.id}",
        at=night.at,
        title=message.title[:200],
        tags={
            "suite": night.suite,
            "node_class": tag(night.node_class),
            "exit_code": str(verdict.exit_code),
            "mlflow.note.content": markdown(message)[:4000],
        },
        texts={
            _NIGHT_FILE: night.model_dump_json(),
            "verdict.json": verdict.model_dump_json(indent=1),
            "message.html": html(message, verdict),
        },
    )


def decision_entry(decision: Decision) -> Entry:
    """A decision as a document, with who took it and why."""
    cells = ", ".join(decision.cells) or "all cells"
    return Entry(
        role=DECISION,
        key=f"{decision.suite}/{decision.at}",
        at=decision.at,
        title=f"{decision.action} {decision.night} for {cells}: {decision.reason}"[:200],
        tags={"suite": decision.suite, "action": decision.action, "by": decision.by},
        texts={_DECISION_FILE: decision.model_dump_json(indent=1)},
    )


def tag(text: str) -> str:
    """A text that can stand in a query of MLflow's."""
    return text.replace("'", "").replace('"', "")


class _Kept(Record):
    """An entry on disk."""

    role: str
    key: str
    at: str
    title: str
    tags: dict[str, str]
    texts: dict[str, str]


class Waiting:
    """Documents that MLflow did not take, kept in a folder until it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, entry: Entry) -> None:
        """Keep one on disk, before anybody is asked to take it."""
        text = _Kept(**entry._asdict()).model_dump_json()
        write_atomically(self._path(entry), text)

    def deliver(self, keeper: Keeper) -> None:
        """Give MLflow what waits, the oldest first.

        Raises:
            LedgerError: the store does not take it; it goes on waiting.
        """
        for path in sorted(self._folder.glob("*.json")):
            kept = read(path, _Kept)
            keeper.write(Entry(**kept.model_dump()))
            path.unlink(missing_ok=True)

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.key.replace('/', '--').replace(':', '')}.json"
