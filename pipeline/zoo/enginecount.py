"""Acceptance as the engine itself counts it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.zoo.acceptance import Counts
from pipeline.zoo.errors import EngineFailedError


@dataclass(frozen=True)
class Asked:
    """One prompt for the engine: its kind and its token ids."""

    kind: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Answered:
    """A prompt, and the token ids that greedy decoding gave for it."""

    asked: Asked
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class EngineCount:
    """What an engine counted, by kind, and the answers that it counted over."""

    counts: dict[str, Counts]
    answers: tuple[Answered, ...]


class SpeculativeEngine(Protocol):
    """Runs prompts greedily with speculative decoding and reads the engine's counters."""

    def run(
        self,
        checkpoint: Path,
        speculative: dict[str, Any],
        prompts: Sequence[Asked],
        max_tokens: int,
    ) -> EngineCount:
        """Counts and answers for all prompts, in one engine start."""


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
    ) -> EngineCount:
        """See `SpeculativeEngine`."""
        from pipeline.execution.engine_process import EngineError, EngineProcess

        parts = {
            kind: [prompt for prompt in prompts if prompt.kind == kind]
            for kind in sorted({prompt.kind for prompt in prompts})
        }
        k = int(speculative["num_speculative_tokens"])
        try:
            with ExitStack() as stops:
                engine = EngineProcess(_config(checkpoint, speculative), self._log)
                stops.callback(engine.stop)
                found = {kind: _pass(engine, part, max_tokens, k) for kind, part in parts.items()}
        except EngineError as error:
            raise EngineFailedError(error, self._log) from error
        return EngineCount(
            {kind: counts for kind, (counts, _) in found.items()},
            tuple(answer for _, answers in found.values() for answer in answers),
        )


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


def _pass(
    engine: Any, prompts: Sequence[Asked], max_tokens: int, k: int
) -> tuple[Counts, list[Answered]]:
    from pipeline.execution.messages import PassJob, PromptJob
    from pipeline.spec import Sampling

    named = {f"{prompt.kind}-{i}": prompt for i, prompt in enumerate(prompts)}
    jobs = tuple(
        PromptJob(
            prompt_id=name,
            category=prompt.kind,
            token_ids=prompt.token_ids,
            max_tokens=max_tokens,
        )
        for name, prompt in named.items()
    )
    done = engine.run(PassJob(repeat=0, prompts=jobs, concurrency=8, sampling=Sampling()))
    answers = [Answered(named[one.prompt_id], one.output_token_ids) for one in done.requests]
    if done.counters is None:
        return Counts(0, (0,) * k), answers
    return Counts(done.counters.drafts, done.counters.accepted_per_position), answers
