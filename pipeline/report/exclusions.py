"""Everything that failed, was left out or decides nothing, with the reason. Nothing is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipeline.plan import Plan
from pipeline.records import CellRecord
from pipeline.report.page import Exclusion
from pipeline.report.parts import Judged, comparison
from pipeline.results import outcome

# Verdicts that neither call a change nor call it absent.
UNDECIDED = ("unstable", "no baseline", "not comparable")
_UNMEASURED = {
    "grid": "planned, but not measured yet: give the same command again",
    "choose_k": "not measured: the search for K did not need it, or did not come to it yet",
}


def exclusions(judged: Sequence[Judged], plan: Plan | None) -> tuple[Exclusion, ...]:
    """One entry per reason, in the order of the cells; those that a plan left out come last."""
    found = [*_cells(judged), *_planned(judged, plan)]
    reasons = dict.fromkeys(why for _, why in found)
    return tuple(
        Exclusion(what=tuple(what for what, own in found if own == why), why=why) for why in reasons
    )


def _cells(judged: Iterable[Judged]) -> Iterator[tuple[str, str]]:
    for one in judged:
        record, verdict = one.record, comparison(one)
        if record.status != "OK":
            yield record.at.label, _failure(record)
        elif verdict is not None and verdict.verdict in UNDECIDED:
            yield record.at.label, f"{verdict.verdict}: {verdict.sentence}"
        elif record.status_reason:
            yield record.at.label, record.status_reason
        lossless = one.finding.lossless
        if lossless is not None and lossless.verdict != "lossless":
            yield record.at.label, f"{lossless.verdict}: {lossless.sentence}"


def _failure(record: CellRecord) -> str:
    cause = record.failure.cause if record.failure else ""
    said = outcome(record).rstrip(".")
    return f"{said}. {cause}".rstrip() + f" See logs/{record.log or record.group}.log."


def _planned(judged: Iterable[Judged], plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    known = {one.record.fingerprint for one in judged}
    for cell in plan.cells:
        if cell.fingerprint not in known:
            yield cell.at.label, _UNMEASURED[plan.search]
    for point in plan.pruned:
        k = f"-k{point.k}" if point.k else ""
        yield f"{point.model}/{point.method}{k}", f"left out of the plan: {point.reason}"
