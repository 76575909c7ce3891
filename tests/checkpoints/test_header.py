"""The header reader: every check by its own sentence, and the reference library's own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.checkpoints.errors import DamagedFileError, PointerFileError, UnreadableFileError
from pipeline.checkpoints.header import read_header, render_header
from tests.checkpoints.folders import write_weights


def raw(path: Path, header: object, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: object = "BF16", shape: object = (2,), offsets: object = (0, 4)) -> object:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_a_header_is_read(tmp_path: Path) -> None:
    path = write_weights(tmp_path / "w", {"a": ("BF16", (2, 3)), "b": ("F32", ())})

    header = read_header(path)

    assert {n: (t.dtype, t.shape, t.size) for n, t in header.tensors.items()} == {
        "a": ("BF16", (2, 3), 12),
        "b": ("F32", (), 4),
    }
    assert header.metadata == {"format": "pt"}
    assert header.data_start + 16 == header.file_size


@pytest.mark.parametrize(
    ("header", "data", "said"),
    [
        (entry(), b"123", "3 are there"),
        (entry(), b"12345", "5 are there"),
        (entry(offsets=(2, 6)), b"123456", "gap or overlap at byte 0"),
        (entry(shape=(3,)), b"1234", "dtype and shape"),
        (entry(shape=(True, 2)), b"1234", "no usable shape"),
        (entry(shape=(-2, -1)), b"1234", "no usable shape"),
        (entry(offsets=(4, 0)), b"", "dtype and shape"),
        (entry(offsets=(0,)), b"1234", "no usable shape"),
        (entry(dtype="Q4_K"), b"1234", "unknown dtype Q4_K"),
        (entry(dtype=[]), b"1234", "unknown dtype"),
        ({"x": 3}, b"", "not an object"),
        ({"__metadata__": {"a": 1}}, b"", "metadata"),
        ([], b"", "not an object"),
        (b"{", b"", "Expecting"),
        (b'{"a": 1, "a": 2}', b"", "stands twice"),
        (b'{"\\ud800": 1}', b"", "surrogates"),
        (b"[" * 100_000, b"", "nested too deeply"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(tmp_path: Path, header: object, data: bytes, said: str) -> None:
    with pytest.raises(DamagedFileError, match=said):
        read_header(raw(tmp_path / "w", header, data))


@pytest.mark.parametrize("content", [b"", b"1234567", b"\xff" * 20, b"\x40" + bytes(20)])
def test_a_length_that_the_file_has_not(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(DamagedFileError, match="cannot hold a header"):
        read_header(tmp_path / "w")


def test_pointers_and_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(PointerFileError, match="pointer"):
        read_header(tmp_path / "w")
    with pytest.raises(UnreadableFileError, match="No such file"):
        read_header(tmp_path / "nothing")
    with pytest.raises(UnreadableFileError, match="directory"):
        read_header(tmp_path)


def test_a_rendered_header_is_read_by_the_reference_library(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    layout = {"a": ("F32", (2,), 8), "é": ("U8", (3,), 3)}
    path = tmp_path / "w.safetensors"
    path.write_bytes(render_header(layout, {"format": "pt"}) + bytes(11))

    assert {name: array.shape for name, array in numpy.load_file(path).items()} == {
        "a": (2,),
        "é": (3,),
    }
    assert read_header(path).data_start % 8 == 0
