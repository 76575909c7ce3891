"""The trade-off of average against variability: fast on the whole, or evenly fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from statistics import stdev
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from pipeline.report.figures.drawing import WIDTH, Look, Palette, axes, figure, ratio_axis
from pipeline.report.figures.labels import label
from pipeline.report.figures.legend import LEGEND, legend
from pipeline.report.figures.svg import Drawing, finish
from pipeline.report.parts import Part, prompt_ratios

HEIGHT = 340.0


class Point(NamedTuple):
    """A setting over the prompts of one data set, or of all."""

    setting: str
    method: str
    ratio: float
    spread: float


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no setting has two prompts to vary over."""
    cells, whole = list(_points(part)), list(_pooled(part))
    if not cells:
        return None
    named = whole or cells
    drawn = figure(HEIGHT)
    made = axes(drawn, 60, 44, WIDTH - 74, HEIGHT - 44 - LEGEND - 8)
    ratio_axis(made, [one.ratio for one in (*cells, *whole)])
    made.set_ylim(0, max(one.spread for one in (*cells, *whole)) * 1.15)
    made.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    made.grid(axis="y")
    made.set_xlabel("times as fast as plain decoding")
    made.set_ylabel("how much prompts differ")
    for method, look in palette.items():
        _marks(made, [one for one in cells if one.method == method], look, faint=bool(whole))
        _marks(made, [one for one in whole if one.method == method], look)
    label(made, [(one.ratio, one.spread, one.setting) for one in named])
    legend(drawn, [one.method for one in cells], palette)
    return finish(
        drawn,
        "variability",
        "Average against variability",
        "To the right is faster, lower is more even. The height is the spread of the prompts' own"
        " speed-ups, the geometric standard deviation less one. "
        + ("Large: all kinds of prompt together; small: one kind." if whole else ""),
        f"{part.slug}-variability",
    )


def _marks(made: Axes, points: Sequence[Point], look: Look, *, faint: bool = False) -> None:
    made.plot(
        [one.ratio for one in points],
        [one.spread for one in points],
        look.marker,
        color=look.color,
        markersize=5 if faint else 9,
        alpha=0.5 if faint else 1,
        markeredgewidth=0,
    )


def _points(part: Part) -> Iterator[Point]:
    for one in part.compared:
        ratios = list(prompt_ratios(one).values())
        if len(ratios) > 1:
            yield _point(one.setting, one.record.at.method, ratios)


def _pooled(part: Part) -> Iterator[Point]:
    for setting in part.complete:
        ratios = [
            ratio
            for one in part.compared
            if one.setting == setting.setting
            for ratio in prompt_ratios(one).values()
        ]
        if len(ratios) > 1:
            yield _point(setting.setting, setting.method, ratios)


def _point(setting: str, method: str, ratios: Sequence[float]) -> Point:
    logs = [log(ratio) for ratio in ratios]
    return Point(setting, method, exp(sum(logs) / len(logs)), exp(stdev(logs)) - 1)
