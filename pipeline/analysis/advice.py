"""From verdicts to advice: which method and which K, how much faster, how sure, what to avoid.

Only settings that were called faster are advised, and of those whose intervals overlap the
fastest's, the fastest method's smallest K: a larger one that is not measurably faster costs memory
and wastes drafts under load. Why a setting is slow follows from its counts, since

    speed-up = tokens per step / (time of its step over the baseline's)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pipeline.analysis.findings import Advice, CellFinding, OverallFinding
from pipeline.analysis.statistics import Estimate, Rule
from pipeline.analysis.verdict import Comparison
from pipeline.analysis.wording import span
from pipeline.methods import BASELINE
from pipeline.records import CellRecord


class _Candidate(NamedTuple):
    method: str
    k: int
    comparison: Comparison
    record: CellRecord
    why: str

    @property
    def name(self) -> str:
        return f"{self.method} K={self.k}"

    @property
    def estimate(self) -> Estimate:
        assert self.comparison.estimate is not None, "a called change has an estimate"
        return self.comparison.estimate

    @property
    def high(self) -> float:
        return self.estimate.high or self.estimate.ratio

    @property
    def low(self) -> float:
        return self.estimate.low or self.estimate.ratio


def advise(
    cells: Sequence[CellFinding], overall: Sequence[OverallFinding], rule: Rule
) -> Iterator[Advice]:
    """Advice for each table: over all data sets first, then for each of them."""
    ordered = sorted(cells, key=_table)
    for (model, concurrency), members in groupby(ordered, key=_table):
        table = list(members)
        settings = [o for o in overall if (o.model, o.concurrency) == (model, concurrency)]
        if settings:
            yield _advice(
                model, None, concurrency, table, list(_of_settings(settings, table)), rule
            )
        for dataset in dict.fromkeys(one.record.at.dataset for one in table):
            own = [one for one in table if one.record.at.dataset == dataset]
            yield _advice(model, dataset, concurrency, own, list(_of_cells(own)), rule)


def why(record: CellRecord, ratio: float) -> str:
    """What the counts say of a speed: tokens per step, and what a step took."""
    tokens = record.metrics.get("accept/tokens_per_step")
    if tokens is None:
        return ""
    return (
        f"a step gave {tokens.value:.2f} tokens and took {tokens.value / ratio:.2f} times"
        " the baseline's"
    )


def _table(one: CellFinding) -> tuple[str, int]:
    return one.record.at.model, one.record.at.concurrency


def _of_cells(cells: Sequence[CellFinding]) -> Iterator[_Candidate]:
    for one in cells:
        if one.usable and one.comparison is not None and one.comparison.estimate is not None:
            at, ratio = one.record.at, one.comparison.estimate.ratio
            yield _Candidate(at.method, at.k, one.comparison, one.record, why(one.record, ratio))


def _of_settings(
    settings: Sequence[OverallFinding], cells: Sequence[CellFinding]
) -> Iterator[_Candidate]:
    """Settings that cover every data set; others would be compared on easier prompts."""
    records = {(c.record.at.method, c.record.at.k): c.record for c in cells}
    for one in settings:
        if not one.missing:
            yield _Candidate(one.method, one.k, one.comparison, records[one.method, one.k], "")


def _advice(
    model: str,
    dataset: str | None,
    concurrency: int,
    cells: Sequence[CellFinding],
    candidates: Sequence[_Candidate],
    rule: Rule,
) -> Advice:
    better = [one for one in candidates if one.comparison.verdict == "better"]
    worse = [one for one in candidates if one.comparison.verdict == "worse"]
    record = next((c.record for c in cells if c.record.at.kind == BASELINE), None)
    method, k, sentence = BASELINE, 0, _nothing(candidates, cells)
    if better:
        chosen, sentence = _choose(better, rule)
        method, k, record = chosen.method, chosen.k, chosen.record
    return Advice(
        model=model,
        dataset=dataset,
        concurrency=concurrency,
        method=method,
        k=k,
        sentence=sentence,
        avoid=tuple(_avoid(one) for one in sorted(worse, key=lambda one: one.estimate.ratio)),
        serve_command=record.context.serve_command if record and record.context else None,
    )


def _choose(better: Sequence[_Candidate], rule: Rule) -> tuple[_Candidate, str]:
    fastest = max(better, key=lambda one: (one.estimate.ratio, -one.k))
    tied = [one for one in better if one.high >= fastest.low]
    chosen = min((one for one in tied if one.method == fastest.method), key=lambda one: one.k)
    sentence = (
        f"{chosen.name} is {span(chosen.estimate)} times as fast as plain decoding"
        f" ({rule.confidence:.0%} interval, {chosen.estimate.prompts} prompts)"
    )
    if chosen.why:
        sentence += f": {chosen.why}"
    others = [one for one in tied if one is not chosen]
    if others:
        listed = ", ".join(f"{one.name} ({span(one.estimate)})" for one in others)
        sentence += f"; it cannot be told from {listed}"
    return chosen, sentence


def _nothing(candidates: Sequence[_Candidate], cells: Sequence[CellFinding]) -> str:
    """Why plain decoding stays: nothing was faster, or nothing could be told."""
    told = [one for one in candidates if one.comparison.verdict in ("worse", "no change")]
    if told:
        best = max(told, key=lambda one: one.estimate.ratio)
        return (
            f"plain decoding: nothing measured was faster; the nearest, {best.name}, is"
            f" {span(best.estimate)} times as fast"
        )
    reasons = [c.comparison.sentence for c in cells if c.comparison is not None]
    return f"nothing can be said yet: {reasons[0]}" if reasons else "no method was measured"


def _avoid(one: _Candidate) -> str:
    sentence = f"{one.name} is slower, {span(one.estimate)} times plain decoding"
    return f"{sentence}: {one.why}" if one.why else sentence
