"""Finding a method's K in a few engine starts instead of one for every K.

The largest K is measured first: how far its drafts hold tells what every shorter draft would have
given, and its step time beside the baseline's gives a first cost line. Then the K predicted fastest
is measured, which gives the line its second point, and then, if it is another, the one that is
predicted best of the rest. There it ends: what is nearly as fast would change places with every
measurement, until nothing was saved. What is recommended was measured.

Step times are relative to the baseline measured beside each cell, so that runs at different times
of a drifting machine fit one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import exp, log
from statistics import fmean

from pipeline.analysis.choose_k import (
    Choice,
    Forecast,
    MeasuredK,
    StepTime,
    choose,
    predict,
    starts_saved,
    worth_measuring,
)
from pipeline.analysis.counts import total
from pipeline.analysis.findings import Evidence, Findings
from pipeline.analysis.verdict import Comparison
from pipeline.methods import BASELINE
from pipeline.plan import SEARCHED_K, Plan
from pipeline.records import PromptCost
from pipeline.spec import Record

PLAIN = MeasuredK(k=0, value=1.0, low=1.0, high=1.0)


class KSearch(Record):
    """What a search over one method's K predicted, measured and recommends.

    Attributes:
        grid: every K that was asked for.
        forecast: from the counts of the largest K and all measured step times, a baseline step
            being 1; None where the largest K has no usable cell.
        measured: speed-up over all data sets, with its interval; plain decoding's, K = 0, is 1.
        choice: among those that were called faster; K = 0, plain decoding, where none was.
        starts_saved: engine starts that measuring every K would have taken beyond these.
    """

    model: str
    method: str
    grid: tuple[int, ...]
    forecast: Forecast | None
    measured: tuple[MeasuredK, ...]
    choice: Choice
    starts_saved: int


def next_k(grid: Sequence[int], evidence: Sequence[Evidence]) -> int | None:
    """The K to measure next, or None where the search is over.

    Args:
        grid: every K of the method.
        evidence: its cells so far, of one model and concurrency.
    """
    tried = {one.record.at.k for one in evidence}
    if max(grid) not in tried:
        return max(grid)
    if len(tried) >= SEARCHED_K:
        return None
    forecast = forecast_of(max(grid), evidence)
    if forecast is None:
        return None
    # K that the engine was never asked for are predicted too, and cannot be measured.
    ranked = [k for k in worth_measuring(forecast, len(forecast.predicted)) if k in grid][:2]
    return next((k for k in ranked if k not in tried), None)


def forecast_of(largest: int, evidence: Sequence[Evidence]) -> Forecast | None:
    """Predict every K from the usable cells so far; None where the largest K has none."""
    usable = [one for one in evidence if one.record.status == "OK" and one.record.counts]
    counts = [one.record.counts for one in usable if one.record.at.k == largest]
    times = [StepTime(k=0, step_s=1.0)]
    for k in sorted({one.record.at.k for one in usable}):
        ratio = step_ratio([one for one in usable if one.record.at.k == k])
        if ratio is not None:
            times.append(StepTime(k=k, step_s=ratio))
    if not counts or largest not in {one.k for one in times}:
        return None
    return predict(total([one for one in counts if one is not None], largest), times)


def step_ratio(cells: Iterable[Evidence]) -> float | None:
    """How many times a step takes as long as a baseline step: geometric mean over answers.

    An answer's step time is its decode time per token over its steps per token, on either side.
    """
    logs = []
    for one in cells:
        companion, opening = one.record.companion, one.opening
        beside = companion.costs if companion else opening.costs if opening else ()
        plain = {(c.prompt_id, c.repeat): step for c in beside if (step := _step_s(c))}
        for cost in one.record.costs:
            step, base = _step_s(cost), plain.get((cost.prompt_id, cost.repeat))
            if step and base:
                logs.append(log(step / base))
    return exp(fmean(logs)) if logs else None


def conclude(
    grid: Sequence[int],
    evidence: Sequence[Evidence],
    comparisons: Mapping[int, Comparison],
) -> KSearch:
    """What a finished search says.

    Args:
        comparisons: the verdict at each measured K, over all data sets.
    """
    measured = [PLAIN]
    for k, comparison in sorted(comparisons.items()):
        found = comparison.estimate
        if found is not None and found.low is not None and found.high is not None:
            measured.append(MeasuredK(k=k, value=found.ratio, low=found.low, high=found.high))
    faster = [m for m in measured if m.k and comparisons[m.k].verdict == "better"]
    at = evidence[0].record.at
    return KSearch(
        model=at.model,
        method=at.method,
        grid=tuple(grid),
        forecast=forecast_of(max(grid), evidence),
        measured=tuple(measured),
        choice=choose([PLAIN, *faster]),
        starts_saved=starts_saved(grid, {one.record.at.k for one in evidence}),
    )


def searches(plan: Plan, evidence: Sequence[Evidence], findings: Findings) -> tuple[KSearch, ...]:
    """What each search of a plan says, by model and method; none where the plan is a grid."""
    if plan.search != "choose_k":
        return ()
    found = []
    drafting = [g for g in plan.groups if g.cells[0].at.kind != BASELINE]
    for (model, method), groups in groupby(drafting, key=lambda g: (g.model, g.method)):
        own = [e for e in evidence if (e.record.at.model, e.record.at.method) == (model, method)]
        if own:
            verdicts = _verdicts(model, method, findings)
            found.append(conclude([group.k for group in groups], own, verdicts))
    return tuple(found)


def _verdicts(model: str, method: str, findings: Findings) -> dict[int, Comparison]:
    """The verdict at each K over all data sets, or on the only one; as the advice, of what is
    usable, and of every data set.
    """
    if len({c.record.at.dataset for c in findings.cells if c.record.at.model == model}) > 1:
        whole = [o for o in findings.overall if (o.model, o.method) == (model, method)]
        return {o.k: o.comparison for o in whole if not o.missing}
    cells = [
        c for c in findings.cells if (c.record.at.model, c.record.at.method) == (model, method)
    ]
    return {c.record.at.k: c.comparison for c in cells if c.usable and c.comparison is not None}


def told(one: KSearch) -> str:
    """A search in a sentence: what was chosen, what was predicted of it, what was saved."""
    predicted = {p.k: p.speedup for p in one.forecast.predicted} if one.forecast else {}
    chosen, compared = one.choice.k, [str(m.k) for m in one.measured if m.k]
    text = f"{one.method}: of K {', '.join(map(str, one.grid))} "
    if not compared:
        text += "none could be compared with plain decoding"
    else:
        text += f"these were compared with plain decoding: {', '.join(compared)}"
    if chosen:
        text += f"; use K={chosen}"
        if chosen in predicted:
            text += f", predicted at {predicted[chosen]:.2f} times plain decoding"
        text += f". {one.choice.sentence}"
    elif compared:
        text += "; none could be called faster"
    return f"{text}. Engine starts saved: {one.starts_saved}."


def _step_s(cost: PromptCost) -> float | None:
    return cost.decode_s / cost.steps if cost.decode_s and cost.steps else None
