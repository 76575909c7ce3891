"""The index of a checkpoint: which file holds which tensor, and a folder's headers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from pipeline.checkpoints import strictjson
from pipeline.checkpoints.errors import (
    DamagedJsonError,
    MissingShardError,
    NotACheckpointError,
    UnreadableFileError,
    is_file,
    reading,
    shown,
)
from pipeline.checkpoints.header import Header, read_header
from pipeline.spec import Record

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
_SUFFIX = ".safetensors"


class Index(Record):
    """An index as it is, or as it will be.

    Attributes:
        weight_map: tensor → file.
        total_size: what its metadata say, None where they say nothing that is a number.
        rest: every other key, the other metadata included, kept as found.
        digest: sha256 of the file's bytes, None where there is no such file.
    """

    weight_map: dict[str, str]
    total_size: float | int | None
    rest: dict[str, JsonValue]
    digest: str | None

    @property
    def files(self) -> tuple[str, ...]:
        """The files it names, each once."""
        return tuple(sorted(set(self.weight_map.values())))


def read_index(folder: Path) -> Index:
    """The folder's index; for a single-file checkpoint the one that its header amounts to.

    Raises:
        NotACheckpointError: there is neither an index nor a `model.safetensors`.
        DamagedJsonError: the index is not one.
        DamagedFileError, PointerFileError: the single file is not whole.
    """
    path = folder / INDEX_NAME
    # Also a link to nothing is an index: one that could not be read.
    if is_file(path) or path.is_symlink():
        return _read(path)
    if not is_file(folder / SINGLE_NAME):
        raise NotACheckpointError(folder, f"neither {INDEX_NAME} nor {SINGLE_NAME} is here")
    tensors = read_header(folder / SINGLE_NAME).tensors
    return Index(
        weight_map=dict.fromkeys(tensors, SINGLE_NAME), total_size=None, rest={}, digest=None
    )


def _read(path: Path) -> Index:
    text, value = strictjson.read(path)
    weight_map, metadata = value.get("weight_map"), value.get("metadata", {})
    if not isinstance(weight_map, dict) or not all(map(is_plain_name, weight_map.values())):
        raise DamagedJsonError(path, "its weight_map does not give a file name for each tensor")
    if not isinstance(metadata, dict):
        raise DamagedJsonError(path, "its metadata are not an object")
    size = metadata.get("total_size")
    known = isinstance(size, int | float) and not isinstance(size, bool)
    return Index(
        weight_map=weight_map,
        total_size=size if known else None,
        rest={key: item for key, item in value.items() if key != "weight_map"},
        digest=hashlib.sha256(text).hexdigest(),
    )


def is_plain_name(name: object) -> bool:
    """True for the name of a file in the folder itself: an index may not lead out of it."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not set(name) & {"/", "\\", "\0"}
        and len(name.encode()) <= 255
    )


def render_index(index: Index, weight_map: Mapping[str, str], total_size: int) -> bytes:
    """The text of an index with this map and size; unknown keys and the order of known ones stay.

    Args:
        index: what is there now.
        weight_map: tensor → file, complete.
        total_size: bytes of all tensors in the map.
    """
    metadata = index.rest.get("metadata", {})
    known = metadata if isinstance(metadata, dict) else {}
    content = {
        "metadata": {},
        **index.rest,
        "weight_map": dict(weight_map),
    }
    content["metadata"] = {**known, "total_size": total_size}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def read_headers(folder: Path, names: Iterable[str]) -> dict[str, Header]:
    """The headers of these files, by name.

    Raises:
        MissingShardError: some are not in the folder.
        DamagedFileError, PointerFileError, UnreadableFileError: one is not whole.
    """
    names = sorted(set(names))
    absent = [name for name in names if not is_file(folder / name)]
    if absent:
        raise MissingShardError(folder, absent)
    return {name: read_header(folder / name) for name in names}


def weight_files(folder: Path) -> tuple[str, ...]:
    """The names of all safetensors files in a folder, hidden ones left out.

    Raises:
        UnreadableFileError: the folder cannot be listed.
    """
    with reading(folder):
        names = sorted(entry.name for entry in folder.iterdir())
    return tuple(
        name
        for name in names
        if name.endswith(_SUFFIX) and not name.startswith(".") and is_file(folder / name)
    )


def existing_folder(path: str) -> Path:
    """The folder a user named, links resolved.

    Raises:
        NotACheckpointError: there is no such folder.
    """
    folder = resolved(path)
    try:
        found = folder.is_dir()
    except OSError as error:
        raise UnreadableFileError(folder, error) from error
    if not found:
        raise NotACheckpointError(folder, "there is no such folder")
    return folder


def resolved(path: str) -> Path:
    """A path as a user wrote it, made absolute, links resolved.

    Raises:
        NotACheckpointError: it stands for nothing, such as a link to itself or an unknown home.
    """
    try:
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise NotACheckpointError(Path(path), f"not a folder ({shown(str(error))})") from error
