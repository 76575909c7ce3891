"""Verdicts for all cells of a sweep, and for every setting over all its data sets. Pure.

A table is one model at one concurrency; its comparisons are corrected for one another, those over
all data sets apart from those within one, since they answer another question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby

from pipeline.analysis.advice import advise
from pipeline.analysis.findings import CellFinding, Evidence, Findings, OverallFinding
from pipeline.analysis.losslessness import GreedyCheck, SampledCheck, check_greedy, check_sampled
from pipeline.analysis.pairing import Pair, Side
from pipeline.analysis.statistics import Rule
from pipeline.analysis.verdict import Comparison, compare
from pipeline.methods import BASELINE
from pipeline.platforms import Pairing
from pipeline.records import CellRecord, PromptCost

STANDARD = Rule()


def find(evidence: Sequence[Evidence], rule: Rule = STANDARD) -> Findings:
    """Judge every cell of a sweep and say what to use."""
    cells: dict[str, CellFinding] = {}
    overall: list[OverallFinding] = []
    for _, table in groupby(sorted(evidence, key=_table), key=_table):
        members = list(table)
        judged = _judge_cells(members, rule)
        cells |= {one.record.fingerprint: one for one in judged}
        overall += _judge_settings(members, judged, rule)
    found = tuple(cells[one.record.fingerprint] for one in evidence)
    return Findings(cells=found, overall=tuple(overall), advice=tuple(advise(found, overall, rule)))


def pair(one: Evidence) -> Pair:
    """A cell and its baseline as the statistics take them: decode seconds per token."""
    record = one.record
    if one.record.companion is not None:
        baseline: Side | None = _companion_side(record)
    else:
        baseline = _side(one.opening) if one.opening else None
    return Pair(
        measured=_side(record),
        baseline=baseline,
        pairing=record.pairing or "bracketed",
        closing=_side(one.closing) if one.closing else None,
    )


def _table(one: Evidence) -> tuple[str, int]:
    return one.record.at.model, one.record.at.concurrency


def _judge_cells(members: Sequence[Evidence], rule: Rule) -> list[CellFinding]:
    compared = [one for one in members if one.record.at.kind != BASELINE]
    verdicts = compare([pair(one) for one in compared], rule)
    shared = _shared(rule, sum(bool(one.rescored) for one in members))
    by_cell = {
        one.record.fingerprint: verdict for one, verdict in zip(compared, verdicts, strict=True)
    }
    return [
        CellFinding(
            record=one.record,
            comparison=by_cell.get(one.record.fingerprint),
            lossless=_lossless(one, shared),
            agreement=one.agreement,
        )
        for one in members
    ]


def _shared(rule: Rule, checks: int) -> Rule:
    """The rule, its chance of a false alarm divided among the checks of a table (Bonferroni)."""
    alarm = (1 - rule.confidence) / max(1, checks)
    return rule.model_copy(update={"confidence": 1 - alarm})


def _lossless(one: Evidence, rule: Rule) -> GreedyCheck | SampledCheck | None:
    if not one.rescored or not one.floor:
        return None
    check = check_greedy if one.greedy else check_sampled
    return check(one.rescored, one.floor, rule)


def _judge_settings(
    members: Sequence[Evidence], judged: Sequence[CellFinding], rule: Rule
) -> list[OverallFinding]:
    """One comparison per method and K, over the prompts of all its usable cells together.

    A setting whose cells were paired in two ways has one of each, and neither is of all data sets.
    """
    datasets = tuple(dict.fromkeys(one.record.at.dataset for one in members))
    if len(datasets) < 2:
        return []
    settings: defaultdict[tuple[str, int, Pairing], list[Evidence]] = defaultdict(list)
    for one, finding in zip(members, judged, strict=True):
        if finding.usable and finding.comparison and finding.comparison.estimate:
            settings[one.record.at.method, one.record.at.k, pair(one).pairing].append(one)
    verdicts = compare([_pooled([pair(one) for one in s]) for s in settings.values()], rule)
    return [
        _overall(own, verdict, datasets)
        for own, verdict in zip(settings.values(), verdicts, strict=True)
    ]


def _overall(
    own: Sequence[Evidence], verdict: Comparison, datasets: tuple[str, ...]
) -> OverallFinding:
    at = own[0].record.at
    covered = tuple(one.record.at.dataset for one in own)
    return OverallFinding(
        model=at.model,
        method=at.method,
        kind=at.kind,
        k=at.k,
        concurrency=at.concurrency,
        datasets=covered,
        missing=tuple(name for name in datasets if name not in covered),
        comparison=verdict,
    )


def _pooled(pairs: Sequence[Pair]) -> Pair:
    """Several pairs of one kind as one; prompts are kept apart by the number of their pair."""
    measured = _merged([one.measured for one in pairs])
    assert measured is not None, "what is compared was measured"
    return Pair(
        measured=measured,
        baseline=_merged([one.baseline for one in pairs]),
        pairing=pairs[0].pairing,
        closing=_merged([one.closing for one in pairs]),
    )


def _merged(sides: Sequence[Side | None]) -> Side | None:
    known = [(number, side) for number, side in enumerate(sides) if side is not None]
    costs = {f"{number}/{p}": own for number, side in known for p, own in side.costs.items()}
    return known[0][1].model_copy(update={"costs": costs}) if known else None


def _side(record: CellRecord) -> Side:
    return Side(
        label=record.at.label,
        node=record.node or (record.context.node if record.context else ""),
        sweep=record.start_id,
        status=record.status,
        costs=costs_of(record.costs),
    )


def _companion_side(record: CellRecord) -> Side:
    assert record.companion is not None, "asked of a cell that was measured alone"
    alone = record.at.model_copy(update={"method": BASELINE, "kind": BASELINE, "k": 0})
    return _side(record).model_copy(
        update={
            "label": alone.label,
            "status": record.companion.status,
            "costs": costs_of(record.companion.costs),
        }
    )


def costs_of(costs: Iterable[PromptCost]) -> dict[str, dict[int, float]]:
    """Decode seconds per token by prompt and repeat; an answer of one chunk has none."""
    found: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for one in costs:
        if one.decode_s is not None:
            found[one.prompt_id][one.repeat] = one.decode_s
    return dict(found)
