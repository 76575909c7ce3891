"""How fast tokens came out, from the engine's clocks. Rates are tokens per second, latencies ms.

A metric that one request or pass does not define (an answer that came in one chunk has no decode
time) is left out there, never counted as zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from pipeline.records import PassRecord, PromptCost, RequestRecord, Summary

PEAK_WINDOW_S = 1.0

PerRequest = Callable[[RequestRecord], float | None]


def summary(values: Sequence[float]) -> Summary | None:
    """Median, median absolute deviation and n; None of no values."""
    if not values:
        return None
    return Summary(value=median(values), spread=deviation(values), n=len(values))


def deviation(values: Sequence[float]) -> float:
    """Median absolute deviation from the median, unscaled: the values' own unit."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def decode_s_per_token(request: RequestRecord) -> float | None:
    """Seconds per token after the first chunk: (t_last - t_first) / (N - n_first).

    The first chunk is left out on both sides because its time is prefill's and queueing's. One
    request's own clock, so it means the same at any concurrency.
    """
    tokens = sum(request.chunk_tokens[1:])
    if tokens <= 0 or request.chunk_s[-1] <= request.chunk_s[0]:
        return None
    return (request.chunk_s[-1] - request.chunk_s[0]) / tokens


def steps_per_token(request: RequestRecord) -> float | None:
    """Verification steps per token after the first chunk: the inverse of tokens per step."""
    tokens = sum(request.chunk_tokens[1:])
    return (len(request.chunk_tokens) - 1) / tokens if tokens > 0 else None


def prompt_costs(passes: Iterable[PassRecord]) -> tuple[PromptCost, ...]:
    """What each answer cost: the values that comparisons are made of."""
    return tuple(
        PromptCost(
            prompt_id=r.prompt_id,
            repeat=one.repeat,
            decode_s=decode_s_per_token(r),
            steps=steps_per_token(r),
        )
        for one in passes
        for r in one.requests
    )


def e2e_s_per_token(request: RequestRecord) -> float | None:
    """Seconds per token from sending the request: (t_last - t_sent) / N."""
    tokens = sum(request.chunk_tokens)
    if tokens <= 0 or request.chunk_s[-1] <= request.sent_s:
        return None
    return (request.chunk_s[-1] - request.sent_s) / tokens


def ttft_ms(request: RequestRecord) -> float | None:
    """Milliseconds from sending the request to its first chunk of tokens."""
    return (request.chunk_s[0] - request.sent_s) * 1000 if request.chunk_s else None


def step_ms(passes: Iterable[PassRecord]) -> list[float]:
    """Milliseconds between chunks, of all requests: time per step, not per token."""
    return [
        (after - before) * 1000
        for one in passes
        for request in one.requests
        for before, after in pairwise(request.chunk_s)
    ]


def by_prompt(passes: Iterable[PassRecord], quantity: PerRequest) -> dict[str, float]:
    """A quantity of each prompt, averaged over its repeats: the prompt is the unit of analysis.

    Rates are averaged as seconds per token and inverted by the caller: times add up, so their mean
    is the time a user waited, while a mean of rates favours whichever repeat happened to be fast.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    for request in (r for one in passes for r in one.requests):
        if (value := quantity(request)) is not None:
            found[request.prompt_id].append(value)
    return {prompt: fmean(values) for prompt, values in found.items()}


def output_tok_s(one: PassRecord) -> float | None:
    """Tokens put out by a pass over its wall time."""
    tokens = sum(sum(r.chunk_tokens) for r in one.requests)
    return tokens / one.wall_s if one.wall_s > 0 and tokens else None


def peak_tok_s(one: PassRecord) -> float | None:
    """The most tokens in any one-second window of a pass; None of a pass shorter than that."""
    if one.wall_s < PEAK_WINDOW_S:
        return None
    chunks = sorted(_chunks(one))
    best = inside = first = 0
    for at, tokens in chunks:
        inside += tokens
        while chunks[first][0] <= at - PEAK_WINDOW_S:
            inside -= chunks[first][1]
            first += 1
        best = max(best, inside)
    return best / PEAK_WINDOW_S if best else None


def _chunks(one: PassRecord) -> Iterator[tuple[float, int]]:
    for request in one.requests:
        yield from zip(request.chunk_s, request.chunk_tokens, strict=True)
