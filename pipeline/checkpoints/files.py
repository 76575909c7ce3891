"""Writes that are whole or absent, and never go through a link.

A new file is written beside its place, flushed to the disk and renamed over it. A hub cache keeps
links to a shared blob store in its folders: the rename replaces the link and leaves the blob as it
is. Every step leaves the folder usable, so that a process may be killed between any two.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pipeline.checkpoints.errors import BusyError, NoSpaceError, reading, writing

CHUNK_BYTES = 8 << 20
# Room for directory entries and the notes that are written beside the weights.
SPARE_BYTES = 1 << 20
_MARK = ".checkpoint-tmp"
# ioctl(2): make a file share the blocks of another, on file systems that can.
_FICLONE = 0x40049409


def temporary_of(path: Path) -> Path:
    """Where the next content of `path` is prepared; hidden, and no weights by its name."""
    return path.with_name(f".{path.name}{_MARK}")


def is_temporary(path: Path) -> bool:
    """True for what `temporary_of` names."""
    return path.name.startswith(".") and path.name.endswith(_MARK)


def same_content(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes; false where either is not there.

    Raises:
        UnreadableFileError: the operating system refuses.
    """
    if not (one.is_file() and other.is_file()):
        return False
    with reading(other):
        return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def remove_stale(folder: Path) -> None:
    """Remove what a killed run prepared and did not put in place."""
    with writing(folder):
        for path in folder.glob(f".*{_MARK}"):
            path.unlink(missing_ok=True)


def write_file(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Write a file with `fill`, whole or not at all; a link at `path` is replaced.

    Raises:
        UnwritableError: the operating system refuses; `path` is as before.
    """
    temporary = temporary_of(path)
    with writing(path):
        try:
            with temporary.open("wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            put(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file, whole or not at all.

    Raises:
        UnwritableError: the operating system refuses; `path` is as before.
    """

    def fill(file: BinaryIO) -> None:
        file.write(content)

    write_file(path, fill)


def put(temporary: Path, path: Path) -> None:
    """Rename over `path` and make the rename durable."""
    temporary.replace(path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a name, durably; one that is gone already is fine.

    Raises:
        UnwritableError: the operating system refuses.
    """
    with writing(path):
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep_as(path: Path, backup: Path) -> None:
    """Give the file or link at `path` a second name, which outlives a rename over the first.

    A hard link (or an equal symbolic link) copies no byte and keeps times and owner; where the
    file system has none the content is copied.

    Raises:
        UnwritableError: the operating system refuses.
    """
    with writing(backup):
        if path.is_symlink():
            # Path would tidy the text of the link, which should come back as it was.
            os.symlink(os.readlink(path), backup)  # noqa: PTH115, PTH211
        elif not _linked(path, backup):
            content = path.read_bytes()
            write_bytes(backup, content)
        sync_folder(backup.parent)


def bring(source: Path, path: Path) -> str:
    """Put a large file at `path` by hard link, shared blocks or copy; says which.

    Raises:
        NoSpaceError: a copy would not fit.
        UnwritableError: the operating system refuses; nothing is at `path`.
    """
    source = source.resolve()
    temporary = temporary_of(path)
    with writing(path):
        temporary.unlink(missing_ok=True)
        if _linked(source, temporary):
            put(temporary, path)
            return "hard link"
        if _cloned(source, temporary):
            put(temporary, path)
            return "shared blocks"
    with reading(source):
        size = source.stat().st_size
    require_space(path.parent, size)
    copy(source, size, path)
    return "copy"


def copy(source: Path, size: int, path: Path) -> None:
    """Copy the first `size` bytes of a file, whole or not at all.

    Raises:
        UnreadableFileError, UnwritableError: the operating system refuses; `path` is as before.
    """
    write_file(path, lambda file: file.writelines(chunks(source, 0, size)))


def chunks(source: Path, begin: int, size: int) -> Iterator[bytes]:
    """`size` bytes of a file from `begin`, a few at a time.

    Raises:
        UnreadableFileError: the file cannot be read, or ends early.
    """
    with reading(source):
        file = source.open("rb")
    with file:
        left = size
        while left:
            # Around the read alone: what the caller does with a chunk fails under its own name.
            with reading(source):
                chunk = os.pread(file.fileno(), min(CHUNK_BYTES, left), begin + size - left)
                if not chunk:
                    raise OSError(errno.EIO, "it ended early")
            left -= len(chunk)
            yield chunk


def digest_of(path: Path) -> str:
    """sha256 of a file read from the disk rather than from the cache, where that can be asked.

    Raises:
        UnreadableFileError: the file cannot be read.
    """
    running = hashlib.sha256()
    with suppress(OSError), path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with reading(path):
        size = path.stat().st_size
    for chunk in chunks(path, 0, size):
        running.update(chunk)
    return running.hexdigest()


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raise where a write of this size would not fit.

    Raises:
        NoSpaceError: less is free.
    """
    with reading(folder):
        free = shutil.disk_usage(folder).free
    if free < needed_bytes + SPARE_BYTES:
        raise NoSpaceError(folder, needed_bytes + SPARE_BYTES, free)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder alone; the lock leaves no file and ends with the process.

    Raises:
        BusyError: another process holds it.
    """
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(folder) from error
    except OSError:
        # Some network file systems know no locks: there, one user at a time is a convention.
        return


def _linked(source: Path, path: Path) -> bool:
    try:
        os.link(source, path)
    except OSError as error:
        # Another file system, none that links, or one that forbids links to others' files.
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES):
            return False
        raise
    return True


def _cloned(source: Path, temporary: Path) -> bool:
    try:
        with source.open("rb") as original, temporary.open("wb") as clone:
            fcntl.ioctl(clone.fileno(), _FICLONE, original.fileno())
            os.fsync(clone.fileno())
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return False
    return True
