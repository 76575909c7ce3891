"""What the engine drafted, what was accepted, and how many steps it took.

The letters used everywhere: R requests, N output tokens, D drafts (steps that drafted), T drafted
tokens, A accepted drafted tokens, P_i drafts whose token at position i (from 0) was accepted, K the
most tokens one step may draft.

A request's first token comes from its prefill. Every later step puts out one token of its own
(the bonus token) plus the drafted tokens it accepted, so S steps put out S + A tokens. The engine
counts A before it cuts the last step at a stop token or at the token cap, and what was cut is

    truncated = S + A - (N - R)

Chunks tell S where each step is one chunk. A client that lags gets steps merged into one chunk, so
S is taken as the largest of three lower bounds: chunks after the first, N - R - A (nothing was cut)
and D. The first is exact without merging, the second where nothing was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.records import CounterDelta, Counts, PassRecord, RequestRecord


def count(passes: Sequence[PassRecord], k: int) -> Counts:
    """Totals over passes.

    Drafts come from the requests' own records where every request of a pass has one, else from the
    engine's counters. A pass with neither counts as having drafted nothing.
    """
    return total([_count_pass(one, k) for one in passes], k)


def decode_steps(counts: Counts) -> int:
    """Steps after prefill, S = N - R - A + truncated."""
    return counts.output_tokens - counts.requests - counts.accepted + counts.truncated


def undrafted_steps(counts: Counts) -> int:
    """Steps after prefill that ran without a draft, U = S - D.

    Where nothing was truncated this is N - R - D - A.
    """
    return decode_steps(counts) - counts.drafts


def drafts_of_requests(requests: Iterable[RequestRecord], k: int) -> CounterDelta | None:
    """The counters as the requests' own records add up to; None where a request has no record."""
    drafted: list[int] = []
    accepted: list[int] = []
    for request in requests:
        if request.drafted is None or request.accepted is None:
            return None
        drafted += request.drafted
        accepted += request.accepted
    return CounterDelta(
        drafts=sum(tokens > 0 for tokens in drafted),
        drafted=sum(drafted),
        accepted=sum(accepted),
        accepted_per_position=tuple(sum(a > i for a in accepted) for i in range(k)),
    )


def _count_pass(one: PassRecord, k: int) -> Counts:
    requests = [r for r in one.requests if r.chunk_tokens]
    if drafts_of_requests(requests, k) is not None:
        return total([_balance([r], drafts_of_requests([r], k), k) for r in requests], k)
    return _balance(requests, one.counters, k)


def _balance(requests: Sequence[RequestRecord], counters: CounterDelta | None, k: int) -> Counts:
    """Counts of requests whose drafts are known only together; finds what was truncated."""
    counters = counters or CounterDelta(drafts=0, drafted=0, accepted=0, accepted_per_position=())
    tokens = sum(sum(r.chunk_tokens) for r in requests)
    decoded = tokens - len(requests)
    chunks = sum(len(r.chunk_tokens) - 1 for r in requests)
    steps = max(chunks, decoded - counters.accepted, counters.drafts)
    return Counts(
        requests=len(requests),
        output_tokens=tokens,
        drafts=counters.drafts,
        drafted=counters.drafted,
        accepted=counters.accepted,
        accepted_per_position=_fit(counters.accepted_per_position, k),
        truncated=steps + counters.accepted - decoded,
    )


def _fit(positions: tuple[int, ...], k: int) -> tuple[int, ...]:
    """Exactly K positions: an engine may leave out positions that never accepted."""
    return (positions + (0,) * k)[:k]


def total(parts: Sequence[Counts], k: int) -> Counts:
    """Counts of several passes or cells together, at the same K."""
    positions = [p.accepted_per_position for p in parts]
    return Counts(
        requests=sum(p.requests for p in parts),
        output_tokens=sum(p.output_tokens for p in parts),
        drafts=sum(p.drafts for p in parts),
        drafted=sum(p.drafted for p in parts),
        accepted=sum(p.accepted for p in parts),
        accepted_per_position=tuple(sum(own[i] for own in positions) for i in range(k)),
        truncated=sum(p.truncated for p in parts),
    )
