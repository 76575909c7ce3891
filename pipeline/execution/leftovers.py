"""Processes that a killed run left on a machine, and what they share: found, named, and ended.

Whatever a sweep starts carries a mark in its environment with the process it belongs to: an engine
its worker, Ray's processes the driver. A marked process whose owner is gone serves nobody, nor does
what it started: some of Ray's processes write their title over their environment, mark and all.
Nothing else is ever touched, nor what a container marked: ids mean something only in the
namespace that gave them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from pipeline.execution.shared_memory import free_mapped, free_named, is_tracker

# In the environment of every process of an engine: the worker that started it.
MARK = "SPEC_DECODE_PIPELINE_ENGINE"
# In that of every process of a Ray that a driver started: the driver.
SWEEP_MARK = "SPEC_DECODE_PIPELINE_SWEEP"
# How a worker's temporary folder begins; its mark follows.
_FOLDER = "spec-decode-"
_NOTED = "processes"
# In the environment of an engine's processes: the folder in which they write themselves down.
FOLDER = "SPEC_DECODE_PIPELINE_FOLDER"
_POLITE_S, _END_S = 2.0, 5.0


def mark_of(pid: int) -> str:
    """A process by id, moment of start, since ids are given again, and namespace of ids."""
    return f"{pid}.{_started(pid)}.{_namespace()}"


def of_mark(mark: str) -> psutil.Process | None:
    """The process that a mark names, where it still runs."""
    with contextlib.suppress(psutil.Error, ValueError):  # half a mark names none
        process = psutil.Process(int(mark.partition(".")[0]))
        return process if mark_of(process.pid) == mark and runs(process) else None
    return None


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended; one that waits only for its parent has."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def name_of(process: psutil.Process) -> str:
    """A process's name; empty for one that has ended."""
    with contextlib.suppress(psutil.Error):
        return process.name()
    return ""


def orphans() -> list[psutil.Process]:
    """Marked processes whose owner is gone, and what they started."""
    return _with_descendants(p for p, env in _marked() if _serves_nobody(p, env))


def marked_by(owner: str) -> list[psutil.Process]:
    """What a driver started, itself and this process excepted."""
    return _with_descendants(p for p, env in _marked() if env.get(SWEEP_MARK) == owner)


def end(processes: Iterable[psutil.Process]) -> tuple[str, ...]:
    """End processes and free the shared memory that only they held; what each was, in words."""
    found = [p for p in processes if p.is_running()]
    names = tuple(_named(p) for p in found)
    trackers = [p for p in found if is_tracker(p)]
    free_mapped(found)
    _ended(_ended([p for p in found if p not in trackers], "terminate", _POLITE_S), "kill", _END_S)
    _, trackers = psutil.wait_procs(trackers, _POLITE_S)
    _ended(trackers, "kill", _END_S)
    free_named(p.pid for p in found)
    return names


def end_own_group() -> None:
    """End this process and all others of its group, and free what they share."""
    own = psutil.Process()
    try:
        mates = group(os.getpgrp())
        free_mapped(mates)
        rest = _ended([p for p in mates if p != own and not is_tracker(p)], "kill", _END_S)
        folder = os.environ.get(FOLDER)
        free_named([p.pid for p in mates] + (noted_pids(Path(folder)) if folder else []))
        if not rest and all(p == own or is_tracker(p) for p in group(os.getpgrp())):
            own.kill()
    finally:
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _ended(processes: list[psutil.Process], how: str, patience_s: float) -> list[psutil.Process]:
    """Tell processes to end; those that have not in time."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            getattr(process, how)()
    return list(psutil.wait_procs(processes, patience_s)[1])


def group(number: int) -> list[psutil.Process]:
    """The processes of a group that still run; zombies wait only for their parent."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == number and runs(process):
                found.append(process)
    return found


def clear() -> tuple[str, ...]:
    """End what serves nobody on this machine, and remove what killed workers left on its disk."""
    names = end(dict.fromkeys([*orphans(), *(p for f in _left() for p in _running(f))]))
    remove_folders()
    return names


def remove_folders() -> None:
    """Remove what killed workers and engines left on this machine's disk and in its memory.

    What still runs is not ended, and so that it is found, its folder stays.
    """
    for folder in _left():
        if not _running(folder):
            free_named(noted_pids(folder))
            shutil.rmtree(folder, ignore_errors=True)


def note_self() -> None:
    """Write this process down in its engine's folder, where it was started with one.

    vLLM's engine core writes its title over its environment. Without its mark, and once the process
    that started it is gone too, this is all that it can be found by; and where it was killed, what
    its libraries left.
    """
    if folder := os.environ.get(FOLDER):
        with contextlib.suppress(OSError), (Path(folder) / _NOTED).open("a") as file:
            file.write(f"{mark_of(os.getpid())}\n")


def noted_pids(folder: Path) -> list[int]:
    """The numbers of those processes of an engine that have ended and were not given again."""
    marks = (m.partition(".")[0] for m in _noted(folder) if m.endswith(f".{_namespace()}"))
    return [int(pid) for pid in marks if pid.isdigit() and _started(int(pid)) is None]


def _left() -> list[Path]:
    """The folders of workers that are gone."""
    folders = Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*")
    return [f for f in folders if not _lives(f.name.removeprefix(_FOLDER).partition("-")[0])]


def _running(folder: Path) -> list[psutil.Process]:
    return [p for mark in _noted(folder) if (p := of_mark(mark)) is not None]


def _noted(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (folder / _NOTED).read_text().splitlines()
    return []


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for this process, which the next run removes if this process is killed."""
    return tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{mark_of(os.getpid())}-")


def die_with_parent(*, freeing: bool = False) -> None:
    """End this process when its parent is gone: a worker does not outlive its raylet.

    Args:
        freeing: also the shared memory that only this process holds by then.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        try:
            if freeing:
                free_mapped([psutil.Process()])
                free_named([os.getpid()])
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _marked() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            env = process.environ()
            if (MARK in env or SWEEP_MARK in env) and runs(process):
                yield process, env


def _with_descendants(roots: Iterable[psutil.Process]) -> list[psutil.Process]:
    found: dict[psutil.Process, None] = {}
    for process in roots:
        found[process] = None
        with contextlib.suppress(psutil.Error):
            found |= dict.fromkeys(process.children(recursive=True))
    found.pop(psutil.Process(), None)
    return [p for p in found if runs(p)]


def _serves_nobody(process: psutil.Process, env: dict[str, str]) -> bool:
    if (driver := env.get(SWEEP_MARK)) is not None and not _lives(driver):
        return True
    worker = env.get(MARK, "")
    if not worker.isdigit():
        return not _lives(worker)
    # A bare id is what engines were marked with before.
    began, own = _started(int(worker)), _started(process.pid)
    # An owner that began later was only given the number of the real one.
    return own is not None and (began is None or began > own)


def _lives(mark: str) -> bool:
    """Whether the very process that a mark names still runs; a mark of another kind, or of another
    namespace, is let be. One that names no namespace is an old one of this."""
    pid, began, namespace = [*mark.split("."), "", ""][:3]
    if not (pid.isdigit() and began.isdigit()) or namespace not in ("", _namespace()):
        return True
    return str(_started(int(pid))) == began


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the machine did, so that no clock that is set can make
    one process look like another; None for one that has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else int(fields[18])


def _named(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        line = " ".join(process.cmdline())[:80] or process.name()
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(process.create_time()))
        return f"process {process.pid} ({line}, since {began})"
    return f"process {process.pid}"
