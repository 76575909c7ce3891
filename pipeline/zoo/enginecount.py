"""Acceptance as the engine itself counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.zoo.acceptance import Counts


@dataclass(frozen=True)
class Asked:
    """One prompt for the engine: its kind and its token ids."""

    kind: str
    token_ids: tuple[int, ...]


class SpeculativeEngine(Protocol):
    """Runs prompts greedily with speculative decoding and reads the engine's counters."""

    def run(
        self,
        checkpoint: Path,
        speculative: dict[str, Any],
        prompts: Sequence[Asked],
        max_tokens: int,
    ) -> dict[str, Counts]:
        """Counts by kind for all prompts, in one engine start."""


class PipelineEngine:
    """The pipeline's own engine process.

    Args:
        log: where the engine's output goes.
    """

    def __init__(self, log: Path) -> None:
        self._log = log

    def run(
        self,
        checkpoint: Path,
        speculative: dict[str, Any],
        prompts: Sequence[Asked],
        max_tokens: int,
    ) -> dict[str, Counts]:
        """See `SpeculativeEngine`."""
        from pipeline.execution.engine_process import EngineProcess

        engine = EngineProcess(_config(checkpoint, speculative), self._log)
        try:
            kinds = sorted({prompt.kind for prompt in prompts})
            k = int(speculative["num_speculative_tokens"])
            return {kind: _pass(engine, kind, prompts, max_tokens, k) for kind in kinds}
        finally:
            engine.stop()


def _config(checkpoint: Path, speculative: dict[str, Any]) -> Any:
    from pipeline.plan import EngineConfig

    return EngineConfig(
        checkpoint=str(checkpoint),
        revision=None,
        trust_remote_code=False,
        speculative=speculative,
        engine_args={"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 2048},
        env={"VLLM_CPU_KVCACHE_SPACE": "1"},
        preload=("libiomp5.so", "libtcmalloc_minimal.so.4"),
        engine_core="in_process",
        device="cpu",
        start_deadline_s=600,
        token_deadline_s=300,
    )


def _pass(engine: Any, kind: str, prompts: Sequence[Asked], max_tokens: int, k: int) -> Counts:
    from pipeline.execution.messages import PassJob, PromptJob
    from pipeline.spec import Sampling

    jobs = tuple(
        PromptJob(
            prompt_id=f"{kind}-{i}",
            category=kind,
            token_ids=prompt.token_ids,
            max_tokens=max_tokens,
        )
        for i, prompt in enumerate(prompts)
        if prompt.kind == kind
    )
    job = PassJob(repeat=0, prompts=jobs, concurrency=8, sampling=Sampling())
    counters = engine.run(job).counters
    if counters is None:
        return Counts(0, (0,) * k)
    return Counts(counters.drafts, counters.accepted_per_position)
