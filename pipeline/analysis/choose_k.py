"""How many tokens to draft: predict every K from a few runs, then choose among measured ones.

A draft is accepted up to its first wrong token, so one run at the largest K shows how far drafts
hold, and with that what a shorter draft would have given:

    tokens per step (K) = 1 + coverage * (joint_0 + ... + joint_(K-1))

That is exact for a drafter that makes its tokens one after another and whose first tokens do not
depend on how many follow. One that drafts all at once, or reuses one layer for every position, may
accept differently at another K. The cost of a step is a line in K, since each drafted token adds
one more pass of the drafter and one more position to verify:

    step time (K) = base + per_token * K        for K >= 1

and never less than a plain step's, which a line through steps that grow faster than K would give.

Predicted and measured are kept apart: a prediction says which K are worth measuring, and only
measured ones are recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, linear_regression

from pydantic import Field, PositiveFloat, PositiveInt

from pipeline.analysis.counts import count, decode_steps
from pipeline.records import Counts, PassRecord
from pipeline.spec import Record


class StepTime(Record):
    """Mean seconds per step at one K; K = 0 is plain decoding."""

    k: int = Field(ge=0)
    step_s: PositiveFloat


class PredictedK(Record):
    """What one K should do. Predicted, never measured.

    Attributes:
        speedup: predicted decode speed over the baseline's.
    """

    k: PositiveInt
    tokens_per_step: float
    step_s: float
    tok_s: float
    speedup: float


class Forecast(Record):
    """Every K up to the largest measured one, predicted, and the cost line behind it.

    Attributes:
        base_s: cost of a step that drafts, less its drafted tokens.
        per_token_s: what each drafted token adds to a step; never below zero.
        fitted: the K whose step times gave the line.
    """

    baseline_step_s: float
    base_s: float
    per_token_s: float
    fitted: tuple[int, ...]
    predicted: tuple[PredictedK, ...]


class MeasuredK(Record):
    """What one K did: the median decode speed or the speed-up, with its interval.

    Plain decoding may stand among the candidates as K = 0, with a speed-up of exactly 1.
    """

    k: int = Field(ge=0)
    value: float
    low: float
    high: float


class Choice(Record):
    """The K to use, the fastest one, and those that the measurement cannot tell from it."""

    k: int
    fastest: int
    tied: tuple[int, ...]
    sentence: str


def mean_step_s(passes: Sequence[PassRecord], k: int) -> float | None:
    """Mean seconds per step of a cell: decode time of all requests over their decode steps."""
    decoding = sum(r.chunk_s[-1] - r.chunk_s[0] for p in passes for r in p.requests if r.chunk_s)
    steps = decode_steps(count(passes, k))
    return decoding / steps if steps > 0 and decoding > 0 else None


def tokens_per_step(counts: Counts, k: int) -> float:
    """Tokens per step at a K no larger than the one that was counted; ends are not truncated."""
    assert k <= len(counts.accepted_per_position), "only smaller K follow from a run"
    return 1 + sum(counts.accepted_per_position[:k]) / decode_steps(counts)


def predict(counts: Counts, times: Sequence[StepTime]) -> Forecast:
    """Predict every K from 1 to that of a run at the largest K.

    Args:
        counts: that run's counts.
        times: step times of the baseline (K = 0) and of one or more other K. Where those lie closer
            than a factor of two the line goes through the baseline as well, although that has no
            drafter to start.
    """
    base_s, per_token_s = _cost_line(times)
    [baseline_s] = (one.step_s for one in times if one.k == 0)
    predicted = []
    for k in range(1, len(counts.accepted_per_position) + 1):
        tokens = tokens_per_step(counts, k)
        step_s = max(base_s + per_token_s * k, baseline_s)
        predicted.append(
            PredictedK(
                k=k,
                tokens_per_step=tokens,
                step_s=step_s,
                tok_s=tokens / step_s,
                speedup=tokens / step_s * baseline_s,
            )
        )
    return Forecast(
        baseline_step_s=baseline_s,
        base_s=base_s,
        per_token_s=per_token_s,
        fitted=tuple(sorted(one.k for one in _points(times))),
        predicted=tuple(predicted),
    )


def worth_measuring(forecast: Forecast, how_many: int = 2) -> tuple[int, ...]:
    """The K predicted fastest, best first; of equals the smaller."""
    ranked = sorted(forecast.predicted, key=lambda one: (-one.tok_s, one.k))
    return tuple(one.k for one in ranked[:how_many])


def choose(measured: Sequence[MeasuredK]) -> Choice:
    """The smallest K whose interval overlaps the fastest one's.

    A larger K that is not measurably faster costs memory and wastes drafts under load.
    """
    fastest = min(measured, key=lambda one: (-one.value, one.k))
    tied = sorted((one for one in measured if one.high >= fastest.low), key=lambda one: one.k)
    chosen = tied[0]
    sentence = f"K={chosen.k} measured {_figures(chosen)}"
    if chosen.k == fastest.k:
        sentence += ", the fastest" if len(measured) > 1 else ", the only one measured"
    else:
        sentence += f"; K={fastest.k} measured {_figures(fastest)}, which cannot be told from it"
    return Choice(
        k=chosen.k, fastest=fastest.k, tied=tuple(one.k for one in tied), sentence=sentence
    )


def starts_saved(grid: Iterable[int], measured: Iterable[int]) -> int:
    """Engine starts that the full grid of K would have taken beyond those that were measured."""
    return len(set(grid) - set(measured))


def _points(times: Sequence[StepTime]) -> list[StepTime]:
    drafting = [one for one in times if one.k > 0]
    assert drafting, "a cost line needs the step time of a K that drafts"
    smallest, largest = (bound(one.k for one in drafting) for bound in (min, max))
    # Neighbouring K tell of their noise, not of a line that reaches down to 1.
    return drafting if largest >= 2 * smallest else list(times)


def _cost_line(times: Sequence[StepTime]) -> tuple[float, float]:
    """Base and per-token seconds; a slope that noise made negative is taken as zero."""
    points = _points(times)
    slope, base = linear_regression([p.k for p in points], [p.step_s for p in points])
    if slope < 0:
        return fmean(p.step_s for p in points if p.k > 0), 0.0
    return base, slope


def _figures(one: MeasuredK) -> str:
    return f"{one.value:.3g} ({one.low:.3g} to {one.high:.3g})"
