"""Speed-ups with their intervals, by method and kind of prompt (a forest plot)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from pipeline.analysis.statistics import Estimate
from pipeline.analysis.verdict import Comparison
from pipeline.analysis.wording import span
from pipeline.report.figures.drawing import Look, Palette, ratio_axis
from pipeline.report.figures.rows import Line, canvas, figure_of, headings, lines, write
from pipeline.report.figures.svg import PAPER, Drawing, finish
from pipeline.report.parts import Part

CALLED = ("better", "worse")


class _Row(NamedTuple):
    y: int
    setting: str
    method: str
    called: bool
    estimate: Estimate

    @property
    def low(self) -> float:
        return self.estimate.low or self.estimate.ratio

    @property
    def high(self) -> float:
        return self.estimate.high or self.estimate.ratio


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no cell has an estimate."""
    whole = part.complete
    cells = list(lines(part, first=len(whole) + 1 if whole else 0))
    if not cells:
        return None
    rows = list(_rows(part, cells))
    made = canvas(cells[-1].y + 1, "times as fast as plain decoding")
    ratio_axis(made, [end for row in rows for end in (row.low, row.high)])
    if whole:
        write(made, 0, "all kinds", heading=True)
    headings(made, cells)
    for row in rows:
        write(made, row.y, row.setting, span(row.estimate))
    for method, look in palette.items():
        _marks(made, [row for row in rows if row.method == method], look)
    return finish(
        figure_of(made),
        "speedups",
        "Speed-up and how sure it is",
        "Decode speed over plain decoding's, paired prompt by prompt, with its 95% interval."
        " Filled: measurably faster or slower; hollow: not called.",
        f"{part.slug}-speedups",
    )


def _rows(part: Part, cells: Sequence[Line]) -> Iterator[_Row]:
    for i, one in enumerate(part.complete):
        yield _row(1 + i, one.setting, one.method, one.comparison)
    for line in cells:
        if line.cell is not None and line.cell.finding.comparison is not None:
            method = line.cell.record.at.method
            yield _row(line.y, line.cell.setting, method, line.cell.finding.comparison)


def _row(y: int, setting: str, method: str, comparison: Comparison) -> _Row:
    assert comparison.estimate is not None, "only comparisons with an estimate are drawn"
    return _Row(y, setting, method, comparison.verdict in CALLED, comparison.estimate)


def _marks(made: Axes, rows: Sequence[_Row], look: Look) -> None:
    """The rows of one method: intervals as lines, ratios filled where they were called."""
    made.hlines(
        [row.y for row in rows],
        [row.low for row in rows],
        [row.high for row in rows],
        color=look.color,
    )
    for called, face in ((True, look.color), (False, PAPER)):
        made.plot(
            [row.estimate.ratio for row in rows if row.called is called],
            [row.y for row in rows if row.called is called],
            marker=look.marker,
            markersize=6,
            markerfacecolor=face,
            markeredgecolor=look.color,
            linestyle="none",
            zorder=3,
        )
