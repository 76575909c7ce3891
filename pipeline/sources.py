"""Checkpoint references: what `zoo:NAME`, a folder or a hub id stands for, and its identity.

Identity is by content where the content is here, and by pinned revision where it is on a hub, so
that moving a folder changes nothing and editing a weight changes everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path

from pipeline import zoo
from pipeline.errors import InputError, nearest
from pipeline.identity import file_digest, fingerprint
from pipeline.zoo.storage import cache_folder

ZOO = "zoo:"
_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")


class CheckpointReferenceError(InputError):
    """A checkpoint reference that leads nowhere."""

    def __init__(self, reference: str, problem: str, *, allowed: str = "") -> None:
        super().__init__(problem, where=f"checkpoint {reference}", allowed=allowed)


def identity(reference: str, revision: str | None) -> str:
    """What a fingerprint holds for a checkpoint.

    Raises:
        CheckpointReferenceError: an unknown zoo name, a missing folder, or neither of the forms.
    """
    if reference.startswith(ZOO):
        return f"{reference}@sha256:{zoo.digest_of(_zoo_name(reference))}"
    if _is_path(reference):
        return f"sha256:{_folder_digest(_folder(reference))}"
    _check_hub_id(reference)
    return f"{reference}@{revision or 'unpinned'}"


def identity_for_show(reference: str, revision: str | None) -> str:
    """The identity for a plan that is only shown: a folder on another machine need not be here."""
    if _is_path(reference) and not Path(reference).expanduser().exists():
        return f"elsewhere:{reference}"
    return identity(reference, revision)


def resolve(reference: str) -> str:
    """What the engine is given on this node: a folder, or the hub id as it is.

    A zoo checkpoint is made first if it is not in the cache yet.
    """
    if reference.startswith(ZOO):
        return str(zoo.materialise(_zoo_name(reference)))
    if _is_path(reference):
        return str(_folder(reference))
    _check_hub_id(reference)
    return reference


def _zoo_name(reference: str) -> str:
    name = reference.removeprefix(ZOO)
    if name not in zoo.names():
        raise CheckpointReferenceError(
            reference,
            f"the zoo has no '{name}'{nearest(name, zoo.names())}",
            allowed=", ".join(zoo.names()),
        )
    return name


def _is_path(reference: str) -> bool:
    # A folder that is there is meant, also where its name could be a hub id: vLLM reads it so too.
    return reference.startswith(("/", "./", "../", "~")) or Path(reference).is_dir()


def _folder(reference: str) -> Path:
    path = Path(reference).expanduser().resolve()
    if not (path / "config.json").is_file():
        raise CheckpointReferenceError(
            reference,
            f"{path} is not a checkpoint folder",
            allowed="a folder that holds config.json",
        )
    return path


def _check_hub_id(reference: str) -> None:
    if not _HUB_ID.match(reference):
        raise CheckpointReferenceError(
            reference,
            "it is neither a folder, a hub id nor a zoo name",
            allowed="/path/to/folder, organisation/name, or zoo:NAME",
        )


def _folder_digest(folder: Path) -> str:
    """Digest over the names and contents of a checkpoint's files.

    Hashing a large checkpoint takes minutes, so each file's digest is remembered with its size,
    inode and modification time, and computed again when any of the three changed.
    """
    memory_file = cache_folder() / "digests.json"
    memory = _remembered(memory_file)
    digests: dict[str, str] = {}
    changed = False
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not _hidden(p, folder)):
        state = path.stat()
        key = f"{path}:{state.st_size}:{state.st_ino}:{state.st_mtime_ns}"
        if key not in memory:
            memory[key] = file_digest(path)
            changed = True
        digests[str(path.relative_to(folder))] = memory[key]
    if changed:
        _remember(memory_file, memory)
    return fingerprint(dict(digests))


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _remembered(file: Path) -> dict[str, str]:
    try:
        memory = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return memory if isinstance(memory, dict) else {}


def _remember(file: Path, memory: dict[str, str]) -> None:
    # Only a memory: where it cannot be kept, the next plan hashes again.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(memory))
        temporary.replace(file)
