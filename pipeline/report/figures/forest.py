"""Speed-ups with their intervals, by method and kind of prompt (a forest plot)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from pipeline.analysis.statistics import Estimate
from pipeline.analysis.verdict import Comparison
from pipeline.analysis.wording import span
from pipeline.report.figures.drawing import Look, Palette, ratio_axis
from pipeline.report.figures.rows import canvas, headings, lines, write
from pipeline.report.figures.svg import PAPER, Drawing, finish
from pipeline.report.parts import Part

CALLED = ("better", "worse")


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no cell has an estimate."""
    overall = part.complete
    cells = list(lines(part, first=len(overall) + 1 if overall else 0))
    if not cells:
        return None
    made = canvas(cells[-1].y + 1, "times as fast as plain decoding")
    rows = [(1 + i, one.setting, one.method, one.comparison) for i, one in enumerate(overall)]
    rows += [
        (line.y, line.cell.setting, line.cell.record.at.method, line.cell.finding.comparison)
        for line in cells
        if line.cell is not None and line.cell.finding.comparison is not None
    ]
    ratio_axis(made, _values([comparison for *_, comparison in rows]))
    if overall:
        write(made, 0, "all kinds", heading=True)
    headings(made, cells)
    for y, setting, method, comparison in rows:
        _row(made, y, setting, palette[method], comparison)
    figure = made.get_figure(root=True)
    assert figure is not None, "axes are drawn on a figure"
    return finish(
        figure,
        "speedups",
        "Speed-up and how sure it is",
        "Decode speed over plain decoding's, paired prompt by prompt, with its 95% interval."
        " Filled: measurably faster or slower; hollow: no change that could be told from noise.",
        f"{part.slug}-speedups",
    )


def _row(made: Axes, y: float, setting: str, look: Look, comparison: Comparison) -> None:
    found = comparison.estimate
    assert found is not None, "only comparisons with an estimate are drawn"
    if found.low is not None and found.high is not None:
        made.plot([found.low, found.high], [y, y], color=look.color, solid_capstyle="butt")
    filled = look.color if comparison.verdict in CALLED else PAPER
    made.plot(
        [found.ratio],
        [y],
        marker=look.marker,
        markersize=6,
        markerfacecolor=filled,
        markeredgecolor=look.color,
        linestyle="none",
    )
    write(made, y, setting, span(found))


def _values(comparisons: Sequence[Comparison]) -> list[float]:
    return [value for one in comparisons if one.estimate for value in _ends(one.estimate)]


def _ends(found: Estimate) -> tuple[float, float]:
    return found.low or found.ratio, found.high or found.ratio
