"""What is said about a sweep: a verdict for every cell, one for every setting, and advice.

The records only; `pipeline.analysis.judging` makes them.
"""

from __future__ import annotations

from pipeline.analysis.losslessness import Agreement, GreedyCheck, SampledCheck
from pipeline.analysis.verdict import Comparison
from pipeline.records import CellRecord, RescoredOutput
from pipeline.spec import Record


class Evidence(Record):
    """A cell with everything that was measured to judge it by.

    Attributes:
        opening, closing: the baseline's cells at both ends of its node's share, where bracketed.
        rescored, floor: its outputs, and its baseline's own, as the plain engine scores them.
        agreement: its texts against its baseline's; None where either is not on disk.
        greedy: whether tokens were drawn without sampling.
    """

    record: CellRecord
    opening: CellRecord | None = None
    closing: CellRecord | None = None
    rescored: tuple[RescoredOutput, ...] = ()
    floor: tuple[RescoredOutput, ...] = ()
    agreement: Agreement | None = None
    greedy: bool = True


class CellFinding(Record):
    """A cell and its verdicts; a baseline's own cell has none.

    Attributes:
        comparison: decode speed against the baseline.
        lossless: None where its outputs were not rescored.
    """

    record: CellRecord
    comparison: Comparison | None = None
    lossless: GreedyCheck | SampledCheck | None = None
    agreement: Agreement | None = None

    @property
    def usable(self) -> bool:
        """Whether its figures may enter a recommendation."""
        changed = self.lossless is not None and self.lossless.verdict == "not lossless"
        return self.record.status == "OK" and self.comparison is not None and not changed


class OverallFinding(Record):
    """One setting, a method at one K, over all data sets: each prompt of each counts the same.

    Attributes:
        missing: data sets that it has no usable cell of; advice is given only where there is none.
    """

    model: str
    method: str
    kind: str
    k: int
    concurrency: int
    datasets: tuple[str, ...]
    missing: tuple[str, ...]
    comparison: Comparison

    @property
    def setting(self) -> str:
        """`mtp K=2`."""
        return f"{self.method} K={self.k}"


class Advised(Record):
    """A setting that advice speaks of, with the comparison that says so.

    Attributes:
        why: what a step gave and took, where the counts tell.
    """

    method: str
    k: int
    comparison: Comparison
    why: str = ""

    @property
    def setting(self) -> str:
        """`mtp K=2`."""
        return f"{self.method} K={self.k}"


class Advice(Record):
    """What to use for one kind of prompt, or for all of them.

    Attributes:
        dataset: None is all data sets of the sweep together.
        use: the setting to use; None where nothing was measurably faster than plain decoding.
        nearest: the fastest setting where none was faster than plain decoding, but some could be
            told from it or were the same; with neither, nothing can be said.
        tied: what was as fast as it within the noise.
        avoid: what was measurably slower, the slowest first.
        sentence: the answer in words: how much faster, how sure, and what cannot be told from it.
        serve_command: the command that starts what is advised; None where nothing can be said.
    """

    model: str
    dataset: str | None
    concurrency: int
    use: Advised | None
    nearest: Advised | None = None
    tied: tuple[Advised, ...] = ()
    avoid: tuple[Advised, ...] = ()
    sentence: str
    serve_command: str | None = None


class Findings(Record):
    """Everything that is said about a sweep; cells in the order of its records."""

    cells: tuple[CellFinding, ...]
    overall: tuple[OverallFinding, ...]
    advice: tuple[Advice, ...]
