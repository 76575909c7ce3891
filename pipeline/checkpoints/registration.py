"""What it takes to put a head into an index, worked out before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.checkpoints.errors import (
    ConflictError,
    NoHeadError,
    NoSuchFileError,
    OtherFileThereError,
    is_file,
)
from pipeline.checkpoints.files import same_content
from pipeline.checkpoints.head import DEFAULT_PREFIX, EXTRA_NAMES, candidates, head_names, holders
from pipeline.checkpoints.header import Header, Tensor, read_header
from pipeline.checkpoints.index import (
    Index,
    is_plain_name,
    read_headers,
    read_index,
    weight_files,
)
from pipeline.spec import Record

Winner = Literal["extra", "index"]


class Asked(Record):
    """What the user said.

    Attributes:
        extra: the file that carries the head, or None to look in the usual places.
        source: the folder it is brought from, or None where it lies in the checkpoint.
        wins: which file counts for a tensor that two hold.
    """

    folder: Path
    extra: str | None = None
    source: Path | None = None
    prefix: str = Field(default=DEFAULT_PREFIX, min_length=1)
    wins: Winner | None = None


class Registration(Record):
    """An index as it is and as it should be.

    Attributes:
        extras: the headers of the files that carry the head, by file name.
        bring: those of them that have yet to be brought into the folder, by their present path.
        add: head tensors that the index leaves out.
        repoint: head tensors that it looks for in a file that has them not, or not by choice.
        lost: head tensors that it names and no file holds.
        head: every head tensor of the result that a file holds.
        total_size: bytes of all tensors of the result.
        unheld: other tensors that the index looks for in the wrong file.
        doubled: tensors that two files of the result hold.
    """

    asked: Asked
    index: Index
    weight_map: dict[str, str]
    extras: dict[str, Header]
    bring: dict[str, Path]
    add: tuple[str, ...]
    repoint: tuple[str, ...]
    lost: tuple[str, ...]
    head: dict[str, Tensor]
    total_size: int
    unheld: tuple[str, ...]
    doubled: tuple[str, ...]

    @property
    def missing(self) -> bool:
        """True where an engine that follows the index gets less than the whole head."""
        return bool(self.add or self.repoint or self.lost or self.bring)

    @property
    def rewrites(self) -> bool:
        """True where the index has to change. A size that is merely wrong counts as well."""
        return bool(self.add or self.repoint or self.stale_size)

    @property
    def stale_size(self) -> bool:
        """True where the index says another total size than the files have, as far as we know."""
        known = self.index.digest is not None and not self.lost and not self.unheld
        return known and self.index.total_size != self.total_size


def plan(asked: Asked) -> Registration:
    """Read headers and index and say what should change; nothing is written.

    Raises:
        PipelineError: the checkpoint is damaged, has no head, or two files claim it.
    """
    index = read_index(asked.folder)
    extras = _extras(asked)
    held = holders(extras, asked.prefix)
    listed_head = head_names(index.weight_map, asked.prefix)
    if not held and not listed_head:
        raise _no_head(asked)
    others = _others(asked.folder, index, listed_head, extras)
    add, repoint = _changes(asked, index, held, others)
    weight_map = {**index.weight_map, **{name: held[name] for name in (*add, *repoint)}}
    lost = [n for n in listed_head if n not in held and not _holds(others, weight_map[n], n)]
    return _measured(asked, index, weight_map, extras, add, repoint, lost)


def _extras(asked: Asked) -> dict[str, Header]:
    """The files that carry the head, in the source folder where one is given."""
    folder = asked.source or asked.folder
    files = weight_files(folder)
    if asked.extra is not None:
        if not is_plain_name(asked.extra) or not is_file(folder / asked.extra):
            raise NoSuchFileError(asked.extra, folder, files)
        groups = [[asked.extra]]
    else:
        groups = candidates(files)
    for group in groups:
        headers = {file: read_header(folder / file) for file in group}
        carrying = {
            file: header
            for file, header in headers.items()
            if head_names(header.tensors, asked.prefix)
        }
        if carrying:
            return {file: _here(asked, file, header) for file, header in carrying.items()}
    if asked.extra is not None or asked.source is not None:
        raise _no_head(asked)
    return {}


def _here(asked: Asked, file: str, header: Header) -> Header:
    """The header of the file that will lie in the folder; one of that name may be there."""
    path = asked.folder / file
    if asked.source is None or not (is_file(path) or path.is_symlink()):
        return header
    present = read_header(path)
    # Heads of one layout have one header.
    if not same_content(path, header.path):
        raise OtherFileThereError(path, header.path)
    return present


def _no_head(asked: Asked) -> NoHeadError:
    folder = asked.source or asked.folder
    files = [] if asked.extra else list(weight_files(folder))
    headers = read_headers(folder, files)
    elsewhere = [file for file in files if head_names(headers[file].tensors, asked.prefix)]
    tried = asked.extra or ", ".join(EXTRA_NAMES)
    return NoHeadError(folder, asked.prefix, tried, elsewhere)


def _others(
    folder: Path, index: Index, listed_head: list[str], extras: Mapping[str, Header]
) -> dict[str, Header]:
    """Headers of the files that the index gives for the head, as far as they are here."""
    files = {index.weight_map[name] for name in listed_head}
    here = [file for file in files if file not in extras and is_file(folder / file)]
    return {**read_headers(folder, here), **extras}


def _holds(headers: Mapping[str, Header], file: str, name: str) -> bool:
    return file in headers and name in headers[file].tensors


def _changes(
    asked: Asked, index: Index, held: Mapping[str, str], others: Mapping[str, Header]
) -> tuple[list[str], list[str]]:
    """The head tensors to add to the index, and those to point to another file."""
    add = [name for name in held if name not in index.weight_map]
    moved = [name for name in held if index.weight_map.get(name, held[name]) != held[name]]
    both = [name for name in moved if _holds(others, index.weight_map[name], name)]
    if both and asked.wins is None:
        raise ConflictError(
            both,
            index.weight_map[both[0]],
            held[both[0]],
            "say which counts with wins=index (as the index has it) or wins=extra",
        )
    kept = set(both) if asked.wins == "index" else set()
    return add, [name for name in moved if name not in kept]


def _measured(
    asked: Asked,
    index: Index,
    weight_map: dict[str, str],
    extras: dict[str, Header],
    add: list[str],
    repoint: list[str],
    lost: list[str],
) -> Registration:
    """The plan with what only the headers of all files can tell."""
    used = set(weight_map.values())
    headers = {
        **read_headers(asked.folder, used - set(extras)),
        **{file: header for file, header in extras.items() if file in used},
    }
    tensors = {
        name: headers[file].tensors[name]
        for name, file in weight_map.items()
        if name in headers[file].tensors
    }
    return Registration(
        asked=asked,
        index=index,
        weight_map=weight_map,
        extras=extras,
        bring={f: h.path for f, h in extras.items() if f in used and _is_elsewhere(asked, h)},
        add=tuple(sorted(add)),
        repoint=tuple(sorted(repoint)),
        lost=tuple(lost),
        head={name: tensors[name] for name in head_names(tensors, asked.prefix)},
        total_size=sum(tensor.size for tensor in tensors.values()),
        unheld=tuple(sorted(set(weight_map) - set(tensors) - set(lost))),
        doubled=tuple(_doubled(headers, weight_map)),
    )


def _is_elsewhere(asked: Asked, header: Header) -> bool:
    return header.path.parent != asked.folder


def _doubled(headers: Mapping[str, Header], weight_map: Mapping[str, str]) -> list[str]:
    """An engine reads whole files: a tensor in two of them is loaded twice, the last one stays."""
    return sorted(
        name
        for file, header in headers.items()
        for name in header.tensors
        if weight_map.get(name, file) != file
    )
