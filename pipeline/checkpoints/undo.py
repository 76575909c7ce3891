"""The way back: what a registration notes down before it changes anything, and how it is undone.

The backup is a second name of the very file (or link) that was the index, so that undoing is one
rename and restores every byte, date and link. The note beside it says what was written and what was
brought, so that undoing never destroys something that somebody else did afterwards.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pipeline.checkpoints import strictjson
from pipeline.checkpoints.errors import (
    BackupInTheWayError,
    ChangedSinceError,
    DamagedFileError,
    DamagedJsonError,
    NothingToUndoError,
    PointerFileError,
    UnreadableFileError,
    is_file,
    reading,
    writing,
)
from pipeline.checkpoints.files import (
    keep_as,
    remove,
    remove_stale,
    same_content,
    sync_folder,
    write_bytes,
)
from pipeline.checkpoints.header import read_header
from pipeline.checkpoints.index import INDEX_NAME, is_plain_name
from pipeline.spec import Record

BACKUP_NAME = f"{INDEX_NAME}.before-mtp"
NOTE_NAME = ".register-mtp.json"


class Brought(Record):
    """A file that was brought: its name here, where it came from, and what it is."""

    name: str
    source: str
    file_size: int
    header_sha256: str


class Note(Record):
    """What a run is about to do.

    Attributes:
        before: sha256 of the original index, None where there was none.
        written: sha256 of each index that was written since.
    """

    schema_version: Literal[1] = 1
    before: str | None
    written: tuple[str, ...]
    brought: tuple[Brought, ...]


class Undone(Record):
    """What undoing did: the files it removed again, and those it left because no other is there."""

    restored: bool
    removed: tuple[str, ...]
    left: tuple[str, ...]


def read_note(folder: Path) -> Note | None:
    """The note of an earlier run, or None.

    Raises:
        DamagedJsonError, UnreadableFileError: it is there and cannot be used.
    """
    path = folder / NOTE_NAME
    if not is_file(path):
        return None
    text, _ = strictjson.read(path)
    try:
        note = Note.model_validate_json(text)
    except ValidationError as error:
        raise DamagedJsonError(path, "it is not a note of register-mtp") from error
    if not all(is_plain_name(brought.name) for brought in note.brought):
        raise DamagedJsonError(path, "it names a file outside the folder")
    return note


def remember(
    folder: Path, before: str | None, after: str | None, brought: tuple[Brought, ...]
) -> None:
    """Write the note of this run and keep the index as the backup, before anything changes.

    Args:
        folder: the checkpoint.
        before: sha256 of the index as it is now, None where there is none.
        after: sha256 of the index about to be written, None where it stays.
        brought: the files about to be brought.

    Raises:
        BackupInTheWayError: a backup exists that is not that of the present index.
        UnwritableError: the operating system refuses.
    """
    backup = folder / BACKUP_NAME
    kept = _digest(backup)
    note = read_note(folder) or Note(before=before, written=(), brought=())
    if before == note.before:
        if kept not in (None, before):
            raise BackupInTheWayError(backup)
    elif before not in note.written:
        raise BackupInTheWayError(backup if kept else folder / NOTE_NAME)
    note = Note(
        before=note.before,
        written=tuple(dict.fromkeys((*note.written, *((after,) if after else ())))),
        brought=tuple(dict.fromkeys((*note.brought, *brought))),
    )
    write_bytes(folder / NOTE_NAME, (note.model_dump_json(indent=1) + "\n").encode())
    if before is not None and before == note.before and kept is None and after is not None:
        keep_as(folder / INDEX_NAME, backup)


def undo(folder: Path) -> Undone:
    """Put the index back as it was and remove what was brought; may be repeated after a crash.

    Raises:
        NothingToUndoError: no run has left a note here.
        ChangedSinceError: the index is neither the original nor what was written.
        UnwritableError: the operating system refuses.
    """
    note = read_note(folder)
    if note is None:
        remove_stale(folder)
        raise NothingToUndoError(folder)
    restored = _restore(folder, note)
    removed: list[str] = []
    left: list[str] = []
    for brought in note.brought:
        path = folder / brought.name
        if not _is(path, brought):
            continue
        # Where the original is gone, ours is the last copy; and where the two differ, of one
        # layout, somebody has put another head there since, or another one where it came from.
        gone = not same_content(path, Path(brought.source))
        (left if gone else removed).append(brought.name)
        if not gone:
            remove(path)
    remove_stale(folder)
    remove(folder / NOTE_NAME)
    return Undone(restored=restored, removed=tuple(removed), left=tuple(left))


def _restore(folder: Path, note: Note) -> bool:
    index, backup = folder / INDEX_NAME, folder / BACKUP_NAME
    now, kept = _digest(index), _digest(backup)
    if now == note.before:
        remove(backup)
        return False
    if now not in note.written or kept != note.before:
        raise ChangedSinceError(index, backup)
    with writing(index):
        if note.before is None:
            index.unlink()
        else:
            backup.replace(index)
        sync_folder(folder)
    return True


def _digest(path: Path) -> str | None:
    if not is_file(path):
        return None
    with reading(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _is(path: Path, brought: Brought) -> bool:
    try:
        header = read_header(path)
    except (UnreadableFileError, DamagedFileError, PointerFileError):
        return False
    return (header.file_size, header.digest) == (brought.file_size, brought.header_sha256)
