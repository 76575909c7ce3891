"""register-mtp on checkpoints that are wrong: what it corrects, refuses and warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from tests.checkpoints.folders import (
    EXTRA,
    HEAD,
    SHARDS,
    body,
    config_of,
    contents,
    index_of,
    register,
    said,
    trap,
    write_config,
    write_index,
    write_weights,
)


def test_a_wrong_file_in_the_index_is_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    names = sorted(HEAD)
    write_index(folder, {**body(), SHARDS[0]: [*body()[SHARDS[0]], *names], "gone.safetensors": []})

    assert register(folder, "--check") == EXIT_BAD_CONFIG
    assert register(folder) == EXIT_OK

    assert f"point {len(names)} tensors to another file" in said(capsys)
    assert {index_of(folder)["weight_map"][name] for name in names} == {EXTRA}


def test_a_file_in_the_index_that_is_not_there_is_corrected(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    write_index(folder, {**body(), "gone.safetensors": list(HEAD)})

    assert register(folder) == EXIT_OK
    assert "gone.safetensors" not in index_of(folder)["weight_map"].values()


def doubled(folder: Path) -> str:
    """A checkpoint whose index takes one head tensor from a shard that does hold it."""
    trap(folder, 2)
    name = sorted(HEAD)[0]
    write_weights(folder / SHARDS[1], {**body()[SHARDS[1]], name: HEAD[name]}, seed=3)
    write_index(folder, {**body(), SHARDS[1]: [*body()[SHARDS[1]], name]})
    return name


def test_a_tensor_in_two_files_is_a_conflict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    name = doubled(folder)
    before = contents(folder)

    assert register(folder) == EXIT_BAD_CONFIG

    text = said(capsys)
    assert name in text
    assert "wins=index" in text
    assert contents(folder) == before


@pytest.mark.parametrize(("winner", "file"), [("index", SHARDS[1]), ("extra", EXTRA)])
def test_the_user_settles_a_conflict(
    tmp_path: Path, winner: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    name = doubled(folder)

    assert register(folder, f"wins={winner}") == EXIT_OK

    assert index_of(folder)["weight_map"][name] == file
    assert "reads whole files" in said(capsys)
    first = contents(folder)
    assert register(folder, f"wins={winner}") == EXIT_OK
    assert contents(folder) == first


def test_the_same_tensor_in_two_extra_files_is_a_conflict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2, "mtp-1.safetensors")
    write_weights(folder / "mtp-2.safetensors", HEAD)

    assert register(folder) == EXIT_BAD_CONFIG
    assert "extra=FILE" in said(capsys)
    assert register(folder, "extra=mtp-2.safetensors") == EXIT_OK


def test_a_truncated_extra_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    whole = (folder / EXTRA).read_bytes()
    (folder / EXTRA).write_bytes(whole[:-5])
    before = contents(folder)

    assert register(folder) == EXIT_BAD_CONFIG

    text = said(capsys)
    assert EXTRA in text
    assert "download it again" in text
    assert contents(folder) == before


def test_a_pointer_is_not_taken_for_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    (folder / EXTRA).write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4800000000\n"
    )

    assert register(folder) == EXIT_BAD_CONFIG
    assert "git lfs pull" in said(capsys)


def test_a_missing_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trap(tmp_path / "model", 2)
    (folder / SHARDS[1]).unlink()

    assert register(folder) == EXIT_BAD_CONFIG
    assert SHARDS[1] in said(capsys)


def test_head_tensors_that_no_file_holds_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    write_index(folder, {**body(), SHARDS[0]: [*body()[SHARDS[0]], "mtp.layers.0.lost.weight"]})

    assert register(folder) == EXIT_BAD_CONFIG
    assert "in no file (mtp.layers.0.lost.weight)" in said(capsys)


def test_no_head_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trap(tmp_path / "model", 2, None)

    assert register(folder, "--check") == EXIT_BAD_CONFIG
    assert "source=FOLDER" in said(capsys)


def test_a_head_under_an_unusual_name_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2, "speculative.safetensors")

    assert register(folder) == EXIT_BAD_CONFIG
    assert "speculative.safetensors holds such tensors" in said(capsys)


def test_a_count_other_than_promised_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    write_config(folder, config_of(256))

    assert register(folder) == EXIT_OK
    assert f"promises 785 tensors (1 MTP layers), {len(HEAD)} are here" in said(capsys)


def test_a_head_that_the_quantiser_does_not_exclude_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    write_config(
        folder, config_of(2, quantization_config={"quant_method": "auto-round", "bits": 4})
    )

    assert register(folder) == EXIT_OK
    assert "about 0 %" in said(capsys)
