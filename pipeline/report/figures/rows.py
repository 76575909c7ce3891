"""Charts that list settings one below the other, grouped by kind of prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.figures.drawing import ROW, WIDTH, figure
from pipeline.report.figures.drawing import axes as place
from pipeline.report.figures.svg import INK, MUTED
from pipeline.report.parts import Judged, Part

LEFT, RIGHT, BOTTOM = 96.0, 132.0, 40.0


class Line(NamedTuple):
    """A heading, or a cell below it; `y` counts rows from the top."""

    y: int
    heading: str
    cell: Judged | None


def lines(part: Part, first: int = 0) -> Iterator[Line]:
    """A line for every data set and every compared cell of it, from row `first` on."""
    y = first
    for dataset in part.datasets:
        own = [one for one in part.of(dataset) if one.estimate is not None]
        if own:
            yield Line(y, dataset, None)
            yield from (Line(y + 1 + i, "", one) for i, one in enumerate(own))
            y += 1 + len(own)


def canvas(rows: int, label: str) -> Axes:
    """Axes with room for names on the left and figures on the right of each row."""
    drawn = figure(rows * ROW + BOTTOM + 6)
    made = place(drawn, LEFT, BOTTOM, WIDTH - LEFT - RIGHT, rows * ROW)
    made.set_ylim(rows - 0.5, -0.5)
    made.set_yticks([])
    made.spines["left"].set_visible(False)
    made.set_xlabel(label)
    return made


def figure_of(made: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = made.get_figure(root=True)
    assert figure is not None, "axes are drawn on a figure"
    return figure


def write(made: Axes, y: float, left: str, right: str = "", *, heading: bool = False) -> None:
    """Text beside a row."""
    x = -LEFT / (WIDTH - LEFT - RIGHT)
    weight = "bold" if heading else "normal"
    where = made.get_yaxis_transform()
    made.text(x, y, left, transform=where, va="center", color=INK, fontweight=weight)
    if right:
        made.text(1.03, y, right, transform=where, va="center", color=MUTED, fontsize=11)


def headings(made: Axes, shown: Iterable[Line]) -> None:
    """The names of the data sets."""
    for line in shown:
        if line.cell is None:
            write(made, line.y, line.heading, heading=True)
