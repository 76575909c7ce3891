"""Passes of an imagined engine, built from what each step did."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from pipeline.analysis.counts import drafts_of_requests
from pipeline.records import CounterDelta, PassRecord, RequestRecord

STEP_S = 0.05
PREFILL_S = 0.2


@dataclass(frozen=True)
class Step:
    """One step: tokens drafted (0: none) and how many of them were accepted."""

    drafted: int
    accepted: int


def request(
    steps: Sequence[Step],
    *,
    prompt: str = "p0",
    repeat: int = 0,
    cut: int = 0,
    sent_s: float = 0.0,
    step_s: float = STEP_S,
    counted: bool = True,
) -> RequestRecord:
    """A request of these steps after prefill, `cut` tokens of the last step truncated."""
    chunks = [1, *(1 + step.accepted for step in steps)]
    chunks[-1] -= cut
    drafting = [step for step in steps if step.drafted]
    return RequestRecord(
        prompt_id=prompt,
        category="test",
        repeat=repeat,
        prompt_tokens=7,
        output_token_ids=tuple(range(sum(chunks))),
        text="",
        finish_reason="length",
        sent_s=sent_s,
        chunk_s=tuple(sent_s + PREFILL_S + step_s * i for i in range(len(chunks))),
        chunk_tokens=tuple(chunks),
        drafted=tuple(step.drafted for step in drafting) if counted else None,
        accepted=tuple(step.accepted for step in drafting) if counted else None,
    )


def one_pass(*requests: RequestRecord, repeat: int = 0, wall_s: float | None = None) -> PassRecord:
    ends = [r.chunk_s[-1] for r in requests if r.chunk_s]
    return PassRecord(
        repeat=repeat,
        wall_s=max(ends, default=1.0) if wall_s is None else wall_s,
        requests=requests,
        counters=None,
    )


def with_counters(one: PassRecord, k: int, **changes: int | tuple[int, ...]) -> PassRecord:
    """The pass with the engine's counters beside its requests' records, some of them changed."""
    own = drafts_of_requests(one.requests, k)
    assert own is not None
    return one.model_copy(update={"counters": own.model_copy(update=changes)})


def counters_only(one: PassRecord, k: int) -> PassRecord:
    """The pass as an engine without per-request records would tell it."""
    silent = [r.model_copy(update={"drafted": None, "accepted": None}) for r in one.requests]
    return with_counters(one, k).model_copy(update={"requests": tuple(silent)})


def counters(drafts: int, drafted: int, *positions: int) -> CounterDelta:
    return CounterDelta(
        drafts=drafts,
        drafted=drafted,
        accepted=sum(positions),
        accepted_per_position=positions,
    )


@st.composite
def steps(draw: st.DrawFn, k: int, min_size: int = 0) -> list[Step]:
    """Any sequence of steps of an engine that drafts at most K tokens at a time."""
    drafted = draw(st.lists(st.integers(0, k), min_size=min_size, max_size=12))
    return [Step(tokens, draw(st.integers(0, tokens))) for tokens in drafted]


@st.composite
def passes(draw: st.DrawFn, k: int) -> list[PassRecord]:
    """Repeats over the same prompts, every answer cut somewhere in its last step."""
    prompts = [f"p{i}" for i in range(draw(st.integers(1, 4)))]
    return [
        one_pass(*(_any_request(draw, prompt, k, repeat) for prompt in prompts), repeat=repeat)
        for repeat in range(draw(st.integers(1, 3)))
    ]


def _any_request(draw: st.DrawFn, prompt: str, k: int, repeat: int) -> RequestRecord:
    made = draw(steps(k))
    cut = draw(st.integers(0, made[-1].accepted)) if made else 0
    step_s = draw(st.floats(0.01, 0.2))
    return request(made, prompt=prompt, repeat=repeat, cut=cut, step_s=step_s)
