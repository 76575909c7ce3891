from __future__ import annotations

import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from pipeline.zoo import storage
from pipeline.zoo.errors import CacheNotWritableError, NoSpaceError, TamperedFileError


def fill(folder: Path) -> None:
    (folder / "weights").write_bytes(b"1234")
    (folder / "config").write_text("{}")


def test_a_folder_is_built_once_and_then_only_found(tmp_path: Path) -> None:
    calls = []

    def counting(folder: Path) -> None:
        calls.append(folder)
        fill(folder)

    first = storage.build_once(tmp_path / "model", 0, counting)
    again = storage.build_once(tmp_path / "model", 0, counting)

    assert first == again
    assert len(calls) == 1
    assert set(storage.read_digests(first) or {}) == {"weights", "config"}


def test_a_builder_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing(folder: Path) -> None:
        fill(folder)
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        storage.build_once(tmp_path / "model", 0, failing)

    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


def test_what_a_killed_builder_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    stale = tmp_path / ".building-model-4711"
    stale.mkdir()
    (stale / "weights").write_bytes(b"half")

    storage.build_once(tmp_path / "model", 0, fill)

    assert not stale.exists()


def test_a_folder_with_a_deleted_file_is_built_again(tmp_path: Path) -> None:
    folder = storage.build_once(tmp_path / "model", 0, fill)
    (folder / "weights").unlink()

    storage.build_once(tmp_path / "model", 0, fill)

    assert (folder / "weights").read_bytes() == b"1234"


def test_an_altered_file_is_reported_with_its_path_and_the_remedy(tmp_path: Path) -> None:
    folder = storage.build_once(tmp_path / "model", 0, fill)
    (folder / "weights").write_bytes(b"1235")

    with pytest.raises(TamperedFileError, match=r"weights.*damaged or altered.*delete the folder"):
        storage.verify(folder)


def test_too_little_space_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000))

    with pytest.raises(NoSpaceError, match=r"1 MB are free, 400 MB are needed"):
        storage.build_once(tmp_path / "model", 400_000_000, fill)

    assert not (tmp_path / "model").exists()


def test_a_cache_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CacheNotWritableError, match="SPEC_DECODE_PIPELINE_CACHE"):
        storage.build_once(tmp_path / "file" / "model", 0, fill)


def test_the_environment_moves_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(storage.CACHE_VARIABLE, str(tmp_path))

    assert storage.cache_folder() == tmp_path / "zoo"
    assert storage.cache_folder(tmp_path / "given") == tmp_path / "given" / "zoo"


BUILDER = """
import sys, time
from pathlib import Path
from pipeline.zoo.storage import build_once

def fill(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    (folder / "weights").write_bytes(b"x" * 1000)
    time.sleep(0.5)

build_once(Path(sys.argv[1]), 0, fill)
"""


def test_processes_that_start_at_once_build_one_folder(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BUILDER, str(tmp_path / "model"), str(tmp_path / "log")]
    processes = [subprocess.Popen(words) for _ in range(3)]

    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "built\n"
    storage.verify(tmp_path / "model")


def test_a_killed_process_does_not_block_the_next(tmp_path: Path) -> None:
    endless = BUILDER.replace("time.sleep(0.5)", "time.sleep(600)")
    words = [sys.executable, "-c", endless, str(tmp_path / "model"), str(tmp_path / "log")]
    process = subprocess.Popen(words)
    while not (tmp_path / "log").exists():
        assert process.poll() is None
    process.kill()
    process.wait()

    storage.build_once(tmp_path / "model", 0, fill)

    storage.verify(tmp_path / "model")
    assert list(tmp_path.glob(".building-*")) == []
