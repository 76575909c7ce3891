"""`python -m jobs.nightly suite=NAME`: measure a suite, compare it with its nights, tell people.

    suite ─▶ sweep ─▶ what looks moved, again ─▶ verdict ─▶ message ─▶ MLflow

Exit codes: 0 fine, 2 bad input, 3 cells failed, 4 a regression, 5 no baseline or no infrastructure,
1 a crash of ours, 130 and 143 after Ctrl-C and SIGTERM. Further arguments go to the sweep;
`dry_run=true` shows what tonight would be, measures nothing and tells nobody.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from jobs import channels, failed
from jobs.findings import NightVerdict
from jobs.folders import RESUME_H
from jobs.history import History
from jobs.judge import judge, judged, to_measure_again
from jobs.keeping import STORE, Waiting, load, night_entry, unjudged_entry
from jobs.loading import load_suite
from jobs.measuring import Measuring
from jobs.message import Message, compose
from jobs.night import Measured, Night
from jobs.preview import asked, preview
from jobs.reading import environment, node_class
from jobs.suite import NIGHTS, ConsoleChannel, Suite
from pipeline import commandline, console
from pipeline.errors import (
    EXIT_NO_INFRASTRUCTURE,
    EXIT_OK,
    InfrastructureError,
    InputError,
    PipelineError,
)
from pipeline.interrupts import Terminated
from pipeline.locks import held
from pipeline.outputs import WriteError
from pipeline.passwords import without_password
from pipeline.tracking.ledger import Keeper, LedgerError
from pipeline.verbs import helped

USAGE = "python -m jobs.nightly suite=NAME [KEY=VALUE …] [--config-dir FOLDER]"
_WEEK = timedelta(days=7) - timedelta(hours=1)


class NightBusyError(InfrastructureError):
    """Another night of this suite is running here."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"a night is running already ({owner})", remedy="let it end; the next one comes"
        )


class NotJudgedError(InfrastructureError):
    """A night that was measured, and whose history cannot be read."""

    def __init__(self, cause: LedgerError) -> None:
        super().__init__(
            f"the night was measured and is kept, and could not be judged: {cause}",
            remedy=f"started again within {RESUME_H} hours it is judged, and nothing is measured"
            " again",
        )


class _Told(NamedTuple):
    """What became of a night's message.

    Attributes:
        told: whether people got one.
        undelivered: whether there was news that not everybody got.
        problems: a sentence for each channel that did not take it.
    """

    told: bool
    undelivered: bool
    problems: tuple[str, ...]


def main(argv: Sequence[str]) -> int:
    """Run one night and return its exit code."""
    if helped(argv, f"{USAGE}\n\n{__doc__}".strip()):
        return EXIT_OK
    try:
        suite, extra = _arguments(argv)
        if asked(extra):
            preview(suite, extra)
            return EXIT_OK
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
        failed.forget(suite.name)
        channels.check(suite)
        with held(_lock(suite), f"night of {suite.name}", 0.0, NightBusyError):
            # Under the lock: it looks for a night to go on with, and must not take a running one.
            measuring = Measuring(suite, extra, datetime.now(UTC))
            return _run(suite, measuring, _places(extra))
    except PipelineError as error:
        _tell_trouble(suite, error)
        raise


def _places(extra: Sequence[str]) -> list[str]:
    """The arguments by which the suite and its store are found again, less any password."""
    given = commandline.split(extra)
    folders = [word for folder in given.folders for word in ("--config-dir", str(folder))]
    settings = (word.lstrip("+").partition("=") for word in given.overrides)
    stores = {key: f"{key}={without_password(value)}" for key, _, value in settings if key in STORE}
    return [*folders, *stores.values()]


def _lock(suite: Suite) -> Path:
    folder = NIGHTS / suite.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(folder, error) from error
    return folder / ".lock"


def _run(suite: Suite, measuring: Measuring, places: Sequence[str]) -> int:
    night = _measured(suite, measuring)
    config = measuring.config
    keeper = Keeper(config.name, config.tracking.uri)
    waiting = Waiting(measuring.root / "waiting")
    # Kept before anything else, whatever becomes of the history, of what follows or of us.
    waiting.add(unjudged_entry(night))
    try:
        problems = waiting.deliver(keeper)
        history = load(keeper, suite.name, night.node_class, suite.rule)
    except LedgerError as error:
        raise NotJudgedError(error) from error
    night = _doubts_settled(suite, measuring, history, night)
    verdict = judge(history, night, suite.rule)
    message = compose(suite, verdict, places)
    night = judged(night, verdict)
    # Kept before anybody is told: telling takes minutes where a receiver is slow, and may fail.
    pending = night.model_copy(update={"undelivered": verdict.has_news})
    waiting.add(night_entry(pending, verdict, message))
    measuring.close()
    told = _told(suite, history, verdict, message)
    night = night.model_copy(update={"told": told.told, "undelivered": told.undelivered})
    waiting.add(night_entry(night, verdict, message))
    problems += told.problems
    try:
        problems += waiting.deliver(keeper)
    except LedgerError as error:
        problems += (str(error),)
    for problem in problems:
        console.warn(problem)
    code = verdict.exit_code
    return EXIT_NO_INFRASTRUCTURE if problems and code == EXIT_OK else code


def _measured(suite: Suite, measuring: Measuring) -> Night:
    cells, more = measuring.first(), measuring.more()
    starts = measuring.starts
    return Night(
        id=measuring.id,
        suite=suite.name,
        at=measuring.began_at,
        node_class=node_class(starts[-1], measuring.config.platform.name),
        environment=environment(starts),
        cells=cells,
        more=more,
        left_out=measuring.left_out,
        fewer_starts=measuring.fewer_starts,
    )


def _doubts_settled(suite: Suite, measuring: Measuring, history: History, night: Night) -> Night:
    """The night with what looked moved measured again, as far as the budget goes."""
    doubted = to_measure_again(history, night, suite.rule)
    again: list[Measured] = []
    try:
        for _ in range(suite.measure_again if doubted else 0):
            again += measuring.again(doubted)
    except PipelineError as error:
        # What was measured is judged all the same; what nobody confirmed is said to be so.
        console.warn(f"measuring again: {error}")
    # A night that was cut may have gone on with another kernel or driver.
    around = environment(measuring.starts)
    return night.model_copy(update={"again": tuple(again), "environment": around})


def _told(suite: Suite, history: History, verdict: NightVerdict, message: Message) -> _Told:
    """Tell whom it concerns: everything always, people what is new, or once a week a line."""
    problems = channels.tell(channels.always(suite), message, verdict)
    if verdict.has_news:
        lost = channels.tell(channels.people(suite), message, verdict)
        return _Told(not lost, bool(lost), (*problems, *lost))
    if not _line_is_due(suite, history, verdict):
        return _Told(False, False, problems)
    line = Message(title=message.title, exit_code=message.exit_code)
    lost = channels.tell(channels.people(suite), line, verdict)
    return _Told(not lost, False, (*problems, *lost))


def _line_is_due(suite: Suite, history: History, verdict: NightVerdict) -> bool:
    if suite.quiet != "weekly":
        return suite.quiet == "always"
    now = datetime.fromisoformat(verdict.at)
    last = [n for n in history.nights if n.told and now - datetime.fromisoformat(n.at) < _WEEK]
    return not last


def _tell_trouble(suite: Suite, error: PipelineError) -> None:
    """A night that could not be run is news too; the command's own errors have it as they are."""
    title = f"{suite.name} {datetime.now(UTC):%Y-%m-%d}: the night could not be run"
    message = Message(title=title, exit_code=error.exit_code, footer=(str(error),))
    missed = []
    for channel in (one for one in suite.tell if not isinstance(one, ConsoleChannel)):
        if problems := channels.tell([channel], message, None):
            missed.append(channel)
            console.warn(*problems)
    try:
        failed.leave(suite.name, message, missed, os.environ)
    except PipelineError as unwritten:
        console.warn(str(unwritten))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
