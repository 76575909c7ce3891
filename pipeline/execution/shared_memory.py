"""Shared memory of processes that are ended, which none of them would free by itself.

What a process maps is found while it lives. What one that was killed had created is known to
Python's resource tracker of its group, which frees it once all that it serves are gone; so trackers
are the last to end, and by themselves. What libraries keep without mapping it is found by the
number of its process, after its end, since it may be made until then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

_SHARED = Path("/dev/shm")
_NAMED_BY_PID = ("__KMP_REGISTERED_LIB_{}_*", "sem.loky-{}-*")
_TRACKER = "multiprocessing.resource_tracker"


def is_tracker(process: psutil.Process) -> bool:
    """Whether it is a resource tracker of Python's, which ends when those that it serves have."""
    with contextlib.suppress(psutil.Error):
        return any(_TRACKER in word for word in process.cmdline())
    return False


def free_mapped(processes: Iterable[psutil.Process]) -> None:
    """Take the names off the shared memory that only some processes, about to be ended, hold.

    It is gone with them then; killed, they would not see to it.
    """
    ending = set(processes)
    segments = {segment for process in ending for segment in _segments(process)}
    others = (p for p in psutil.process_iter() if p not in ending) if segments else ()
    for segment in segments - {s for process in others for s in _segments(process)}:
        with contextlib.suppress(OSError):
            segment.unlink()


def free_named(pids: Iterable[int]) -> None:
    """Remove what libraries keep under the numbers of processes that have ended, or will at once.

    Intel's OpenMP registers itself so, and loky its semaphores; a killed process leaves both.
    """
    for pattern in (p.format(pid) for pid in pids for p in _NAMED_BY_PID):
        for path in _SHARED.glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()


def _segments(process: psutil.Process) -> set[Path]:
    """The shared memory that a process has mapped and that still has a name."""
    try:
        lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    paths = (line.partition(f"{_SHARED}/")[2] for line in lines)
    return {_SHARED / name for name in paths if name and not name.endswith("(deleted)")}
