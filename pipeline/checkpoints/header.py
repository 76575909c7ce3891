"""The header of a safetensors file: 8 bytes of length, that many bytes of JSON, then the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import TypeGuard

from pipeline.checkpoints import strictjson
from pipeline.checkpoints.errors import DamagedFileError, PointerFileError, reading, shown
from pipeline.spec import Record

MAX_HEADER_BYTES = strictjson.MAX_JSON_BYTES
_LENGTH_BYTES = 8
_LFS = b"version https://git-lfs"
_METADATA = "__metadata__"
# Bits, since two of the small types do not fill a byte.
_BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")


class Tensor(Record):
    """What a header says about one tensor; `begin` and `end` count from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


class Header(Record):
    """A checked header.

    Attributes:
        data_start: where the data begins in the file.
        digest: sha256 of the header's bytes, the cheap identity of a file of a given size.
    """

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    data_start: int
    file_size: int
    digest: str


def read_header(path: Path) -> Header:
    """Read and check one file's header; the data itself is not read.

    Raises:
        UnreadableFileError: the file cannot be opened.
        PointerFileError: it is a Git LFS pointer.
        DamagedFileError: header, offsets, shapes and size do not agree.
    """
    with reading(path), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        start = file.read(len(_LFS))
        length = int.from_bytes(start[:_LENGTH_BYTES], "little")
        file.seek(_LENGTH_BYTES)
        whole = len(start) >= _LENGTH_BYTES and length <= min(
            size - _LENGTH_BYTES, MAX_HEADER_BYTES
        )
        text = file.read(length) if whole else b""
    if start == _LFS:
        raise PointerFileError(path)
    if not whole:
        raise DamagedFileError(
            path, f"{size} bytes cannot hold a header of {length} (at most {MAX_HEADER_BYTES})"
        )
    data_start = _LENGTH_BYTES + length
    tensors, metadata = _checked(path, text, size - data_start)
    return Header(
        path=path,
        tensors=tensors,
        metadata=metadata,
        data_start=data_start,
        file_size=size,
        digest=hashlib.sha256(text).hexdigest(),
    )


def _checked(path: Path, text: bytes, data_bytes: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        entries = strictjson.parse(text)
        metadata = _metadata(entries.pop(_METADATA, {}))
        tensors = {name: _tensor(name, entry) for name, entry in entries.items()}
        _contiguous(tensors.values(), data_bytes)
    except ValueError as error:
        raise DamagedFileError(path, shown(str(error))) from error
    return tensors, metadata


def _metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError("its metadata is not a mapping of texts")
    return value


def _tensor(name: str, entry: object) -> Tensor:
    if not isinstance(entry, dict):
        raise ValueError(f"the entry of {name} is not an object")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise ValueError(f"{name} has the unknown dtype {dtype}")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{name} has no usable shape or offsets")
    tensor = Tensor(dtype=dtype, shape=tuple(shape), begin=offsets[0], end=offsets[1])
    if tensor.size * 8 != prod(tensor.shape) * _BITS[dtype]:
        raise ValueError(f"{name} has {tensor.size} bytes, its dtype and shape need another number")
    return tensor


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(map(strictjson.is_count, value))


def _contiguous(tensors: Iterable[Tensor], data_bytes: int) -> None:
    """The data is covered once, from its first byte to the end of the file."""
    at = 0
    for tensor in sorted(tensors, key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            raise ValueError(f"its tensors leave a gap or overlap at byte {at} of the data")
        at = tensor.end
    if at != data_bytes:
        raise ValueError(f"its tensors need {at} bytes of data, {data_bytes} are there")


def render_header(
    tensors: Mapping[str, tuple[str, tuple[int, ...], int]], metadata: Mapping[str, str]
) -> bytes:
    """Length and header of a new file whose data follow in the order of `tensors`.

    Args:
        tensors: name → dtype, shape and bytes.
        metadata: texts to keep beside them.
    """
    entries: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    # Data that starts on a multiple of 8 can be mapped without a copy.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def alignment(dtype: str) -> int:
    """Bits of one element: files are laid out from the widest type to the narrowest."""
    return _BITS[dtype]
