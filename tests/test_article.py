"""What the article served with, word for word, against what `article_exact` composes."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from pipeline.plan import EngineConfig, Plan
from pipeline.serve import serve_command
from pipeline.spec import Sampling, SweepConfig
from tests.grids import compose, planned

SWEEP = "+sweep=article_exact"
MAIN = "qwen3.5-122b-a10b-hybrid-int4-fp8"
FLAGS = shlex.split(
    "--served-model-name qwen/qwen3.5 --max-model-len 196608 --max-num-batched-tokens 32768"
    " --gpu-memory-utilization 0.88 --load-format fastsafetensors --attention-backend FLASHINFER"
    " --enable-chunked-prefill --generation-config auto"
)
SPECULATIVE: dict[str, dict[str, Any] | None] = {
    "none": None,
    "ngram-k4": {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    },
    "mtp-k2": {"method": "mtp", "num_speculative_tokens": 2},
    "dflash-k15": {
        "method": "dflash",
        "num_speculative_tokens": 15,
        "model": "z-lab/Qwen3.5-122B-A10B-DFlash",
        "revision": "bce6f76cef2027552bed4a8a1bc9c449def48f05",
        "attention_backend": "FLASHINFER",
    },
}


@pytest.fixture(scope="module")
def config() -> SweepConfig:
    return compose(SWEEP, platform="dgx_spark")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(SWEEP, platform="dgx_spark")


def engine(plan: Plan, name: str) -> EngineConfig:
    return next(g.engine for g in plan.groups if g.id == f"{MAIN}--{name}")


def grouped(words: list[str]) -> set[tuple[str, ...]]:
    """Flags with their values, in whatever order."""
    flags: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            flags.append([word])
        elif flags:
            flags[-1].append(word)
    return {tuple(flag) for flag in flags}


def test_the_engine_is_served_with_the_articles_flags_and_no_prefix_cache(plan: Plan) -> None:
    served = grouped(shlex.split(serve_command(engine(plan, "none"))))
    assert served == grouped(FLAGS) | {("--no-enable-prefix-caching",)}


@pytest.mark.parametrize("name", SPECULATIVE)
def test_a_method_is_configured_as_the_article_did(plan: Plan, name: str) -> None:
    assert engine(plan, name).speculative == SPECULATIVE[name]


def test_tokens_are_drawn_as_the_article_drew_them(config: SweepConfig) -> None:
    assert config.measure.sampling == Sampling(
        temperature=0.7,
        top_p=0.8,
        top_k=20,
        presence_penalty=0.0,
        repetition_penalty=1.0,
        seed=0,
    )


def test_the_grid_is_the_articles_table(plan: Plan) -> None:
    assert [group.id.replace(MAIN, "122b") for group in plan.groups] == [
        "122b--none",
        "122b--ngram-k4",
        "122b--ngram-k5",
        "122b--mtp-k1",
        "122b--mtp-k2",
        "122b--mtp-k4",
        "122b--dflash-k15",
        "qwen3-30b-a3b--none",
        "qwen3-30b-a3b--eagle3-k1",
        "qwen3-30b-a3b--eagle3-k12",
    ]
    methods = planned("+sweep=spec_methods", platform="dgx_spark")
    assert [group.id for group in methods.groups] == [group.id for group in plan.groups]


def test_a_change_of_the_platforms_defaults_does_not_move_it() -> None:
    moved = [
        "platform.engine_args.gpu_memory_utilization=0.5",
        "platform.engine_args.attention_backend=TRITON_ATTN",
    ]
    assert (
        engine(planned(SWEEP, *moved, platform="dgx_spark"), "none").engine_args
        == engine(planned(SWEEP, platform="dgx_spark"), "none").engine_args
    )
