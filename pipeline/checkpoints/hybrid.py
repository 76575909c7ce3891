"""What a hybrid checkpoint consists of, worked out from headers alone.

Experts stay INT4, where most of the bytes are. Dense tensors come from the FP8 checkpoint, with the
scales that belong to them: every tensor of an INT4 shard whose name and shape the FP8 checkpoint
knows, experts and the MTP head excepted. The head is taken over untouched with its own file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.checkpoints.errors import NoMatchError, listed, place, reading, shown
from pipeline.checkpoints.head import candidates, head_names, holders
from pipeline.checkpoints.header import Header, Tensor, alignment, render_header
from pipeline.checkpoints.index import Index, read_headers, read_index, weight_files
from pipeline.spec import Record

_EXPERT = ".experts."
_WEIGHT, _SCALE = ".weight", ".weight_scale_inv"
_FP8 = ("F8_E4M3", "F8_E5M2")


class Piece(Record):
    """One tensor of a new shard and where its bytes are: a file and an offset in it."""

    name: str
    tensor: Tensor
    source: Path
    offset: int


class Shard(Record):
    """One new file: its header, and its tensors in the order of their data."""

    name: str
    head: bytes
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.head) + sum(piece.tensor.size for piece in self.pieces)


class Hybrid(Record):
    """The plan of a hybrid checkpoint.

    Attributes:
        shards: the files to write.
        extras: the files that carry the head, taken over as they are.
        weight_map: tensor → file of the whole result, the head included.
        total_size: bytes of all those tensors.
        sources: what identifies every file that is read: name → size, date and header digest.
        replaced: dense tensors taken from the FP8 checkpoint.
        scales: tensors added beside them.
        unplaced: dense FP8 tensors that no INT4 shard has a place for.
    """

    shards: tuple[Shard, ...]
    extras: dict[str, Header]
    weight_map: dict[str, str]
    total_size: int
    sources: dict[str, str]
    replaced: int
    scales: int
    unplaced: tuple[str, ...]


def plan_hybrid(int4: Path, fp8: Path, prefix: str) -> Hybrid:
    """Read the headers of both checkpoints and decide on every tensor.

    Raises:
        NoMatchError: nothing can be replaced, a shape differs or a scale is missing.
        PipelineError: one of the checkpoints is damaged.
    """
    index = read_index(int4)
    own = read_headers(int4, index.files)
    extras = _extras(int4, prefix)
    shards = {file: header for file, header in own.items() if file not in extras}
    dense = _dense(fp8, prefix)
    known = {name for header in shards.values() for name in header.tensors}
    built, placed = [], set()
    for file, header in shards.items():
        pieces = _pieces(header, dense, known)
        placed |= {piece.name for piece in pieces if piece.source.parent == fp8}
        built.append(_shard(file, header, pieces))
    if not placed:
        raise NoMatchError(place(fp8), "no dense tensor has the name of one in the INT4 shards")
    taken = (p.tensor for shard in built for p in shard.pieces if p.source.parent == fp8)
    if not any(tensor.dtype.startswith("F8") for tensor in taken):
        raise NoMatchError(place(fp8), "none of the tensors to be taken from it is FP8")
    tensors = {piece.name: (shard.name, piece.tensor) for shard in built for piece in shard.pieces}
    tensors |= _from_extras(index, extras, prefix)
    scales = [name for name in placed if name not in known]
    read = {f"int4/{file}": header for file, header in {**shards, **extras}.items()}
    read |= {f"fp8/{header.path.name}": header for header in dense.values()}
    return Hybrid(
        shards=tuple(built),
        extras=extras,
        weight_map={name: file for name, (file, _) in sorted(tensors.items())},
        total_size=sum(tensor.size for _, tensor in tensors.values()),
        sources={name: _identity(header) for name, header in sorted(read.items())},
        replaced=len(placed) - len(scales),
        scales=len(scales),
        unplaced=tuple(sorted(set(dense) - placed)),
    )


def _extras(folder: Path, prefix: str) -> dict[str, Header]:
    """The files that carry the head, whether or not the index names them."""
    for group in candidates(weight_files(folder)):
        headers = read_headers(folder, group)
        carrying = {f: h for f, h in headers.items() if head_names(h.tensors, prefix)}
        if carrying:
            return carrying
    return {}


def _from_extras(
    index: Index, extras: Mapping[str, Header], prefix: str
) -> dict[str, tuple[str, Tensor]]:
    """The head, and what else the INT4 index takes from the files that carry it."""
    listed_there = {n: f for n, f in index.weight_map.items() if f in extras}
    files = {**listed_there, **holders(extras, prefix)}
    return {
        name: (file, extras[file].tensors[name])
        for name, file in files.items()
        if name in extras[file].tensors
    }


def _identity(header: Header) -> str:
    with reading(header.path):
        modified = header.path.stat().st_mtime_ns
    return f"{header.file_size}:{modified}:{header.digest}"


def _dense(fp8: Path, prefix: str) -> dict[str, Header]:
    """Tensor → the header of its file, for what may be taken from the FP8 checkpoint."""
    headers = read_headers(fp8, read_index(fp8).files)
    return {
        name: header
        for header in headers.values()
        for name in header.tensors
        if _EXPERT not in name and not name.startswith(prefix)
    }


def _pieces(header: Header, dense: Mapping[str, Header], known: set[str]) -> list[Piece]:
    pieces = []
    for name, tensor in header.tensors.items():
        if name not in dense:
            pieces.append(_piece(name, header))
            continue
        new = dense[name].tensors[name]
        if new.shape != tensor.shape:
            raise NoMatchError(
                shown(name), f"its shape is {tensor.shape} in INT4 and {new.shape} in FP8"
            )
        pieces.append(_piece(name, dense[name]))
        pieces += _scale_of(name, new, dense, known)
    # The order that safetensors writes: each tensor starts on a multiple of its element.
    return sorted(pieces, key=lambda p: (-alignment(p.tensor.dtype), p.name))


def _scale_of(
    name: str, tensor: Tensor, dense: Mapping[str, Header], known: set[str]
) -> list[Piece]:
    scale = name.removesuffix(_WEIGHT) + _SCALE
    if name.endswith(_WEIGHT) and scale in dense and scale not in known:
        return [_piece(scale, dense[scale])]
    if tensor.dtype in _FP8 and scale not in known:
        raise NoMatchError(shown(name), f"it is FP8 and its scale {shown(scale)} is nowhere")
    return []


def _piece(name: str, header: Header) -> Piece:
    tensor = header.tensors[name]
    return Piece(
        name=name, tensor=tensor, source=header.path, offset=header.data_start + tensor.begin
    )


def _shard(file: str, header: Header, pieces: list[Piece]) -> Shard:
    layout = {p.name: (p.tensor.dtype, p.tensor.shape, p.tensor.size) for p in pieces}
    metadata = {"format": "pt", **header.metadata}
    return Shard(name=file, head=render_header(layout, metadata), pieces=tuple(pieces))


def summary(plan: Hybrid) -> str:
    """One line on what the hybrid consists of."""
    size = sum(shard.size for shard in plan.shards)
    left = f", {len(plan.unplaced)} FP8 tensors have no place" if plan.unplaced else ""
    first = f" ({listed(plan.unplaced)})" if plan.unplaced else ""
    return (
        f"{len(plan.shards)} shards, {size / 1e9:,.3f} GB: {plan.replaced} dense tensors from FP8,"
        f" {plan.scales} scales beside them{left}{first}"
    )
