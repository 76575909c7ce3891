"""`python -m jobs.alarm suite=NAME`: say that a night ended without saying anything itself.

A scheduler calls it when `jobs.nightly` crashed, was killed, or could not read its configuration.
systemd tells which unit it was and how it ended; another scheduler gives `what=…`. Of a night that
told people itself why it could not be run nothing more is said.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from jobs import channels, failed
from jobs.loading import load_suite
from jobs.message import Line, Message, Section
from pipeline import console
from pipeline.commandline import split
from pipeline.errors import EXIT_CRASH, EXIT_NO_INFRASTRUCTURE, EXIT_OK, InputError, PipelineError
from pipeline.verbs import helped, options

USAGE = "python -m jobs.alarm suite=NAME [what=SENTENCE]"
_LINES = 15


def main(argv: Sequence[str]) -> int:
    """Tell everybody the suite names; 5 where a channel did not take it, 2 where none is known."""
    if helped(argv, f"{USAGE}\n\n{__doc__}".strip()):
        return EXIT_OK
    try:
        arguments = split(argv)
        words, given = options(arguments.overrides, ("suite", "what"), USAGE)
        if words or "suite" not in given:
            raise InputError("one suite is needed", where="suite", allowed=USAGE)
        suite = load_suite(given["suite"], arguments.folders)
        said = failed.take(suite.name, os.environ)
        if said is not None:
            sys.stdout.write(f"told by the night itself: {said.message.title}\n")
            problems = channels.tell(said.missed, said.message, None)
        else:
            message = compose(suite.name, given.get("what"), os.environ)
            problems = channels.tell(suite.tell, message, None)
    except PipelineError as error:
        console.fail(f"{error}; nobody was told that a night ended without a verdict")
        return error.exit_code
    for problem in problems:
        console.warn(problem)
    return EXIT_NO_INFRASTRUCTURE if problems else EXIT_OK


def compose(suite: str, what: str | None, environment: Mapping[str, str]) -> Message:
    """The message, with the end of the unit's journal where systemd called."""
    unit = environment.get("MONITOR_UNIT", "")
    status = environment.get("MONITOR_EXIT_STATUS", "")
    ended = environment.get("MONITOR_SERVICE_RESULT", "")
    how = what or (f"{unit} ended with {ended} {status}".strip() if unit else "it crashed")
    lines = [Line(about=unit, text=line) for line in _journal(unit)] if unit else []
    return Message(
        title=f"{suite} {datetime.now(UTC):%Y-%m-%d}: the night ended without a verdict",
        exit_code=int(status) if status.isdecimal() else EXIT_CRASH,
        sections=(Section(heading="Its last words", lines=tuple(lines)),) if lines else (),
        footer=(how,),
    )


def _journal(unit: str) -> list[str]:
    command = [
        "journalctl",
        "--unit",
        unit,
        "--lines",
        str(_LINES),
        "--output",
        "cat",
        "--no-pager",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
