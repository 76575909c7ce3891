"""A file lock that tells its owner to whoever finds it taken; it ends with its holder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from pipeline.errors import InfrastructureError, PipelineError


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
    lock = FileLock(path, mode=0o666)
    try:
        lock.acquire(timeout=patience_s)
    except Timeout as error:
        raise busy(_read(note)) from error
    except OSError as error:
        raise UnusableLockError(path, error) from error
    try:
        with contextlib.suppress(OSError):
            note.write_text(f"{owner}, process {os.getpid()}")
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)
        lock.release()


def _read(note: Path) -> str:
    try:
        return note.read_text()
    except OSError:
        return "an unknown owner"
