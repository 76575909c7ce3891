"""`python -m pipeline +sweep=NAME`: a grid, measured.

    command line ─▶ SweepConfig ─▶ Plan ─▶ engine groups on Ray ─▶ records on disk ─▶ table, MLflow

Exit codes: 0 every cell is OK, 1 a crash of ours, 2 bad input, 3 some cells are not OK, 5 the
machine or the cluster cannot do it, 130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import sys

from pipeline import console
from pipeline.config import read_command_line
from pipeline.errors import EXIT_OK, PipelineError
from pipeline.execution.host import detect_platform
from pipeline.interrupts import Terminated
from pipeline.sweep import run


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        config = read_command_line(argv, detect_platform)
        return EXIT_OK if config is None else run(config, argv)
    except PipelineError as error:
        console.fail(str(error))
        return error.exit_code
    except Terminated:
        return 143
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
