"""Folders of the cache that appear whole or not at all.

A checkpoint is built in a temporary folder beside its final place, its digests are written last,
the files are flushed to disk and the folder is renamed. A process that finds the final folder
therefore finds it complete; one that is killed leaves only a temporary folder, which the next
builder (there is
one at a time: a file lock) removes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_dir

from pipeline.identity import file_digest
from pipeline.zoo.errors import CacheNotWritableError, NoSpaceError, TamperedFileError

CACHE_VARIABLE = "SPEC_DECODE_PIPELINE_CACHE"
DIGESTS_FILE = "digests.json"
_TEMPORARY = ".building-"


def cache_folder(cache_dir: Path | None = None) -> Path:
    """The zoo's folder: `cache_dir`, else $SPEC_DECODE_PIPELINE_CACHE, else the user's cache."""
    root = cache_dir or os.environ.get(CACHE_VARIABLE) or user_cache_dir("spec-decode-pipeline")
    try:
        return Path(root).expanduser() / "zoo"
    except RuntimeError as error:
        raise CacheNotWritableError(Path(root), str(error)) from error


sha256_of = file_digest


def read_digests(folder: Path) -> dict[str, str] | None:
    """File name → sha256 as written when `folder` was built; None where it is not complete."""
    try:
        loaded = json.loads((folder / DIGESTS_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return {str(name): str(digest) for name, digest in loaded.items()}


def combined_digest(digests: dict[str, str]) -> str:
    """One sha256 over all files of a folder, independent of the order they were written in."""
    canonical = json.dumps(digests, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def verify(folder: Path) -> None:
    """Read every file of a built folder again.

    Raises:
        TamperedFileError: a file is missing or differs from its digest.
    """
    remedy = f"delete the folder {folder}; it is built again when needed"
    for name, expected in (read_digests(folder) or {}).items():
        verify_file(folder / name, expected, remedy)


def verify_file(path: Path, expected: str, remedy: str) -> None:
    """Read a file and compare its sha256.

    Raises:
        TamperedFileError: it is missing or differs.
    """
    found = sha256_of(path) if path.is_file() else "missing"
    if found != expected:
        raise TamperedFileError(path, expected, found, remedy)


@contextmanager
def weights_written(path: Path) -> Iterator[None]:
    """Turn what safetensors and torch raise where the system refuses a file into an OSError.

    Raises:
        OSError: with the file's name.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        raise OSError(errno.EIO, str(error).splitlines()[0], str(path)) from error


def is_complete(folder: Path) -> bool:
    """True where every file named by the folder's digests exists (sizes and bytes are not read)."""
    digests = read_digests(folder)
    return digests is not None and all((folder / name).is_file() for name in digests)


def build_once(folder: Path, needed_bytes: int, fill: Callable[[Path], None]) -> Path:
    """Have `fill` write `folder`'s files, unless a complete folder is there already.

    Args:
        folder: final place.
        needed_bytes: free space asked for before anything is written.
        fill: writes all files into the (empty) folder it is given; may raise, nothing is kept then.

    Raises:
        NoSpaceError, CacheNotWritableError: before `fill` is called.
    """
    if is_complete(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / f".{folder.name}.lock")
        lock.acquire()
    except OSError as error:
        raise CacheNotWritableError(folder.parent, error.strerror or str(error)) from error
    try:
        if not is_complete(folder):
            _build(folder, needed_bytes, fill)
    finally:
        lock.release()
    return folder


def _build(folder: Path, needed_bytes: int, fill: Callable[[Path], None]) -> None:
    for stale in folder.parent.glob(f"{_TEMPORARY}{folder.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    require_space(folder.parent, needed_bytes)
    temporary = folder.parent / f"{_TEMPORARY}{folder.name}-{os.getpid()}"
    temporary.mkdir()
    try:
        fill(temporary)
        _seal(temporary)
        if folder.exists():  # incomplete: a file of it was deleted by hand
            shutil.rmtree(folder)
        temporary.replace(folder)
        _flush(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_space(folder: Path, needed_bytes: int) -> None:
    """Refuse to begin what would fill the disk of an existing folder.

    Raises:
        NoSpaceError: fewer bytes are free than are needed.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise NoSpaceError(folder, needed_bytes, free)


def _seal(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
    for path in files:
        _flush(path)
    sealed = folder / DIGESTS_FILE
    sealed.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    _flush(sealed)
    _flush(folder)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
