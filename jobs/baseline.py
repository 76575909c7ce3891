"""`python -m jobs.baseline`: what a suite's nights are compared with, and saying that it changed.

    show   suite=NAME [cell=LABEL]               each cell's baseline, and the decisions so far
    accept suite=NAME night=ID reason=WHY [cell=LABEL]   a new level began with that night
    pin    suite=NAME night=ID reason=WHY [cell=LABEL]   compare with that night only
    reset  suite=NAME reason=WHY [cell=LABEL]            take earlier decisions back

A decision is kept in MLflow with who took it and why. `cell` may be a pattern (`*/mtp-*/chat/*`).
The suite is looked for in `--config-dir FOLDER` too, and its nights in the store that
`tracking.uri=URI` names, as by the night itself.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from jobs.history import Decision, History, eligible, standard
from jobs.keeping import STORE, decision_entry, everything
from jobs.levels import nightly
from jobs.loading import load_suite
from jobs.night import Measured, Night
from jobs.signals import SIGNALS, UNITS, Signal, sample
from jobs.suite import NightRule, Suite
from pipeline import console
from pipeline.commandline import split
from pipeline.config import read_command_line
from pipeline.errors import EXIT_OK, InputError, PipelineError, nearest
from pipeline.execution.host import detect_platform
from pipeline.tracking.ledger import Keeper
from pipeline.verbs import helped, options

USAGE = (
    "python -m jobs.baseline show|accept|pin|reset suite=NAME [night=ID] [cell=LABEL] [reason=WHY]"
    " [tracking.uri=URI] [--config-dir FOLDER]"
)
# What each verb has to be given.
_NEEDED: dict[str, tuple[str, ...]] = {
    "show": (),
    "accept": ("night", "reason"),
    "pin": ("night", "reason"),
    "reset": ("reason",),
}


class _Arguments(NamedTuple):
    verb: str
    suite: Suite
    given: dict[str, str]
    folders: tuple[Path, ...]


def main(argv: Sequence[str]) -> int:
    """Run one verb and return its exit code."""
    if helped(argv, f"{USAGE}\n\n{__doc__}".strip()):
        return EXIT_OK
    try:
        verb, suite, given, folders = _arguments(argv)
        keeper = _keeper(suite, folders, given)
        history = everything(keeper, suite.name)
        lines: list[str] = []
        if verb != "show":
            decision = _decision(verb, suite, history, given)
            keeper.write(decision_entry(decision))
            history = History(history.nights, [*history.decisions, decision])
            lines = [f"recorded: {_said(decision)}"]
        lines += _shown(history, suite, given.get("cell") if verb == "show" else None)
        console.console_for(sys.stdout).print("\n".join(lines), soft_wrap=True)
    except PipelineError as error:
        console.fail(str(error))
        return error.exit_code
    return EXIT_OK


def _arguments(argv: Sequence[str]) -> _Arguments:
    arguments = split(argv)
    known = ("suite", "night", "cell", "reason", *STORE)
    words, given = options(arguments.overrides, known, USAGE)
    if len(words) != 1 or "suite" not in given:
        raise InputError("one verb and a suite are needed", allowed=USAGE)
    verb = words[0]
    if verb not in _NEEDED:
        raise InputError(
            f"there is no verb '{verb}'{nearest(verb, _NEEDED)}", allowed=", ".join(_NEEDED)
        )
    for key in _NEEDED[verb]:
        if key not in given:
            raise InputError(f"'{verb}' needs {key}=…", allowed=USAGE)
    for key in ("night", "reason"):
        if key in given and key not in _NEEDED[verb]:
            raise InputError(f"'{verb}' takes no {key}", allowed=USAGE)
    suite = load_suite(given["suite"], arguments.folders)
    return _Arguments(verb, suite, given, arguments.folders)


def _keeper(suite: Suite, folders: Sequence[Path], given: Mapping[str, str]) -> Keeper:
    """The store of the suite's sweep, which may be made of options in the user's own folders."""
    users = [f"--config-dir={folder}" for folder in folders]
    stores = [f"{key}={given[key]}" for key in STORE if key in given]
    command = [*suite.command, *stores, "dry_run=true", *users]
    config = read_command_line(command, detect_platform)
    assert config is not None, "a suite runs a sweep"
    return Keeper(config.name, config.tracking.uri)


def _decision(verb: str, suite: Suite, history: History, given: dict[str, str]) -> Decision:
    """The decision that was typed.

    Raises:
        InputError: there is no such night or cell, or it measured nothing that could be compared
            with.
    """
    night = given.get("night", "")
    meant = _night(history, suite, night) if night else None
    cells = _cells(history, given.get("cell"))
    if meant is not None:
        usable = _usable(meant, cells, suite.rule)
        cells = usable if cells else ()
    return Decision(
        action=verb,
        suite=suite.name,
        night=night,
        cells=cells,
        reason=given["reason"],
        by=getpass.getuser(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _night(history: History, suite: Suite, id_: str) -> Night:
    nights = {one.id: one for one in history.nights}
    if id_ not in nights:
        raise InputError(
            f"there is no night '{id_}'{nearest(id_, nights)}",
            where=f"suite {suite.name}",
            allowed=", ".join(list(nights)[-10:]) or "none yet",
        )
    return nights[id_]


def _usable(night: Night, cells: Sequence[str], rule: NightRule) -> tuple[str, ...]:
    """Of some cells or all, those that later nights can be compared with as it measured them."""
    found = tuple(
        one.label
        for one in night.cells
        if (not cells or one.label in cells)
        and all(eligible(measured, rule) for measured in night.measurements(one.fingerprint))
    )
    if not found:
        raise InputError(
            f"the night holds no usable measurement of {', '.join(cells) or 'any cell'}",
            where=f"night {night.id}",
            allowed="a night in which it is OK, its drafts are accepted and its answers lossless",
        )
    return found


def _cells(history: History, pattern: str | None) -> tuple[str, ...]:
    if pattern is None:
        return ()
    labels = sorted({cell.label for night in history.nights for cell in night.cells})
    found = tuple(label for label in labels if fnmatchcase(label, pattern))
    if not found:
        raise InputError(
            f"no cell is called '{pattern}'{nearest(pattern, labels)}", allowed=", ".join(labels)
        )
    return found


def _shown(history: History, suite: Suite, pattern: str | None) -> Iterator[str]:
    """Each cell's baseline and every decision, of the cells that a pattern picks."""
    if history.last is None:
        yield f"{suite.name} has no night yet"
    else:
        here = [one for one in history.nights if one.node_class == history.last.node_class]
        alike = History(here, history.decisions)
        picked = _cells(history, pattern) or [cell.label for cell in history.last.cells]
        cells = [cell for cell in history.last.cells if cell.label in picked]
        for cell in cells:
            yield f"{cell.label}: {_baseline(alike, cell, suite.rule)}"
        if not cells:
            yield f"the newest night, {history.last.id}, did not measure {', '.join(picked)}"
    for one in history.decisions:
        if pattern is None or not one.cells or any(fnmatchcase(c, pattern) for c in one.cells):
            yield f"{one.at[:16]} {one.by}: {_said(one)}"


def _said(decision: Decision) -> str:
    cells = ", ".join(decision.cells) or "all cells"
    what = " ".join(filter(None, (decision.action, decision.night)))
    return f"{what} ({cells}): {decision.reason}"


def _baseline(history: History, cell: Measured, rule: NightRule) -> str:
    decided = history.decided(cell.label)
    parts = []
    for signal in SIGNALS:
        levels = history.levels(cell.fingerprint, partial(sample, signal=signal), rule)
        if chosen := standard(levels, decided, rule):
            parts.append(_level(signal, nightly(chosen)))
    said = {"pin": "pinned to", "accept": "level since"}
    why = f"; {said[decided.action]} {decided.night}" if decided is not None else ""
    return ", ".join(parts or ["no baseline"]) + why


def _level(signal: Signal, values: Sequence[float]) -> str:
    mean, low, high = fmean(values), min(values), max(values)
    unit, nights = UNITS[signal], len(values)
    return f"{mean:.3g} {unit} ({low:.3g} to {high:.3g} in {nights} night{'s' * (nights != 1)})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
