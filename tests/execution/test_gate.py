"""A drafter that would do nothing is found before its cells cost time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.execution.gate import after_start, before_start
from pipeline.plan import EngineConfig
from pipeline.records import CounterDelta, PassRecord
from tests.checkpoints.folders import (
    SHARDS,
    Spec,
    register,
    trap,
    write_config,
    write_index,
    write_weights,
)
from tests.factories import coordinates, one_pass, plan

STARTED = "INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m', "
PLAIN, DRAFTING = (
    f"{STARTED}speculative_config=None, tokenizer='m'",
    f"{STARTED}speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=2)",
)


def warm_up(counters: CounterDelta | None) -> PassRecord:
    """A warm-up of which only the engine's own counters tell anything."""
    whole = one_pass()
    silent = [r.model_copy(update={"drafted": None, "accepted": None}) for r in whole.requests]
    return whole.model_copy(update={"requests": tuple(silent), "counters": counters})


NOTHING = CounterDelta(drafts=0, drafted=0, accepted=0, accepted_per_position=(0, 0))


@pytest.mark.parametrize(
    ("kind", "log", "counters", "status"),
    [
        pytest.param("mtp", PLAIN, NOTHING, "NOOP_NOT_CONFIGURED", id="its log says no drafter"),
        pytest.param("mtp", DRAFTING, None, "NOOP_NOT_CONFIGURED", id="it has no counters"),
        pytest.param("mtp", DRAFTING, NOTHING, "NOOP_NO_DRAFTS", id="its warm-up drafts nothing"),
        pytest.param("none", DRAFTING, None, "SUSPECT", id="plain decoding with a drafter"),
        pytest.param("none", "", NOTHING, "SUSPECT", id="plain decoding with counters"),
    ],
)
def test_a_start_that_cannot_be_what_was_asked_is_told(
    kind: str, log: str, counters: CounterDelta | None, status: str
) -> None:
    found = after_start(kind, 0 if kind == "none" else 2, warm_up(counters), log)
    assert found is not None
    assert found[0] == status


@pytest.mark.parametrize(
    ("kind", "log", "passed"),
    [
        pytest.param("ngram", DRAFTING, warm_up(NOTHING), id="nothing in the text matched"),
        pytest.param("ngram", DRAFTING, one_pass(), id="a warm-up that drafts"),
        pytest.param("none", PLAIN, warm_up(None), id="plain decoding"),
        pytest.param("none", "another vLLM's log", warm_up(None), id="a log that says nothing"),
    ],
)
def test_a_start_that_is_as_asked_goes_on(kind: str, log: str, passed: PassRecord) -> None:
    assert after_start(kind, 0 if kind == "none" else 2, passed, log) is None


def engine(folder: Path | str) -> EngineConfig:
    (group,) = plan(coordinates()).groups
    return group.engine.model_copy(update={"checkpoint": str(folder)})


def checkpoint(folder: Path, head: dict[str, Spec], layers: dict[str, object]) -> Path:
    """A checkpoint of one shard, whose index leads to all of it."""
    tensors = {"model.embed_tokens.weight": ("BF16", (4, 2)), **head}
    folder.mkdir()
    write_weights(folder / SHARDS[0], tensors)
    write_index(folder, {SHARDS[0]: tensors})
    write_config(folder, {"num_hidden_layers": 30, **layers})
    return folder


def test_a_head_that_the_index_leaves_out_is_found_without_a_start_and_its_cure_is_named(
    tmp_path: Path,
) -> None:
    folder = trap(tmp_path / "model", 2)
    found = before_start("mtp", engine(folder))
    assert found is not None
    assert found[0] == "NOOP_NOT_CONFIGURED"
    assert "python -m pipeline.checkpoints register-mtp" in found[1]
    assert register(folder) == 0
    assert before_start("mtp", engine(folder)) is None


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        pytest.param("model.mtp_layers.0.norm.weight", "num_nextn_predict_layers", id="MiMo's"),
        pytest.param("model.layers.30.norm.weight", "num_nextn_predict_layers", id="DeepSeek's"),
    ],
)
def test_heads_of_other_layouts_are_known(tmp_path: Path, name: str, promise: str) -> None:
    folder = checkpoint(tmp_path / "model", {name: ("BF16", (2,))}, {promise: 1})
    assert before_start("mtp", engine(folder)) is None


def test_a_checkpoint_without_any_head_is_told(tmp_path: Path) -> None:
    found = before_start("mtp", engine(checkpoint(tmp_path / "model", {}, {})))
    assert found is not None


def test_other_methods_and_checkpoints_on_a_hub_are_left_to_the_engine(tmp_path: Path) -> None:
    assert before_start("eagle3", engine(tmp_path)) is None
    assert before_start("mtp", engine("someone/model")) is None
