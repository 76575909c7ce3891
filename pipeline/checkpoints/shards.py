"""The shards of a build: streamed, read back, and noted down, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import ValidationError

from pipeline.checkpoints import strictjson
from pipeline.checkpoints.errors import DamagedJsonError, VerificationError, is_file
from pipeline.checkpoints.files import chunks, digest_of, remove, write_bytes, write_file
from pipeline.checkpoints.hybrid import Hybrid, Shard
from pipeline.spec import Record

NOTE_NAME = ".build-hybrid.json"


class BuildNote(Record):
    """What a build has finished: the files it reads, and shard → sha256 of what was verified."""

    schema_version: Literal[1] = 1
    sources: dict[str, str]
    shards: dict[str, str]


def read_note(folder: Path) -> BuildNote | None:
    """The note of an earlier run, or None.

    Raises:
        DamagedJsonError, UnreadableFileError: it is there and cannot be used.
    """
    path = folder / NOTE_NAME
    if not is_file(path):
        return None
    text, _ = strictjson.read(path)
    try:
        return BuildNote.model_validate_json(text)
    except ValidationError as error:
        raise DamagedJsonError(path, "it is not a note of build-hybrid") from error


def write_note(folder: Path, note: BuildNote) -> None:
    """Replace the note.

    Raises:
        UnwritableError: the operating system refuses.
    """
    write_bytes(folder / NOTE_NAME, (note.model_dump_json(indent=1) + "\n").encode())


def write_shards(
    folder: Path, plan: Hybrid, note: BuildNote
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write each shard that is not there as it was verified.

    Returns:
        the names of those that were, and of those written.

    Raises:
        UnwritableError, UnreadableFileError: the operating system refuses; the shards before this
            one stay.
        VerificationError: a shard reads back differently; it is removed.
    """
    kept: list[str] = []
    for shard in plan.shards:
        path, digest = folder / shard.name, note.shards.get(shard.name)
        if digest is not None and is_file(path) and digest_of(path) == digest:
            kept.append(shard.name)
            continue
        digest = _write_shard(path, shard)
        note = note.model_copy(update={"shards": {**note.shards, shard.name: digest}})
        write_note(folder, note)
    return tuple(kept), tuple(s.name for s in plan.shards if s.name not in kept)


def _write_shard(path: Path, shard: Shard) -> str:
    """Stream one shard into place and read it back; returns its sha256."""
    running = hashlib.sha256()

    def fill(file: BinaryIO) -> None:
        for chunk in _content(shard):
            running.update(chunk)
            file.write(chunk)

    write_file(path, fill)
    if digest_of(path) != running.hexdigest():
        remove(path)
        raise VerificationError(path)
    return running.hexdigest()


def _content(shard: Shard) -> Iterator[bytes]:
    yield shard.head
    for piece in shard.pieces:
        yield from chunks(piece.source, piece.offset, piece.tensor.size)
