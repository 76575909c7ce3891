"""Drawing with matplotlib: one style, a look for each method, axes placed by the pixel.

One unit is one CSS pixel of a figure that is `WIDTH` wide, which a phone shows in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from pipeline.report.figures.svg import INK, MUTED, RULE, SERIES

WIDTH = 520.0
# A row of a chart that lists settings.
ROW = 18.0
MARKERS = "osD^vPX"
_MOST_TICKS = 7
_RULES: dict[Any, Any] = {
    "font.size": 12,
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 11,
}


class Look(NamedTuple):
    """How a method is drawn in every figure of a report."""

    color: str
    marker: str


Palette = Mapping[str, Look]


def palette(methods: Sequence[str]) -> Palette:
    """A look for each method, in their order; the eighth begins again."""
    return {
        method: Look(SERIES[i % len(SERIES)], MARKERS[i % len(MARKERS)])
        for i, method in enumerate(methods)
    }


def rules() -> AbstractContextManager[None]:
    """The style that everything is drawn in, whatever a user's own settings are; they are back
    afterwards.
    """
    return style.context(["default", _RULES])


def figure(height: float) -> Figure:
    """An empty figure, `WIDTH` by `height` units, without any of pyplot's state."""
    drawn = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    drawn.patch.set_visible(False)
    return drawn


def axes(drawn: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes by their place in units from the lower left corner."""
    whole = drawn.get_figheight() * 72
    made = drawn.add_axes((left / WIDTH, bottom / whole, width / WIDTH, height / whole))
    made.patch.set_visible(False)
    return made


def panels(
    names: Sequence[str], height: float, top: float, right: float = 14
) -> tuple[Figure, list[Axes]]:
    """A figure of axes two abreast, each with its name above.

    Args:
        height: of a panel, with its title and labels.
        top: room above the first.
        right: room on the right of each.
    """
    drawn = figure(top + height * ((len(names) + 1) // 2))
    column = WIDTH / min(len(names), 2)
    made = []
    for i, name in enumerate(names):
        left = 40 + column * (i % 2)
        bottom = top + height * ((len(names) + 1) // 2) - top - height * (i // 2 + 1) + 40
        one = axes(drawn, left, bottom, column - 40 - right, height - 64)
        one.set_title(name, pad=6)
        made.append(one)
    return drawn, made


def ratio_axis(which: Axes, values: Sequence[float]) -> None:
    """A horizontal logarithmic axis of ratios that shows 1 and the given values."""
    low, high = min(*values, 1.0) / 1.04, max(*values, 1.0) * 1.04
    which.set_xscale("log")
    which.set_xlim(low, high)
    which.xaxis.set_major_locator(FixedLocator(_ratio_ticks(low, high)))
    which.xaxis.set_minor_locator(NullLocator())
    which.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    which.axvline(1.0, color=MUTED, linewidth=1.0, zorder=1)
    which.grid(axis="x")
    which.set_axisbelow(True)


def _ratio_ticks(low: float, high: float) -> list[float]:
    """The finest round steps that are seven ticks at most."""
    ladders = (
        [round(0.05 * i, 2) for i in range(1, 60)],
        [round(0.1 * i, 1) for i in range(1, 60)],
        [0.2, 0.4, 0.6, 0.8, *(round(1 + 0.2 * i, 1) for i in range(20))],
        [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0],
    )
    for ladder in ladders:
        ticks = [tick for tick in ladder if low <= tick <= high]
        if len(ticks) <= _MOST_TICKS and ladder[-1] >= high:
            return ticks
    return [tick for tick in (2.0**i for i in range(-10, 11)) if low <= tick <= high]
