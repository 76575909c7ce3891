from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import zoo
from pipeline.plan import EngineConfig
from pipeline.preflight.checkpoint import examine
from pipeline.preflight.findings import Finding
from tests.checkpoints.folders import (
    EXTRA,
    INDEX,
    SHARDS,
    body,
    config_of,
    head_of,
    hub_cache,
    register,
    trap,
    write_config,
    write_index,
    write_weights,
)
from tests.preflight.engines import engine

MTP = {"method": "mtp", "num_speculative_tokens": 1}
COMMIT = "0" * 40


def only(config: EngineConfig, check: str = "checkpoint") -> Finding:
    (found,) = [f for f in examine(config).findings if f.check == check]
    return found


def single(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_config(folder, {"num_hidden_layers": 2})
    write_weights(folder / "model.safetensors", {"a": ("F32", (5,)), "b": ("BF16", (4, 2))})
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache of this test's own."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_a_whole_checkpoint_is_told_with_its_size(tmp_path: Path) -> None:
    found = examine(engine(trap(tmp_path / "model")))
    assert [f.severity for f in found.findings] == ["ok"]
    assert "3 tensors in 2 whole files" in found.findings[0].what


def test_weights_count_at_two_bytes_a_number_at_most(tmp_path: Path) -> None:
    assert examine(engine(single(tmp_path / "model"))).weights_bytes == 5 * 2 + 8 * 2


def test_a_drafter_is_looked_at_and_counted_like_its_target(tmp_path: Path) -> None:
    target, drafter = single(tmp_path / "target"), single(tmp_path / "drafter")
    config = engine(target, speculative={"method": "eagle3", "model": str(drafter)})
    found = examine(config)
    assert [f.check for f in found.findings] == ["checkpoint", "drafter"]
    assert found.weights_bytes == 2 * 26
    (drafter / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert only(config, "drafter").severity == "stop"
    assert only(config, "checkpoint").severity == "ok"


def test_a_folder_that_is_not_there_stops(tmp_path: Path) -> None:
    found = only(engine(tmp_path / "model"))
    assert found.severity == "stop"
    assert found.what == f"{tmp_path / 'model'}: there is no such folder"
    assert f"out={tmp_path / 'model'}" in found.cure


def test_a_folder_that_holds_something_else_stops(tmp_path: Path) -> None:
    found = only(engine(tmp_path))
    assert found.severity == "stop"
    assert "is not a checkpoint folder" in found.what


def test_a_truncated_shard_stops_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    shard = trap(tmp_path / "model") / SHARDS[1]
    shard.write_bytes(shard.read_bytes()[:-3])
    found = only(engine(tmp_path / "model"))
    assert found.severity == "stop"
    assert found.what.startswith(str(shard))
    assert "download it again" in found.cure


def test_a_shard_that_never_arrived_stops(tmp_path: Path) -> None:
    (trap(tmp_path / "model") / SHARDS[1]).unlink()
    found = only(engine(tmp_path / "model"))
    assert found.severity == "stop"
    assert SHARDS[1] in found.what


def test_a_file_that_may_not_be_read_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = trap(tmp_path / "model") / SHARDS[0]
    opened = Path.open

    def refuse(path: Path, *arguments: object, **more: object) -> object:
        if path == shard:
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    found = only(engine(tmp_path / "model"))
    assert found.severity == "stop"
    assert "Permission denied" in found.what


def test_an_index_that_looks_in_the_wrong_file_stops(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model")
    write_index(folder, {SHARDS[0]: [name for names in body().values() for name in names]})
    found = only(engine(folder))
    assert found.severity == "stop"
    assert "lm_head.weight" in found.what


def test_weights_in_another_format_are_left_to_the_engine(tmp_path: Path) -> None:
    folder = single(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    found = only(engine(folder))
    assert found.severity == "warn"
    assert "pytorch_model.bin" in found.what


def test_a_folder_without_weights_stops(tmp_path: Path) -> None:
    folder = single(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    assert only(engine(folder)).severity == "stop"


def test_a_torn_configuration_stops(tmp_path: Path) -> None:
    (single(tmp_path / "model") / "config.json").write_text('{"num_hidden_layers": ')
    found = only(engine(tmp_path / "model"))
    assert found.severity == "stop"
    assert "config.json" in found.what


# --- the hub's cache ----------------------------------------------------------------------------


def test_a_hub_checkpoint_is_checked_where_it_was_downloaded_to(hub: Path) -> None:
    snapshot, _ = hub_cache(hub)
    config = engine("Someone/Model-INT4", revision=COMMIT)
    assert only(config).severity == "ok"
    (snapshot / SHARDS[0]).unlink()
    assert only(config).severity == "stop"


def test_a_hub_checkpoint_that_is_not_here_is_warned_of(hub: Path) -> None:
    hub.mkdir()
    found = only(engine("Someone/Model-INT4", revision=COMMIT))
    assert found.severity == "warn"
    assert found.cure == f"hf download Someone/Model-INT4 --revision {COMMIT}"


def test_offline_a_hub_checkpoint_that_is_not_here_stops(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert only(engine("Someone/Model-INT4")).severity == "stop"


def test_what_is_no_reference_at_all_stops(hub: Path) -> None:
    assert only(engine("zoo:no-such-model")).severity == "stop"
    assert only(engine("a b c")).severity == "stop"
    assert only(engine("~nobody-of-this-name/model")).severity == "stop"


# --- the head of mtp ----------------------------------------------------------------------------


def test_a_head_that_the_index_leaves_out_stops_mtp_until_it_is_registered(tmp_path: Path) -> None:
    config = engine(trap(tmp_path / "model", 2), speculative=MTP)
    found = only(config, "mtp_head")
    assert found.severity == "stop"
    assert found.cure == f"python -m pipeline.checkpoints register-mtp {tmp_path / 'model'}"
    register(tmp_path / "model")
    assert only(config, "mtp_head").severity == "ok"


def test_other_methods_do_not_need_the_head(tmp_path: Path) -> None:
    found = examine(engine(trap(tmp_path / "model", 2), speculative={"method": "ngram"}))
    assert [f.check for f in found.findings] == ["checkpoint"]


def test_a_checkpoint_that_lost_its_head_stops_mtp(tmp_path: Path) -> None:
    found = only(engine(trap(tmp_path / "model", 2, None), speculative=MTP), "mtp_head")
    assert found.severity == "stop"
    assert "source=FOLDER" in found.cure


def test_a_model_without_mtp_layers_stops_mtp(tmp_path: Path) -> None:
    found = only(engine(single(tmp_path / "model"), speculative=MTP), "mtp_head")
    assert found.severity == "stop"
    assert "leave mtp out" in found.cure


def test_a_head_that_would_be_read_as_quantised_stops_mtp(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    register(folder)
    write_config(folder, config_of(2, quantization_config={"quant_method": "auto-round"}))
    found = only(engine(folder, speculative=MTP), "mtp_head")
    assert found.severity == "stop"
    assert "0 %" in found.what


@pytest.mark.parametrize("name", ["model.mtp_layers.0.fc.weight", "model.layers.2.fc.weight"])
def test_heads_of_other_families_are_known_by_their_names(name: str, tmp_path: Path) -> None:
    folder = single(tmp_path / "model")
    write_config(folder, {"num_hidden_layers": 2, "num_nextn_predict_layers": 1})
    write_weights(folder / EXTRA, {name: ("BF16", (2, 2))})
    write_index(folder, {"model.safetensors": ["a", "b"]})
    config = engine(folder, speculative=MTP)
    found = only(config, "mtp_head")
    assert found.severity == "stop"
    assert found.cure.endswith(f"prefix={name.partition('0.fc')[0].removesuffix('fc.weight')}")
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"][name] = EXTRA
    (folder / INDEX).write_text(json.dumps(index))
    assert only(config, "mtp_head").severity == "ok"


def test_a_head_under_an_unknown_name_is_left_to_the_engine(tmp_path: Path) -> None:
    folder = single(tmp_path / "model")
    write_config(folder, {"num_hidden_layers": 2, "num_nextn_predict_layers": 1})
    assert only(engine(folder, speculative=MTP), "mtp_head").severity == "warn"


def test_the_zoos_own_checkpoints_are_well() -> None:
    config = engine(zoo.materialise("smollm2-135m-instruct-mtp"), speculative=MTP)
    assert [f.severity for f in examine(config).findings] == ["ok", "ok"]


def test_the_head_of_the_article_has_its_785_tensors(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model")
    register(folder)
    found = only(engine(folder, speculative=MTP), "mtp_head")
    assert found.what == f"all {len(head_of())} MTP tensors are reachable"
