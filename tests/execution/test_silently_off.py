"""Drafters that would measure plain decoding under their own name, each provoked on a real engine.

A head that the checkpoint's index leaves out is in `test_unregistered_head`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline import zoo
from pipeline.execution.events import CellDone, GroupJob, StartDone, Tokenised
from pipeline.execution.worker import run_group
from pipeline.plan import EngineConfig
from pipeline.records import CellRecord
from pipeline.spec import SweepConfig
from pipeline.values import Speculative
from tests.factories import coordinates, plan

pytestmark = pytest.mark.engine

HEAD = "smollm2-135m-instruct-eagle3"


def outcome(
    method: str,
    k: int,
    speculative: Speculative,
    base: EngineConfig,
    tokens: Tokenised,
    sweep: SweepConfig,
) -> CellRecord:
    """What a cell ends as, from the worker, when its engine is configured like this."""
    (group,) = plan(coordinates(method, k)).groups
    engine = base.model_copy(update={"speculative": speculative})
    job = GroupJob(
        sweep="demo",
        start_id="1",
        group=group.model_copy(update={"engine": engine}),
        tokens=tokens,
        measure=sweep.measure.model_copy(update={"repeats": 1}),
        take_machine=False,
    )
    events = list(run_group(job))
    assert [e.ready for e in events if isinstance(e, StartDone)] == [True]
    (done,) = [e.record for e in events if isinstance(e, CellDone)]
    return done


@pytest.fixture
def untrained(tmp_path: Path) -> Path:
    """The zoo's EAGLE3 head with weights drawn by lot; its vocabulary is left as it is."""
    folder = tmp_path / "untrained"
    shutil.copytree(zoo.materialise(HEAD), folder)
    path = folder / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    drawn = {
        name: torch.randn(tensor.shape, generator=generator).to(tensor.dtype) * 0.05
        if tensor.dtype.is_floating_point and "lm_head" not in name
        else tensor
        for name, tensor in load_file(path).items()
    }
    save_file(drawn, path, metadata={"format": "pt"})
    return folder


def test_a_drafter_with_random_weights_is_measured_and_told(
    untrained: Path, ngram_config: EngineConfig, tokens: Tokenised, sweep: SweepConfig
) -> None:
    drafting: Speculative = {
        "method": "eagle3",
        "num_speculative_tokens": 1,
        "model": str(untrained),
    }
    found = outcome("eagle3", 1, drafting, ngram_config, tokens, sweep)
    assert found.status == "NOOP_NO_ACCEPT"
    assert "untrained" in found.status_reason


def test_a_drafter_whose_context_ends_before_the_prompt_is_told(
    ngram_config: EngineConfig, tokens: Tokenised, sweep: SweepConfig
) -> None:
    # The engine leaves it out and verifies nothing real in its place, without a word.
    idle: Speculative = {
        "method": "eagle3",
        "num_speculative_tokens": 1,
        "model": str(zoo.materialise(HEAD)),
        "max_model_len": 16,
    }
    found = outcome("eagle3", 1, idle, ngram_config, tokens, sweep)
    assert found.status == "NOOP_NO_ACCEPT"


def test_a_lookup_that_never_matches_is_a_result_and_says_that_it_drafted_nothing(
    ngram_config: EngineConfig, tokens: Tokenised, sweep: SweepConfig
) -> None:
    matching: Speculative = {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 64,
        "prompt_lookup_max": 64,
    }
    found = outcome("ngram", 4, matching, ngram_config, tokens, sweep)
    assert found.status == "OK"
    assert found.counts is not None
    assert found.counts.drafts == 0
    assert found.metrics["accept/coverage"].value == 0
    assert "nothing in the text matched" in found.status_reason


def test_a_baseline_with_a_drafter_is_told_from_the_engine_s_log(
    ngram_config: EngineConfig, tokens: Tokenised, sweep: SweepConfig
) -> None:
    assert ngram_config.speculative is not None
    found = outcome("none", 0, ngram_config.speculative, ngram_config, tokens, sweep)
    assert found.status == "SUSPECT"
    assert "log" in found.status_reason
