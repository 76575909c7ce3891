"""One legend above all panels of a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipeline.report.figures.drawing import Palette
from pipeline.report.figures.svg import INK

# Units that a legend takes at the top.
LEGEND = 30.0


def legend(
    drawn: Figure, methods: Iterable[str], palette: Palette, also: Sequence[Line2D] = ()
) -> None:
    """Methods by look, once each, in the palette's order, and whatever else is to be told."""
    used = set(methods)
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, markersize=5, label=method)
        for method, look in palette.items()
        if method in used
    ]
    drawn.legend(
        handles=[*handles, *also],
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        ncols=6,
        columnspacing=1.2,
        handlelength=1.6,
        handletextpad=0.5,
        labelcolor=INK,
        frameon=False,
        fontsize=11,
    )
