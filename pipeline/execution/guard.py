"""What a driver starts on its machine goes with it, whatever becomes of the driver.

`python -m pipeline.execution.guard OWNER GROUP` runs beside a driver and ends what it left when it
is gone without a word, killed or ended by Ray. It is told by standard input what the driver
started, since the agents of a raylet lose their mark, and with the raylet the parent by which they
are found; they see that it is gone and then wait a minute for a GCS that is gone too. Where Ray
ends the driver while it starts, there was no time to tell: then they are found by their titles, in
the driver's process group and without a raylet.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import psutil

from pipeline.execution.leftovers import (
    SWEEP_MARK,
    end,
    group,
    mark_of,
    marked_by,
    name_of,
    of_mark,
    remove_folders,
)

_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
_GRACE_S = 2.0
_OVER = "over"
_SAID = (
    "\nthe command ended without a word: it was killed, or Ray ended it because its raylet was"
    " gone; what it had running is ended too, no measured cell is lost, and the same command goes"
    " on\n"
)


class Guard:
    """A driver's side of its guard."""

    def __init__(self, owner: str, process: subprocess.Popen[bytes]) -> None:
        self._owner, self._process = owner, process
        self._noted: set[str] = set()

    def note(self) -> None:
        """Remember what runs now, so that it is found whatever becomes of its mark and parent."""
        new = {mark_of(p.pid) for p in marked_by(self._owner)} - self._noted
        self._noted |= new
        self._tell("".join(f"{mark}\n" for mark in sorted(new)))

    def end(self) -> None:
        """End all that the driver started."""
        end(_left(self._owner, os.getpgrp(), self._noted))
        remove_folders()

    def dismiss(self) -> None:
        """Nothing is left to look after."""
        self._tell(_OVER)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it was ended, and what follows does without it
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """Mark what this process starts, and have it ended when this process goes without a word."""
    owner = mark_of(os.getpid())
    command = [sys.executable, "-m", "pipeline.execution.guard", owner, str(os.getpgrp())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    guard = Guard(owner, process)
    os.environ[SWEEP_MARK] = owner
    try:
        yield guard
    finally:
        os.environ.pop(SWEEP_MARK, None)
        guard.end()
        guard.dismiss()


def _left(owner: str, number: int, noted: Iterable[str]) -> list[psutil.Process]:
    """What a driver, of this process group, started and still runs."""
    remembered = (of_mark(mark) for mark in noted)
    lone = (p for p in group(number) if _is_lone_agent(p))
    return list({*marked_by(owner), *(p for p in remembered if p is not None), *lone})


def _is_lone_agent(process: psutil.Process) -> bool:
    """Whether it is an agent of a raylet that is gone, and so serves nobody."""
    with contextlib.suppress(psutil.Error):
        parent = process.parent()
        if " ".join(process.cmdline()).startswith(_AGENTS):
            return parent is None or name_of(parent) != "raylet"
    return False


def _watch(owner: str, number: int) -> None:
    *noted, last = sys.stdin.read().split("\n")
    if last == _OVER:
        return
    time.sleep(_GRACE_S)
    while left := _left(owner, number, noted):
        end(left)
    # Where Ray ended an engine with its worker, nobody saw to its files.
    remove_folders()
    # Of a driver that Ray ended, nobody else says anything.
    with contextlib.suppress(OSError):
        sys.stderr.write(_SAID)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]))
