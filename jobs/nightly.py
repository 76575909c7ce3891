"""`python -m jobs.nightly suite=NAME`: measure a suite, compare it with its nights, tell people.

    suite ─▶ sweep ─▶ what looks moved, again ─▶ verdict ─▶ message ─▶ MLflow

Exit codes: 0 fine, 2 bad input, 3 cells failed, 4 a regression, 5 no baseline or no infrastructure,
1 a crash of ours, 130 and 143 after Ctrl-C and SIGTERM. Further arguments go to the sweep.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from jobs import channels
from jobs.findings import NightVerdict
from jobs.history import History
from jobs.judge import judge, judged, to_measure_again
from jobs.keeping import Waiting, load, night_entry
from jobs.loading import load_suite
from jobs.measuring import Measuring
from jobs.message import Message, compose
from jobs.night import LeftOut, Measured, Night
from jobs.reading import environment, node_class
from jobs.suite import Suite
from pipeline import commandline, console
from pipeline.driver import Terminated
from pipeline.errors import (
    EXIT_NO_INFRASTRUCTURE,
    EXIT_OK,
    InfrastructureError,
    InputError,
    PipelineError,
)
from pipeline.locks import held
from pipeline.tracking.ledger import Keeper, LedgerError

USAGE = "python -m jobs.nightly suite=NAME [KEY=VALUE …] [--config-dir FOLDER]"
_WEEK = timedelta(days=7) - timedelta(hours=1)


class NightBusyError(InfrastructureError):
    """Another night of this suite is running here."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"a night is running already ({owner})", remedy="let it end; the next one comes"
        )


def main(argv: Sequence[str]) -> int:
    """Run one night and return its exit code."""
    try:
        suite, extra = _arguments(argv)
        channels.check(suite)
        return _night(suite, extra)
    except PipelineError as error:
        console.fail(str(error))
        return error.exit_code
    except Terminated:
        return 143
    except KeyboardInterrupt:
        return 130


def _arguments(argv: Sequence[str]) -> tuple[Suite, list[str]]:
    users = commandline.split(argv).folders
    names = [a.partition("=")[2] for a in argv if a.startswith("suite=")]
    if len(names) != 1 or not names[0]:
        raise InputError("one suite is needed", where="suite", allowed=USAGE)
    return load_suite(names[0], users), [a for a in argv if not a.startswith("suite=")]


def _night(suite: Suite, extra: Sequence[str]) -> int:
    try:
        measuring = Measuring(suite, extra, datetime.now(UTC))
        measuring.root.mkdir(parents=True, exist_ok=True)
        lock = measuring.root / ".lock"
        with held(lock, f"night of {suite.name}", 0.0, NightBusyError):
            return _run(suite, measuring)
    except PipelineError as error:
        _tell_trouble(suite, error)
        raise


def _run(suite: Suite, measuring: Measuring) -> int:
    cells = measuring.first()
    start, config = measuring.start, measuring.config
    night = Night(
        id=measuring.id,
        suite=suite.name,
        at=measuring.began_at,
        node_class=node_class(start, config.platform.name),
        environment=environment(start),
        cells=cells,
        left_out=measuring.left_out,
    )
    keeper = Keeper(config.name, config.tracking.uri)
    waiting = Waiting(measuring.root / "waiting")
    waiting.deliver(keeper)
    history = load(keeper, suite.name, night.node_class, suite.rule)
    night = _doubts_settled(suite, measuring, history, night)
    verdict = judge(history, night, suite.rule)
    message = compose(suite, verdict)
    told, problems = _told(suite, history, verdict, message)
    kept = judged(night, verdict).model_copy(update={"told": told})
    waiting.add(night_entry(kept, verdict, message))
    measuring.close()
    try:
        waiting.deliver(keeper)
    except LedgerError as error:
        problems = (*problems, str(error))
    for problem in problems:
        console.warn(problem)
    code = verdict.exit_code
    return EXIT_NO_INFRASTRUCTURE if problems and code == EXIT_OK else code


def _doubts_settled(suite: Suite, measuring: Measuring, history: History, night: Night) -> Night:
    """The night with what looked moved measured again, as far as the budget goes."""
    doubted = to_measure_again(history, night, suite.rule)
    again: list[Measured] = []
    for _ in range(suite.measure_again if doubted else 0):
        measured = measuring.again(doubted)
        if measured is None:
            reason = "looked changed, and the budget had no time left to measure it again"
            left = tuple(
                LeftOut(at=c.at, reason=reason) for c in night.cells if c.fingerprint in doubted
            )
            return night.model_copy(
                update={"again": tuple(again), "left_out": (*night.left_out, *left)}
            )
        again += measured
    return night.model_copy(update={"again": tuple(again)})


def _told(
    suite: Suite, history: History, verdict: NightVerdict, message: Message
) -> tuple[bool, tuple[str, ...]]:
    """Whether people were told, and what became of the messages that did not arrive."""
    problems = channels.tell(channels.always(suite), message, verdict)
    if verdict.has_news:
        return True, (*problems, *channels.tell(channels.people(suite), message, verdict))
    if not _line_is_due(suite, history, verdict):
        return False, problems
    line = Message(title=message.title, exit_code=message.exit_code)
    return True, (*problems, *channels.tell(channels.people(suite), line, verdict))


def _line_is_due(suite: Suite, history: History, verdict: NightVerdict) -> bool:
    if suite.quiet != "weekly":
        return suite.quiet == "always"
    now = datetime.fromisoformat(verdict.at)
    last = [n for n in history.nights if n.told and now - datetime.fromisoformat(n.at) < _WEEK]
    return not last


def _tell_trouble(suite: Suite, error: PipelineError) -> None:
    """A night that could not be run is news too."""
    title = f"{suite.name} {datetime.now(UTC):%Y-%m-%d}: the night could not be run"
    message = Message(title=title, exit_code=error.exit_code, footer=(str(error),))
    for problem in channels.tell(suite.tell, message, None):
        console.warn(problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
