"""A sweep taken apart for telling: one part per model, concurrency and pairing, and its numbers.

Interleaved and bracketed comparisons never share a part, since they are not equally sharp. A
baseline's own cells stand in every part of their model; a cell that was never paired (its engine
did not start) stands with the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.analysis.findings import CellFinding, Evidence, Findings, OverallFinding
from pipeline.analysis.judging import pair
from pipeline.analysis.pairing import reference
from pipeline.analysis.statistics import Estimate, mean_ratio
from pipeline.analysis.verdict import Comparison
from pipeline.methods import BASELINE
from pipeline.platforms import Pairing
from pipeline.records import CellRecord
from pipeline.spec import Record


class Judged(Record):
    """A cell with what was measured to judge it by, and what was found."""

    evidence: Evidence
    finding: CellFinding

    @property
    def record(self) -> CellRecord:
        """The cell itself."""
        return self.evidence.record

    @property
    def estimate(self) -> Estimate | None:
        """Its paired speed-up, where its comparison has one."""
        return self.finding.comparison.estimate if self.finding.comparison else None

    @property
    def setting(self) -> str:
        """`mtp K=2`, or `none`."""
        at = self.record.at
        return f"{at.method} K={at.k}" if at.k else at.method


class Part(Record):
    """The cells of one model at one concurrency that were paired the same way.

    Attributes:
        pairing: None where no cell was paired.
        several: whether the model has cells at other concurrencies or pairings.
    """

    model: str
    concurrency: int
    pairing: Pairing | None
    cells: tuple[Judged, ...]
    overall: tuple[OverallFinding, ...]
    several: bool

    @property
    def slug(self) -> str:
        """Part of a file name."""
        pairing = f"-{self.pairing}" if self.several and self.pairing else ""
        return f"{self.model}-c{self.concurrency}{pairing}"

    @property
    def title(self) -> str:
        """The model, and what tells the part from its other parts."""
        if not self.several:
            return self.model
        at_once = "1 request" if self.concurrency == 1 else f"{self.concurrency} requests"
        return ", ".join(
            word for word in (self.model, f"{at_once} at once", self.pairing or "") if word
        )

    @property
    def datasets(self) -> tuple[str, ...]:
        """In the order of the plan."""
        return tuple(dict.fromkeys(one.record.at.dataset for one in self.cells))

    @property
    def compared(self) -> tuple[Judged, ...]:
        """Cells with an estimate: those that figures of speed can show."""
        return tuple(one for one in self.cells if one.estimate is not None)

    @property
    def complete(self) -> tuple[OverallFinding, ...]:
        """Settings that were compared on every data set; others had easier or harder prompts."""
        return tuple(o for o in self.overall if not o.missing and o.comparison.estimate)

    def of(self, dataset: str) -> tuple[Judged, ...]:
        """The cells of one data set, the baseline first, then by method and K."""
        return tuple(one for one in self.cells if one.record.at.dataset == dataset)


def parts(evidence: Sequence[Evidence], findings: Findings) -> Iterator[Part]:
    """The parts of a sweep, models in the order of its cells."""
    judged = [
        Judged(evidence=own, finding=found)
        for own, found in zip(evidence, findings.cells, strict=True)
    ]
    keys = dict.fromkeys((one.record.at.model, one.record.at.concurrency) for one in judged)
    for model, concurrency in keys:
        own = [
            one
            for one in judged
            if (one.record.at.model, one.record.at.concurrency) == (model, concurrency)
        ]
        pairings: list[Pairing | None] = list(dict.fromkeys(map(_pairing, own)))
        paired: list[Pairing | None] = [one for one in pairings if one is not None]
        known = paired or [None]
        several = len(known) > 1 or len([key for key in keys if key[0] == model]) > 1
        for pairing in known:
            yield Part(
                model=model,
                concurrency=concurrency,
                pairing=pairing,
                cells=_ordered([one for one in own if _belongs(one, pairing, known[0])]),
                overall=tuple(
                    one
                    for one in findings.overall
                    if (one.model, one.concurrency) == (model, concurrency)
                    and (one.comparison.pairing == pairing or pairing is None)
                ),
                several=several,
            )


def prompt_ratios(one: Judged) -> Mapping[str, float]:
    """How many times as fast each prompt was as with the baseline; empty without one."""
    compared = pair(one.evidence)
    if one.estimate is None or compared.baseline is None:
        return {}
    before, after = reference(compared), compared.measured.costs
    found = {p: mean_ratio({p: before[p]}, {p: after[p]}) for p in before.keys() & after.keys()}
    return {prompt: ratio for prompt, ratio in sorted(found.items()) if ratio is not None}


def comparison(one: Judged) -> Comparison | None:
    """What is said of its speed; None for a baseline and for cells that have no verdict."""
    return one.finding.comparison if one.record.status == "OK" else None


def _pairing(one: Judged) -> Pairing | None:
    return one.record.pairing


def _belongs(one: Judged, pairing: Pairing | None, first: Pairing | None) -> bool:
    if one.record.at.kind == BASELINE:
        return True
    return (one.record.pairing or first) == pairing


def _ordered(cells: Sequence[Judged]) -> tuple[Judged, ...]:
    """By data set, the baseline first, then by method and K; sets and methods as they came."""
    datasets = list(dict.fromkeys(one.record.at.dataset for one in cells))
    methods = list(dict.fromkeys(one.record.at.method for one in cells))

    def key(one: Judged) -> tuple[int, bool, int, int]:
        at = one.record.at
        plain = at.kind != BASELINE
        return datasets.index(at.dataset), plain, methods.index(at.method), at.k

    return tuple(sorted(cells, key=key))
