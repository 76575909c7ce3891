"""A file lock that tells its owner to whoever finds it taken; it ends with its holder.

Users share a machine, and so its lock in a folder where nobody may write or remove what another one
made. `filelock` opens its file for writing and takes none that is somebody else's; to hold a lock
by flock(2) it is enough to read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline.errors import InfrastructureError, PipelineError

_LOOK_S = 0.05


class UnusableLockError(InfrastructureError):
    """A lock file that cannot be opened."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"this lock cannot be taken ({error.strerror})",
            where=str(path),
            remedy="remove what stands there, or correct its rights",
        )


@contextlib.contextmanager
def held(
    path: Path, owner: str, patience_s: float, busy: Callable[[str], PipelineError]
) -> Iterator[None]:
    """Hold a lock while the block runs.

    Args:
        path: the lock file; its owner is written beside it, for people.
        owner: who is told to others, in words; the process id is added.
        patience_s: how long to wait for somebody else to let go.
        busy: makes the error from the other owner's words.

    Raises:
        PipelineError: what `busy` made, when the lock stays taken.
        UnusableLockError: the file cannot be opened.
    """
    note = path.with_name(f"{path.name}.owner")
    try:
        file = _opened(path)
    except OSError as error:
        raise UnusableLockError(path, error) from error
    try:
        if not _taken(file, patience_s):
            raise busy(_read(note))
        try:
            with contextlib.suppress(OSError):
                note.write_text(f"{owner}, process {os.getpid()}")
            yield
        finally:
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)
    finally:
        os.close(file)


def _opened(path: Path) -> int:
    """The file, whoever made it."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(file, 0o644)  # whatever this user's mask leaves of it, others have to read it
    return file


def _taken(file: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        else:
            return True


def _read(note: Path) -> str:
    try:
        return note.read_text()
    except OSError:
        return "an unknown owner"
