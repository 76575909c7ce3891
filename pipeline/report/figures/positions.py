"""How far drafts hold: the share that was accepted up to each position."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.report.figures.drawing import Palette, panels
from pipeline.report.figures.legend import LEGEND, legend
from pipeline.report.figures.svg import Drawing, finish
from pipeline.report.parts import Judged, Part

HEIGHT = 176.0


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where nothing was drafted."""
    shown = {name: own for name in part.datasets if (own := tuple(_longest(part, name)))}
    if not shown:
        return None
    names = tuple(shown)
    drawn, made = panels(names, HEIGHT, LEGEND)
    for name, one in zip(names, made, strict=True):
        for cell in shown[name]:
            _line(one, cell, palette)
        one.set_ylim(0, 1)
        one.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])
        one.grid(axis="y")
        one.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        one.set_xlim(0.6, max(len(_positions(c)) for own in shown.values() for c in own) + 0.4)
        one.set_xlabel("position in the draft")
    legend(drawn, [cell.record.at.method for own in shown.values() for cell in own], palette)
    return finish(
        drawn,
        "positions",
        "How far drafts hold",
        "Share of drafts whose tokens were all accepted up to a position, for each method's largest"
        " K. A curve that falls fast says that a smaller K wastes less.",
        f"{part.slug}-positions",
    )


def _longest(part: Part, dataset: str) -> Iterator[Judged]:
    """Each method's OK cell with the largest K."""
    cells = [one for one in part.of(dataset) if one.record.status == "OK" and _positions(one)]
    for method in dict.fromkeys(one.record.at.method for one in cells):
        yield max(
            (one for one in cells if one.record.at.method == method),
            key=lambda one: one.record.at.k,
        )


def _positions(one: Judged) -> list[float]:
    counts = one.record.counts
    if counts is None or not counts.drafts:
        return []
    return [accepted / counts.drafts for accepted in counts.accepted_per_position]


def _line(axes: Axes, cell: Judged, palette: Palette) -> None:
    look, values = palette[cell.record.at.method], _positions(cell)
    axes.plot(
        range(1, len(values) + 1),
        values,
        color=look.color,
        marker=look.marker,
        markersize=4.5,
        clip_on=False,
    )
