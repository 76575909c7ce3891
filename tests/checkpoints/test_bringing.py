"""register-mtp with the head in another folder: how it comes, and how it goes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.checkpoints.inspect import mtp_state
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from tests.checkpoints.folders import (
    BACKUP,
    EXTRA,
    INDEX,
    contents,
    hub_cache,
    register,
    said,
    trap,
)


def test_the_head_is_brought_from_another_folder(tmp_path: Path) -> None:
    source = trap(tmp_path / "source", 2)
    folder = trap(tmp_path / "model", 2, None)
    before, there = contents(folder), contents(source)

    assert register(folder, f"source={source}", "--check") == EXIT_BAD_CONFIG
    assert contents(folder) == before
    assert register(folder, f"source={source}") == EXIT_OK

    assert (folder / EXTRA).samefile(source / EXTRA)
    first = contents(folder)
    assert register(folder, f"source={source}") == EXIT_OK
    assert contents(folder) == first
    assert register(folder, "--undo") == EXIT_OK
    assert contents(folder) == before
    assert contents(source) == there


def test_the_head_is_brought_from_a_hub_cache_to_an_index_that_names_it(tmp_path: Path) -> None:
    source, blobs = hub_cache(tmp_path, 2)
    stored = contents(blobs)
    folder = trap(tmp_path / "model", 2)
    register(folder)
    (folder / EXTRA).unlink()
    (folder / ".register-mtp.json").unlink()
    (folder / BACKUP).unlink()
    before = contents(folder)

    assert register(folder, f"source={source}") == EXIT_OK

    assert mtp_state(folder).sound
    assert not (folder / EXTRA).is_symlink()
    assert register(folder, "--undo") == EXIT_OK
    assert contents(folder) == before
    assert contents(blobs) == stored


def test_source_and_target_may_be_one_folder(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    assert register(folder, f"source={folder}") == EXIT_OK
    assert mtp_state(folder).sound


def test_another_file_of_that_name_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = trap(tmp_path / "source", 3), trap(tmp_path / "model", 2)
    before = contents(folder)

    assert register(folder, f"source={source}") == EXIT_BAD_CONFIG
    assert "different file of this name" in said(capsys)
    assert contents(folder) == before


def test_a_head_of_the_same_layout_and_other_weights_is_not_taken_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2)
    alter(folder / EXTRA)
    before = contents(folder)

    assert register(folder, f"source={source}") == EXIT_BAD_CONFIG
    assert "different file of this name" in said(capsys)
    assert contents(folder) == before


def test_undo_keeps_a_head_that_somebody_put_there_since(tmp_path: Path) -> None:
    source, folder = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2, None)
    register(folder, f"source={source}")
    brought = (folder / EXTRA).read_bytes()
    (folder / EXTRA).unlink()
    (folder / EXTRA).write_bytes(brought)
    alter(folder / EXTRA)
    retrained = (folder / EXTRA).read_bytes()

    assert register(folder, "--undo") == EXIT_OK
    assert (folder / EXTRA).read_bytes() == retrained


def alter(path: Path) -> None:
    """Other weights under the same header."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    path.write_bytes(content)


def test_undo_keeps_the_last_copy_of_the_head(tmp_path: Path) -> None:
    source, folder = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2, None)
    before = (folder / INDEX).read_bytes()
    register(folder, f"source={source}")
    (source / EXTRA).unlink()

    assert register(folder, "--undo") == EXIT_OK

    assert (folder / INDEX).read_bytes() == before
    assert (folder / EXTRA).is_file()
