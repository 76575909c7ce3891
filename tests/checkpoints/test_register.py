"""register-mtp on checkpoints of every layout: what it adds, leaves, refuses, and takes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.checkpoints.inspect import mtp_state
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from tests.checkpoints.folders import (
    BACKUP,
    EXTRA,
    HEAD,
    INDEX,
    SHARDS,
    body,
    config_of,
    contents,
    head_of,
    hub_cache,
    index_of,
    register,
    said,
    size_of,
    trap,
    write_config,
    write_index,
    write_weights,
)


def test_785_tensors_are_added_and_nothing_else_changes(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model")
    before, old_index = contents(folder), index_of(folder)

    assert register(folder) == EXIT_OK

    after, new = contents(folder), index_of(folder)
    head = head_of()
    assert len(head) == 785
    assert new["weight_map"] == {**old_index["weight_map"], **dict.fromkeys(head, EXTRA)}
    assert new["metadata"]["total_size"] == size_of(
        [*head.values(), *(spec for tensors in body().values() for spec in tensors.values())]
    )
    assert new["metadata"]["made_by"] == "someone"
    assert after[BACKUP] == before[INDEX]
    assert {name: after[name] for name in before if name != INDEX} == {
        name: before[name] for name in before if name != INDEX
    }
    assert mtp_state(folder).sound


def test_a_second_run_changes_no_byte(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)
    first = contents(folder)
    times = {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()}

    assert register(folder) == EXIT_OK

    assert contents(folder) == first
    assert {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()} == times


def test_undo_restores_every_byte_date_and_name(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    before, identity = contents(folder), (folder / INDEX).stat()
    register(folder)

    assert register(folder, "--undo") == EXIT_OK

    after = (folder / INDEX).stat()
    assert contents(folder) == before
    assert (after.st_ino, after.st_mtime_ns) == (identity.st_ino, identity.st_mtime_ns)
    assert register(folder, "--undo") == EXIT_BAD_CONFIG


@pytest.mark.parametrize("flag", ["--check", "--dry-run"])
def test_looking_writes_nothing(
    tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    before = contents(folder)

    code = register(folder, flag)

    assert code == (EXIT_BAD_CONFIG if flag == "--check" else EXIT_OK)
    assert contents(folder) == before
    assert f"add {len(HEAD)} tensors to the index" in said(capsys)


def test_check_is_content_after_registering(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)

    assert register(folder, "--check") == EXIT_OK


def test_a_hub_cache_keeps_its_blobs_and_gets_its_links_back(tmp_path: Path) -> None:
    folder, blobs = hub_cache(tmp_path)
    links, stored = contents(folder), contents(blobs)

    assert register(folder) == EXIT_OK

    assert contents(blobs) == stored
    assert not (folder / INDEX).is_symlink()
    assert set(index_of(folder)["weight_map"].values()) == {*SHARDS, EXTRA}
    assert register(folder, "--undo") == EXIT_OK
    assert contents(folder) == links
    assert contents(blobs) == stored


def test_a_single_file_gets_an_index_and_loses_it_again(tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {"a.weight": ("F32", (3,))})
    write_weights(tmp_path / EXTRA, HEAD)
    write_config(tmp_path, config_of(2))
    before = contents(tmp_path)

    assert register(tmp_path, "--check") == EXIT_BAD_CONFIG
    assert register(tmp_path) == EXIT_OK

    index = index_of(tmp_path)
    assert index["weight_map"] == {"a.weight": "model.safetensors", **dict.fromkeys(HEAD, EXTRA)}
    assert index["metadata"] == {"total_size": 12 + size_of(HEAD.values())}
    assert register(tmp_path, "--undo") == EXIT_OK
    assert contents(tmp_path) == before


def test_a_single_file_with_the_head_inside_needs_no_index(tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {"a.weight": ("F32", (3,)), **HEAD})
    write_config(tmp_path, config_of(2))
    before = contents(tmp_path)

    assert register(tmp_path) == EXIT_OK

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "extra", ["extra_weights.safetensors", "mtp.safetensors", "mtp-head.safetensors"]
)
def test_other_usual_names_are_found(tmp_path: Path, extra: str) -> None:
    folder = trap(tmp_path / "model", 2, extra)

    assert register(folder) == EXIT_OK

    assert set(HEAD) <= {k for k, v in index_of(folder)["weight_map"].items() if v == extra}


def test_a_head_in_two_files_is_registered_from_both(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2, None)
    names = list(HEAD)
    halves = {"mtp-1.safetensors": names[:9], "mtp-2.safetensors": names[9:]}
    for file, part in halves.items():
        write_weights(folder / file, {name: HEAD[name] for name in part})

    assert register(folder) == EXIT_OK

    weight_map = index_of(folder)["weight_map"]
    assert {n: weight_map[n] for n in names} == {n: f for f, part in halves.items() for n in part}


def test_a_name_of_the_users_own_and_another_prefix(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2, None)
    write_weights(folder / "head.safetensors", {"model.mtp_layers.0.x.weight": ("BF16", (2, 2))})

    code = register(folder, "extra=head.safetensors", "prefix=model.mtp_layers.")

    assert code == EXIT_OK
    assert index_of(folder)["weight_map"]["model.mtp_layers.0.x.weight"] == "head.safetensors"


def test_undo_does_not_destroy_a_later_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)
    (folder / INDEX).write_text((folder / INDEX).read_text() + " ")
    before = contents(folder)

    assert register(folder, "--undo") == EXIT_BAD_CONFIG
    assert "changed after" in said(capsys)
    assert contents(folder) == before


def test_a_new_index_does_not_take_the_place_of_the_old_backup(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)
    write_index(folder, body(), made_by="a newer revision")
    before = contents(folder)

    assert register(folder) == EXIT_BAD_CONFIG
    assert contents(folder) == before


def test_an_index_that_came_back_is_registered_again(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    before = contents(folder)
    register(folder)
    (folder / INDEX).unlink()
    (folder / INDEX).write_bytes(bytes(before[INDEX]))  # type: ignore[arg-type]

    assert register(folder) == EXIT_OK
    assert register(folder, "--undo") == EXIT_OK
    assert contents(folder) == before


def test_a_total_size_that_was_left_behind_is_corrected(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)
    (folder / ".register-mtp.json").unlink()
    (folder / BACKUP).unlink()
    index = index_of(folder)
    right, index["metadata"]["total_size"] = index["metadata"]["total_size"], 1
    (folder / INDEX).write_text(json.dumps(index))

    assert register(folder, "--check") == EXIT_OK
    assert register(folder) == EXIT_OK
    assert index_of(folder)["metadata"]["total_size"] == right


def test_unknown_keys_of_the_index_stay(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    index = {**index_of(folder), "note": {"by": "hand", "unicode": "é"}}
    (folder / INDEX).write_text(json.dumps(index))

    register(folder)

    assert index_of(folder)["note"] == index["note"]
