"""Put an MTP head into a checkpoint's index: read, decide, note down, bring, rename.

Whatever moment the process ends at, the index is the old one or the new one, whole; the same
command then goes on from there, and `undo` leads back.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from pipeline.checkpoints import undo
from pipeline.checkpoints.advice import warnings
from pipeline.checkpoints.errors import is_file
from pipeline.checkpoints.files import bring, locked, remove_stale, require_space, write_bytes
from pipeline.checkpoints.index import INDEX_NAME, render_index
from pipeline.checkpoints.registration import Asked, Registration, plan
from pipeline.errors import PipelineError
from pipeline.spec import Record


class Outcome(Record):
    """What was found and what was done about it.

    Attributes:
        changed: True where the folder is not as it was.
        brought: how each file that was brought came (hard link, shared blocks, copy).
        warnings: sentences about the head itself.
    """

    registration: Registration
    changed: bool
    brought: dict[str, str]
    warnings: tuple[str, ...]


def examine(asked: Asked) -> Outcome:
    """Say what `apply` would do; nothing is written.

    Raises:
        PipelineError: the checkpoint is damaged, has no head, or two files claim it.
    """
    found = plan(asked)
    return Outcome(registration=found, changed=False, brought={}, warnings=_warnings(found))


def apply(asked: Asked) -> Outcome:
    """Make the index name the whole head; where it does already, nothing is written.

    Raises:
        PipelineError: what `examine` raises, and what keeps a file from being written; the
            original index is then still in place.
    """
    with locked(asked.folder):
        found = plan(asked)
        brought: dict[str, str] = {}
        if found.bring or found.rewrites:
            brought = _write(found)
    changed = bool(found.bring) or found.rewrites
    return Outcome(registration=found, changed=changed, brought=brought, warnings=_warnings(found))


def revert(folder: Path) -> undo.Undone:
    """Undo every registration in this folder.

    Raises:
        PipelineError: there is nothing to undo, or undoing would lose someone's change.
    """
    with locked(folder):
        return undo.undo(folder)


def _warnings(found: Registration) -> tuple[str, ...]:
    return warnings(found.asked.folder, found.asked.prefix, found.head)


def _write(found: Registration) -> dict[str, str]:
    folder = found.asked.folder
    text = render_index(found.index, found.weight_map, found.total_size)
    require_space(folder, 2 * len(text))
    remove_stale(folder)
    first = not is_file(folder / undo.NOTE_NAME)
    try:
        after = hashlib.sha256(text).hexdigest() if found.rewrites else None
        undo.remember(folder, found.index.digest, after, _notes(found))
        how = {name: bring(path, folder / name) for name, path in found.bring.items()}
        if found.rewrites:
            write_bytes(folder / INDEX_NAME, text)
    except (PipelineError, KeyboardInterrupt):
        # A refused write should leave nothing behind; one that cannot be undone leaves the note.
        if first:
            with suppress(PipelineError):
                undo.undo(folder)
        raise
    return how


def _notes(found: Registration) -> tuple[undo.Brought, ...]:
    return tuple(
        undo.Brought(
            name=name,
            source=str(path),
            file_size=found.extras[name].file_size,
            header_sha256=found.extras[name].digest,
        )
        for name, path in found.bring.items()
    )
