"""Nights and decisions in MLflow, and the folder where they wait while it does not take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from jobs.findings import NightVerdict
from jobs.history import Decision, History
from jobs.message import Message, markdown
from jobs.night import Night
from jobs.page import html
from jobs.suite import NightRule
from pipeline import console
from pipeline.durable import DamagedError, RecordError, parsed, read, set_aside, write_atomically
from pipeline.spec import Record
from pipeline.tracking.ledger import Document, Entry, Keeper

R = TypeVar("R", bound=Record)

# How another store than the sweep's own is named, to a night and where its baselines are shown.
STORE = ("tracking", "tracking.uri")
NIGHT, DECISION = "night", "baseline"
_NIGHT_FILE, _DECISION_FILE = "night.json", "decision.json"
# Trends show sixty nights, and a drift is looked for in fewer.
_NIGHTS, _DECISIONS = 60, 500


def load(keeper: Keeper, suite: str, node_class: str, rule: NightRule) -> History:
    """A suite's nights on one class of machine, with the decisions about them.

    A document that is damaged, gone or of another version is named and left out.

    Raises:
        LedgerError: the store cannot be read.
    """
    newest = max(_NIGHTS, rule.nights, rule.drift_nights)
    return _history(keeper, {"suite": suite, "node_class": tag(node_class)}, suite, newest)


def everything(keeper: Keeper, suite: str) -> History:
    """A suite's nights, on whatever machines, for people to look at and decide about."""
    return _history(keeper, {"suite": suite}, suite, _NIGHTS)


def _history(keeper: Keeper, tags: dict[str, str], suite: str, newest: int) -> History:
    taken = keeper.read(DECISION, {"suite": suite}, _DECISION_FILE, _DECISIONS)
    decisions = list(_whole(taken, Decision))
    documents = keeper.read(NIGHT, tags, _NIGHT_FILE, newest)
    # A night that cells are pinned to counts however long ago it was.
    pinned = {_key(suite, d.night) for d in decisions if d.action == "pin"}
    for old in sorted(pinned - {document.key for document in documents}):
        documents += keeper.read(NIGHT, {**tags, "key": old}, _NIGHT_FILE, 1)
    nights = {night.id: night for night in _whole(documents, Night)}
    return History(list(nights.values()), decisions)


def _whole(documents: Iterable[Document], kind: type[R]) -> Iterator[R]:
    """What can be read; of the others it is said which they are, and they stay where they are."""
    for one in documents:
        try:
            if one.content is None:
                raise DamagedError(one.where, "the file is gone")
            yield parsed(one.where, one.content, kind)
        except RecordError as error:
            console.warn(
                f"{one.role} {one.key}: {error.where}: {error.problem}; left out of the history;"
                f" put it right there, or delete run {one.run_id} in MLflow"
            )


def night_entry(night: Night, verdict: NightVerdict, message: Message) -> Entry:
    """A judged night as a document that MLflow shows and a later night reads."""
    return Entry(
        role=NIGHT,
        key=_key(night.suite, night.id),
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


def _key(suite: str, night: str) -> str:
    return f"{suite}/{night}"


def unjudged_entry(night: Night) -> Entry:
    """A measured night that no history could be had for: in the history itself, and no baseline."""
    called = tuple(cell.label for cell in night.cells)
    kept = night.model_copy(update={"called": called, "undelivered": True})
    return Entry(
        role=NIGHT,
        key=_key(night.suite, night.id),
        at=night.at,
        title=f"{night.suite} {night.date}: measured, and not judged",
        tags={"suite": night.suite, "node_class": tag(night.node_class)},
        texts={_NIGHT_FILE: kept.model_dump_json()},
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


class WaitingDocument(Entry):
    """An entry on disk."""


class Waiting:
    """Documents that MLflow did not take, kept in a folder until it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, entry: Entry) -> None:
        """Keep one on disk, before anybody is asked to take it."""
        text = WaitingDocument(**entry.model_dump()).model_dump_json()
        write_atomically(self._path(entry), text)

    def deliver(self, keeper: Keeper) -> tuple[str, ...]:
        """Give MLflow what waits, the oldest first; returns a sentence for each unusable file.

        Raises:
            LedgerError: the store does not take it; it goes on waiting.
        """
        problems = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                kept = read(path, WaitingDocument)
            except DamagedError as error:
                aside = set_aside(path)
                problems.append(f"{path}: {error.problem}; it was set aside as {aside.name}")
                continue
            except RecordError as error:
                problems.append(f"{path}: {error.problem}; it goes on waiting")
                continue
            keeper.write(kept)
            path.unlink(missing_ok=True)
        return tuple(problems)

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.key.replace('/', '--').replace(':', '')}.json"
