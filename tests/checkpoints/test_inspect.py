"""mtp_state: the question an engine's gate asks, answered from headers, index and config."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.checkpoints.__main__ import main
from pipeline.checkpoints.errors import NotACheckpointError
from pipeline.checkpoints.inspect import mtp_state
from tests.checkpoints.folders import EXTRA, INDEX, config_of, trap, write_config, write_weights


def test_the_trap_is_seen_and_then_gone(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model")

    trapped = mtp_state(folder)
    main(["register-mtp", str(folder)])
    cured = mtp_state(folder)

    assert (trapped.expected, trapped.present, trapped.reachable) == (785, 785, 0)
    assert not trapped.sound
    assert f"register-mtp {folder}" in trapped.sentence
    assert (cured.expected, cured.present, cured.reachable) == (785, 785, 785)
    assert cured.sound
    assert cured.sentence == "all 785 MTP tensors are reachable"


def test_without_an_index_every_file_is_read(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    (folder / INDEX).unlink()
    write_weights(folder / "model.safetensors", {"a": ("F32", (1,))})

    assert mtp_state(folder).sound


def test_a_model_without_a_head(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2, None)
    write_config(folder, {"num_hidden_layers": 2})

    state = mtp_state(folder)

    assert (state.layers, state.expected, state.present, state.sound) == (0, None, 0, False)
    assert "promises no MTP layer" in state.sentence


def test_a_promise_without_the_tensors(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2, None)

    state = mtp_state(folder)

    assert not state.sound
    assert "source=FOLDER" in state.sentence


def test_another_count_than_promised_is_said_and_not_judged(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    write_config(folder, config_of(3))
    main(["register-mtp", str(folder)])

    state = mtp_state(folder)

    assert state.sound
    assert "config.json promises 26" in state.sentence


@pytest.mark.parametrize(("rules", "excluded"), [({}, False), ({"ignore": ["re:mtp.*"]}, True)])
def test_a_quantised_checkpoint(tmp_path: Path, rules: dict[str, object], excluded: bool) -> None:
    folder = trap(tmp_path / "model", 2)
    main(["register-mtp", str(folder)])
    write_config(folder, config_of(2, quantization_config={"bits": 4, **rules}))

    state = mtp_state(folder)

    assert state.excluded is excluded
    assert state.sound is excluded


def test_a_head_that_is_itself_quantised_needs_no_exclusion(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2, None)
    write_weights(folder / EXTRA, {"mtp.fc.qweight": ("I32", (2, 2))})
    main(["register-mtp", str(folder)])
    write_config(folder, config_of(2, quantization_config={"bits": 4}))

    assert mtp_state(folder).excluded is None


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(NotACheckpointError, match="no such folder"):
        mtp_state(tmp_path / "nowhere")
