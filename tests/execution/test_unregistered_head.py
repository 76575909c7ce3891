"""A real engine on an MTP checkpoint whose index has lost the head, before and after the cure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from pipeline import zoo
from pipeline.analysis.engagement import judge
from pipeline.checkpoints.__main__ import main
from pipeline.checkpoints.inspect import mtp_state
from pipeline.execution.engine_process import EngineProcess, RefusedError
from pipeline.execution.events import Tokenised
from pipeline.execution.messages import PassJob
from pipeline.plan import EngineConfig
from pipeline.records import PassRecord
from pipeline.spec import Sampling

pytestmark = pytest.mark.engine

PREFIX = "model.mtp_layers."
BODY, EXTRA = "model-00001-of-00001.safetensors", "model_extra_tensors.safetensors"
K = 1


@pytest.fixture
def headless(tmp_path: Path) -> Path:
    """The zoo's MTP checkpoint as publishers ship it: the head in a file the index leaves out."""
    whole = zoo.materialise("smollm2-135m-instruct-mtp")
    folder = tmp_path / "model"
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("*.safetensors", "digests.json"))
    tensors = load_file(whole / "model.safetensors")
    head = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    body = {name: tensor for name, tensor in tensors.items() if name not in head}
    save_file(body, folder / BODY, metadata={"format": "pt"})
    save_file(head, folder / EXTRA, metadata={"format": "pt"})
    weight_map = dict.fromkeys(body, BODY)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def drafting(base: EngineConfig, folder: Path, **arguments: object) -> EngineConfig:
    """MTP on a checkpoint; arguments are added to the engine's."""
    return base.model_copy(
        update={
            "checkpoint": str(folder),
            "speculative": {"method": "mtp", "num_speculative_tokens": K},
            "engine_args": {**base.engine_args, **arguments},
        }
    )


def measured(config: EngineConfig, tokens: Tokenised, log: Path) -> PassRecord:
    engine = EngineProcess(config, log)
    try:
        return engine.run(
            PassJob(repeat=0, prompts=tokens.datasets["echo"], concurrency=1, sampling=Sampling())
        )
    finally:
        engine.stop()


def test_a_head_that_the_index_leaves_out_drafts_nothing_useful_until_it_is_registered(
    headless: Path, ngram_config: EngineConfig, tokens: Tokenised, tmp_path: Path
) -> None:
    before = mtp_state(headless, PREFIX)
    assert not before.sound
    assert "the index leads to 0 of them" in before.sentence

    # Of a checkpoint that is not quantised, vLLM misses the tensors ...
    with pytest.raises(RefusedError, match="not initialized from checkpoint"):
        EngineProcess(drafting(ngram_config, headless), tmp_path / "strict.log")
    # ... of a quantised one it does not look, as here: it starts, and drafts from nothing.
    lenient = drafting(
        ngram_config, headless, model_loader_extra_config={"enable_weights_track": False}
    )
    without = measured(lenient, tokens, tmp_path / "before.log")
    assert without.counters is not None
    assert without.counters.drafts > 0
    status, reason = judge("mtp", K, [without])
    assert status == "NOOP_NO_ACCEPT"
    assert "its weights are missing" in reason

    assert main(["register-mtp", str(headless), f"prefix={PREFIX}"]) == 0

    assert mtp_state(headless, PREFIX).sound
    cured = measured(drafting(ngram_config, headless), tokens, tmp_path / "after.log")
    assert judge("mtp", K, [cured])[0] == "OK"
    assert cured.counters is not None
    assert cured.counters.accepted / cured.counters.drafts > 0.2
    # What the target says is its own either way.
    assert [r.output_token_ids for r in cured.requests] == [
        r.output_token_ids for r in without.requests
    ]
