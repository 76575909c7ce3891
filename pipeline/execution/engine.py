"""vLLM, and a pass over prompts on it. The only module that imports vLLM.

The synchronous engine is stepped here, so that each step's tokens and times are seen as they are;
whether the engine core runs in this process or in one of its own is vLLM's
`VLLM_ENABLE_V1_MULTIPROCESSING`, which the platform sets. On two CPU cores the core in this process
started in about half the asynchronous engine's time, decoded faster and varied less from round to
round (`tests/benchmarks/front_ends.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

import vllm
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.logprobs import Logprob
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.metrics.reader import Counter, Vector

from pipeline.execution.messages import EngineStart, Output, PassJob, PromptJob, ScoreJob
from pipeline.records import CounterDelta, PassRecord, RequestRecord, RescoredOutput

_SERIES = "vllm:spec_decode_"
# vLLM after 0.28 tells each request's accepted and drafted tokens step by step.
_PER_REQUEST = "per_request_spec_decode_metrics"


class Engine:
    """A loaded vLLM engine that runs one pass at a time."""

    def __init__(self, start: EngineStart) -> None:
        known = {f.name for f in fields(EngineArgs)}
        detail = {_PER_REQUEST: "detailed"} if start.speculative and _PER_REQUEST in known else {}
        self._engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=start.checkpoint,
                revision=start.revision,
                trust_remote_code=start.trust_remote_code,
                speculative_config=start.speculative,
                disable_log_stats=False,
                **{**start.engine_args, **detail},
            )
        )

    version: str = vllm.__version__

    def run(self, job: PassJob, tell: Callable[[int], None]) -> PassRecord:
        """Send the prompts, `concurrency` in flight at a time, and record every chunk of tokens.

        Args:
            tell: called after every step with the number of tokens so far.
        """
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache could not be reset between passes")
        before = self._counters()
        waiting, running, finished = deque(job.prompts), dict[str, _Trace](), list[_Trace]()
        began = time.monotonic()
        while waiting or running:
            while waiting and len(running) < job.concurrency:
                trace = self._submit(waiting.popleft(), job, began)
                running[trace.job.prompt_id] = trace
            for output in self._engine.step():
                trace = running[output.request_id]
                trace.add(output, began)
                if output.finished:
                    finished.append(running.pop(output.request_id))
            tell(sum(trace.tokens for trace in (*finished, *running.values())))
        wall = time.monotonic() - began
        order = {prompt.prompt_id: index for index, prompt in enumerate(job.prompts)}
        finished.sort(key=lambda t: order[t.job.prompt_id])
        return PassRecord(
            repeat=job.repeat,
            wall_s=wall,
            requests=tuple(trace.record(job.repeat) for trace in finished),
            counters=_delta(before, self._counters()),
        )

    def score(self, job: ScoreJob, tell: Callable[[int], None]) -> tuple[RescoredOutput, ...]:
        """Give each output back as a prompt and read off how likely its tokens are.

        One at a time: the logits of a prompt take vocabulary x tokens x 4 bytes.
        """
        scored = []
        for number, output in enumerate(job.outputs, 1):
            scored.append(self._score(output))
            tell(number)
        return tuple(scored)

    def _score(self, output: Output) -> RescoredOutput:
        # One more token has to fit, since an engine puts out at least one.
        room = self._engine.model_config.max_model_len - 1
        tokens = (*output.prompt_token_ids, *output.output_token_ids)[:room]
        # Asking for the likeliest token gives it and the one that stands there.
        params = SamplingParams(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=1,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        self._engine.add_request("score", {"prompt_token_ids": list(tokens)}, params)
        done: list[RequestOutput] = []
        while not (done and done[-1].finished):
            done += self._engine.step()
        own = slice(len(output.prompt_token_ids), None)
        found = [
            _scored(at, token)
            for at, token in zip((done[-1].prompt_logprobs or [])[own], tokens[own], strict=True)
        ]
        return RescoredOutput(
            prompt_id=output.prompt_id,
            repeat=output.repeat,
            gaps=tuple(gap for gap, _ in found),
            logprobs=tuple(logprob for _, logprob in found),
        )

    def _submit(self, prompt: PromptJob, job: PassJob, began: float) -> _Trace:
        sampling = job.sampling
        params = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            presence_penalty=sampling.presence_penalty,
            repetition_penalty=sampling.repetition_penalty,
            # A seed per request would switch greedy decoding to a slower path for nothing.
            seed=sampling.seed + job.repeat if sampling.temperature > 0 else None,
            max_tokens=prompt.max_tokens,
            output_kind=RequestOutputKind.DELTA,
        )
        trace = _Trace(prompt, sent_s=time.monotonic() - began)
        self._engine.add_request(
            prompt.prompt_id, {"prompt_token_ids": list(prompt.token_ids)}, params
        )
        return trace

    def _counters(self) -> CounterDelta | None:
        """The engine's speculative counters now; None where it has no such series."""
        totals: dict[str, int] = {}
        positions: list[int] = []
        for metric in self._engine.get_metrics():
            if not metric.name.startswith(_SERIES):
                continue
            if isinstance(metric, Vector):
                positions = _added(positions, metric.values)
            elif isinstance(metric, Counter):
                totals[metric.name] = totals.get(metric.name, 0) + metric.value
        if not totals:
            return None
        return CounterDelta(
            drafts=totals[f"{_SERIES}num_drafts"],
            drafted=totals[f"{_SERIES}num_draft_tokens"],
            accepted=totals[f"{_SERIES}num_accepted_tokens"],
            accepted_per_position=tuple(positions),
        )


@dataclass
class _Trace:
    """A request on its way: what came out of it, and when, on the engine core's clock."""

    job: PromptJob
    sent_s: float
    chunk_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    drafted: tuple[int, ...] | None = None
    accepted: tuple[int, ...] | None = None

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    def add(self, output: RequestOutput, began: float) -> None:
        part = output.outputs[0]
        if part.token_ids:
            assert output.metrics is not None
            self.chunk_s.append(output.metrics.last_token_ts - began)
            self.chunk_tokens.append(len(part.token_ids))
            self.token_ids.extend(part.token_ids)
        self.text += part.text
        if output.finished:
            self.finish_reason = part.finish_reason or ""
            self._take_drafts(part)

    def _take_drafts(self, part: object) -> None:
        detail = getattr(part, "spec_decode_metrics", None)
        if detail is not None:
            self.drafted = tuple(detail.per_step_drafted)
            self.accepted = tuple(detail.per_step_accepted)

    def record(self, repeat: int) -> RequestRecord:
        return RequestRecord(
            prompt_id=self.job.prompt_id,
            category=self.job.category,
            repeat=repeat,
            prompt_tokens=len(self.job.token_ids),
            output_token_ids=tuple(self.token_ids),
            text=self.text,
            finish_reason=self.finish_reason,
            sent_s=self.sent_s,
            chunk_s=tuple(round(s, 6) for s in self.chunk_s),
            chunk_tokens=tuple(self.chunk_tokens),
            drafted=self.drafted,
            accepted=self.accepted,
        )


def _scored(at: Mapping[int, Logprob] | None, token: int) -> tuple[float, float]:
    """How far a token is below the likeliest one, and its own log-probability, in nats."""
    assert at is not None, "only a prompt's first token has no log-probability"
    own = at[token].logprob
    return round(max(one.logprob for one in at.values()) - own, 6), round(own, 6)


def _added(one: list[int], other: list[int]) -> list[int]:
    """Element-wise sum, over engines of one deployment."""
    return [a + b for a, b in zip(one, other, strict=True)] if one else list(other)


def _delta(before: CounterDelta | None, after: CounterDelta | None) -> CounterDelta | None:
    if after is None:
        return None
    if before is None:
        return after
    return CounterDelta(
        drafts=after.drafts - before.drafts,
        drafted=after.drafted - before.drafted,
        accepted=after.accepted - before.accepted,
        accepted_per_position=tuple(
            a - b
            for a, b in zip(after.accepted_per_position, before.accepted_per_position, strict=True)
        ),
    )
