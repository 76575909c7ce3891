"""Run the tool once for every line of its writing code, killed (SIGKILL) before that line.

    python -m tests.checkpoints.killed TEMPLATE WORK links|no-links ARGUMENT ...

Copies TEMPLATE to WORK/0, WORK/1, … and runs the tool in each with `{}` in the arguments replaced
by that folder, the n-th one killed before the n-th line; ends when a run gets through. A line in a
loop counts for its first visits only. `no-links`: as on a file system where a large file has to be
copied.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.checkpoints import files
from pipeline.checkpoints.__main__ import main

MODULES = tuple(
    f"checkpoints/{name}.py" for name in ("files", "undo", "register", "shards", "build")
)
MOST_VISITS = 2


def no_link(*names: object, **options: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def kill_at(limit: int) -> None:
    """Kill this process before it executes the `limit`-th line of the modules."""
    seen = 0
    visits: Counter[tuple[str, int]] = Counter()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.endswith(MODULES):
            return None
        visits[frame.f_code.co_filename, frame.f_lineno] += event == "line"
        new = visits[frame.f_code.co_filename, frame.f_lineno] <= MOST_VISITS
        if event == "line" and new:
            if seen == limit:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
        return trace

    sys.settrace(trace)


def run(template: Path, work: Path, arguments: list[str]) -> None:
    """One forked run per line, until one ends by itself."""
    # Several chunks even for the few bytes of a test.
    files.CHUNK_BYTES = 64
    for number in count():
        folder = work / str(number)
        shutil.copytree(template, folder, symlinks=True)
        child = os.fork()
        if child == 0:
            kill_at(number)
            os._exit(main([argument.replace("{}", str(folder)) for argument in arguments]))
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    if sys.argv[3] == "no-links":
        os.link = no_link
    run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4:])
