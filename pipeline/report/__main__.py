"""`python -m pipeline.report OUTPUT`: write the report of a sweep from its records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline import console
from pipeline.errors import EXIT_OK, InputError, PipelineError
from pipeline.outputs import Outputs
from pipeline.report import MARKDOWN, write_report
from pipeline.verbs import helped, options

USAGE = "python -m pipeline.report OUTPUT"


def main(argv: Sequence[str]) -> int:
    """Write one sweep's report and print its answer; returns the exit code."""
    if helped(argv, USAGE):
        return EXIT_OK
    try:
        folder = _parse(argv)
        outputs = Outputs(folder.parent, folder.name, console.warn_set_aside)
        plan = outputs.plan()
        asked = [cell.fingerprint for cell in plan.cells] if plan else None
        report = write_report(outputs, asked)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{report.answer}\n\n{folder / MARKDOWN}\n{report.html}\n")
    return EXIT_OK


def _parse(argv: Sequence[str]) -> Path:
    words, _ = options(argv, (), USAGE)
    if len(words) != 1:
        raise InputError("one folder is needed", allowed=USAGE)
    folder = Path(words[0]).resolve()
    # A report without cells would take the place of one that has them.
    if not any((folder / "cells").glob("*.json")):
        raise InputError(
            "no cell of a sweep is recorded here",
            where=words[0],
            remedy="give the folder of a sweep, such as outputs/spec_methods",
        )
    return folder


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
