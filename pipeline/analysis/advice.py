"""From verdicts to advice: which method and which K, how much faster, how sure, what to avoid.

Only settings that were called faster are advised, and of those whose intervals overlap the
fastest's, the fastest method's smallest K: a larger one that is not measurably faster costs memory
and wastes drafts under load. Why a setting is slow follows from its counts, since

    speed-up = tokens per step / (time of its step over the baseline's)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import exp, log
from statistics import fmean

from pipeline.analysis.findings import Advice, Advised, CellFinding, OverallFinding
from pipeline.analysis.statistics import Estimate, Rule
from pipeline.analysis.wording import digits_of, percent, span, unsteady
from pipeline.methods import BASELINE
from pipeline.records import CellRecord

# Below this share of steps with a draft, it is the missing drafts that explain a speed.
FEW_DRAFTS = 0.5


def advise(
    cells: Sequence[CellFinding], overall: Sequence[OverallFinding], rule: Rule
) -> Iterator[Advice]:
    """Advice for each table: over all data sets first, then for each of them."""
    for (model, concurrency), members in groupby(sorted(cells, key=_table), key=_table):
        table = list(members)
        settings = [o for o in overall if (o.model, o.concurrency) == (model, concurrency)]
        if settings:
            yield _advice(None, table, list(_of_settings(settings)), rule)
        for dataset in dict.fromkeys(one.record.at.dataset for one in table):
            own = [one for one in table if one.record.at.dataset == dataset]
            yield _advice(dataset, own, list(_of_cells(own)), rule)


def why(record: CellRecord, found: Estimate) -> str:
    """What the counts say of a speed: tokens per step, and what a step took.

    Tokens per step are the geometric mean over answers, as the ratio is: the mean over all steps
    would lean to the answers with the most steps, and make the others' steps look too short.
    """
    steps = [log(cost.steps) for cost in record.costs if cost.steps]
    if not steps or "accept/tokens_per_step" not in record.metrics:
        return ""
    tokens, digits = exp(-fmean(steps)), digits_of(found)
    sentence = (
        f"a step gave {tokens:.{digits}f} tokens and took"
        f" {tokens / found.ratio:.{digits}f} times as long as a plain one"
    )
    coverage = record.metrics.get("accept/coverage")
    if coverage is not None and coverage.value < FEW_DRAFTS:
        sentence += f"; only {coverage.value:.0%} of steps had anything to draft"
    return sentence


def _table(one: CellFinding) -> tuple[str, int]:
    return one.record.at.model, one.record.at.concurrency


def _of_cells(cells: Iterable[CellFinding]) -> Iterator[Advised]:
    for one in cells:
        if one.usable and one.comparison is not None and one.comparison.estimate is not None:
            at, reason = one.record.at, why(one.record, one.comparison.estimate)
            yield Advised(method=at.method, k=at.k, comparison=one.comparison, why=reason)


def _of_settings(settings: Iterable[OverallFinding]) -> Iterator[Advised]:
    """Settings that cover every data set; others would be compared on easier prompts."""
    for one in settings:
        if not one.missing:
            yield Advised(method=one.method, k=one.k, comparison=one.comparison)


def _advice(
    dataset: str | None, cells: Sequence[CellFinding], candidates: Sequence[Advised], rule: Rule
) -> Advice:
    at = cells[0].record.at
    better = [one for one in candidates if one.comparison.verdict == "better"]
    worse = [one for one in candidates if one.comparison.verdict == "worse"]
    use, tied = _choose(better) if better else (None, ())
    nearest = None if use else _nearest(candidates)
    return Advice(
        model=at.model,
        dataset=dataset,
        concurrency=at.concurrency,
        use=use,
        nearest=nearest,
        tied=tied,
        avoid=tuple(sorted(worse, key=_speed)),
        sentence=_faster(use, tied, rule) if use else _nothing(nearest, candidates, cells, rule),
        serve_command=_command(use, cells) if use or nearest else None,
    )


def _choose(better: Sequence[Advised]) -> tuple[Advised, tuple[Advised, ...]]:
    fastest = max(better, key=lambda one: (_estimate(one).ratio, -one.k))
    reach = _estimate(fastest).low or _estimate(fastest).ratio
    tied = [one for one in better if (_estimate(one).high or _estimate(one).ratio) >= reach]
    chosen = min((one for one in tied if one.method == fastest.method), key=lambda one: one.k)
    return chosen, tuple(one for one in tied if one is not chosen)


def _command(use: Advised | None, cells: Iterable[CellFinding]) -> str | None:
    wanted = (use.method, use.k) if use else (BASELINE, 0)
    for record in (one.record for one in cells):
        at = record.at
        if record.context and wanted == (BASELINE if at.kind == BASELINE else at.method, at.k):
            return record.context.serve_command
    return None


def _faster(use: Advised, tied: Sequence[Advised], rule: Rule) -> str:
    found = _estimate(use)
    sentence = (
        f"{use.setting} is {span(found)} times as fast as plain decoding"
        f" ({percent(rule.confidence)} interval, {found.prompts} prompts)"
    )
    if use.why:
        sentence += f": {use.why}"
    if listed := ", ".join(f"{one.setting} at {span(_estimate(one))}" for one in tied):
        sentence += f"; it cannot be told from {listed}"
    own = [one for one in tied if one.method == use.method]
    if any(_estimate(one).ratio > found.ratio for one in own):
        sentence += f", and of {use.method}'s K the smallest wastes the fewest drafts"
    return sentence


def _nearest(candidates: Sequence[Advised]) -> Advised | None:
    """The fastest that something is known of, unless one that may be faster leads."""
    told = [one for one in candidates if one.comparison.verdict in ("worse", "no change")]
    found, leading = max(told, key=_speed, default=None), _leading(candidates)
    leads = found and leading and _speed(leading) > max(1.0, _speed(found))
    return None if leads else found


def _leading(candidates: Iterable[Advised]) -> Advised | None:
    """The fastest of those that were too unsteady to call."""
    unsure = [one for one in candidates if one.comparison.verdict == "unstable"]
    return max(unsure, key=_speed, default=None)


def _speed(one: Advised) -> float:
    return _estimate(one).ratio


def _nothing(
    nearest: Advised | None,
    candidates: Sequence[Advised],
    cells: Iterable[CellFinding],
    rule: Rule,
) -> str:
    """Why plain decoding stays: nothing was faster, or nothing could be told."""
    if nearest is not None:
        return (
            f"nothing could be called faster than plain decoding; the nearest, {nearest.setting},"
            f" is {span(_estimate(nearest))} times as fast"
        )
    if (leading := _leading(candidates)) is not None:
        return (
            f"{leading.setting} leads at {span(_estimate(leading))} times plain decoding, but"
            f" nothing can be called: {unsteady(_estimate(leading), rule)}"
        )
    compared = [one for one in cells if one.comparison is not None]
    if any(one.usable and _told(one) for one in compared):
        return "no setting has a usable cell for every kind of prompt"
    return next(map(_why_silent, compared), "no method was measured")


def _told(one: CellFinding) -> bool:
    """Whether a cell's verdict says something about its speed."""
    return one.comparison is not None and one.comparison.verdict in ("better", "worse", "no change")


def _why_silent(one: CellFinding) -> str:
    """Why a compared cell cannot be recommended from."""
    if one.lossless is not None and one.lossless.verdict == "not lossless":
        return f"{one.record.at.label} is not lossless: {one.lossless.sentence}"
    assert one.comparison is not None, "only compared cells are asked of"
    return one.comparison.sentence


def _estimate(one: Advised) -> Estimate:
    found = one.comparison.estimate
    assert found is not None, "only settings with an estimate are spoken of"
    return found
