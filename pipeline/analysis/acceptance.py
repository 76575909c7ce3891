"""How well drafts were accepted: ratios of counts, so pooling over requests is exact.

The letters are those of `pipeline.analysis.counts`. No metric here has a unit except tokens per
step. A ratio whose denominator is zero is left out: undefined is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipeline.analysis.counts import count, decode_steps
from pipeline.records import Counts, PassRecord

BISECTIONS = 50  # halvings of [0, 1]: below a double's own resolution


def acceptance(passes: Sequence[PassRecord], k: int) -> dict[str, float]:
    """Every `accept/*` metric that these passes define, pooled over their requests.

    - `accept/rate` A / T: drafted tokens that were accepted.
    - `accept/length` 1 + A / D: tokens per step that drafted, the bonus token included.
    - `accept/length_macro`: the mean of the requests' own lengths; needs per-request records.
    - `accept/joint_i` P_i / D, and `accept/conditional_i` P_i / P_(i-1) with P_(-1) = D.
    - `accept/coverage` D / S: the share of steps that drafted.
    - `accept/tokens_per_step` (N - R) / S: counts the steps without a draft too, and only tokens
      that came out, so it is the honest one for methods that draft only sometimes.
    - `accept/fitted_alpha`: see `fitted_alpha`.

    Plain decoding (K = 0) and passes whose drafts nobody counted define none: their tokens per step
    would be 1 by construction, not by measurement.
    """
    if k == 0 or not all(counted(one) for one in passes):
        return {}
    counts = count(passes, k)
    values = {**_of_steps(counts), **_of_drafts(counts, k)}
    if lengths := list(_request_lengths(passes)):
        values["accept/length_macro"] = fmean(lengths)
    return values


def counted(one: PassRecord) -> bool:
    """Whether the drafts of a pass were counted, by its requests or by the engine."""
    return one.counters is not None or all(r.drafted is not None for r in one.requests)


def fitted_alpha(length: float, k: int) -> float | None:
    """The chance a that every drafted token is accepted with, if it were the same at all positions.

    Solves 1 + a + ... + a^K = `length`; None where no chance gives that length.
    """
    if k == 0 or not 1 <= length <= k + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = sum(middle**i for i in range(k + 1)) < length
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def _of_steps(counts: Counts) -> dict[str, float]:
    steps = decode_steps(counts)
    if steps <= 0:
        return {}
    return {
        "accept/coverage": counts.drafts / steps,
        "accept/tokens_per_step": (counts.output_tokens - counts.requests) / steps,
    }


def _of_drafts(counts: Counts, k: int) -> dict[str, float]:
    if counts.drafts == 0:
        return {}
    length = 1 + counts.accepted / counts.drafts
    values = {"accept/length": length, **dict(_by_position(counts))}
    if counts.drafted > 0:
        values["accept/rate"] = counts.accepted / counts.drafted
    if (alpha := fitted_alpha(length, k)) is not None:
        values["accept/fitted_alpha"] = alpha
    return values


def _by_position(counts: Counts) -> Iterator[tuple[str, float]]:
    before = counts.drafts
    for i, accepted in enumerate(counts.accepted_per_position):
        yield f"accept/joint_{i}", accepted / counts.drafts
        if before > 0:
            yield f"accept/conditional_{i}", accepted / before
        before = accepted


def _request_lengths(passes: Sequence[PassRecord]) -> Iterator[float]:
    for request in (r for one in passes for r in one.requests):
        if request.accepted is not None and (drafts := sum(d > 0 for d in request.drafted or ())):
            yield 1 + sum(request.accepted) / drafts
