"""Decode speed against K: what was measured, and what the run at the largest K predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pipeline.analysis.choose_k import PredictedK
from pipeline.analysis.counts import decode_steps
from pipeline.analysis.k_search import forecast_of
from pipeline.report.figures.drawing import Palette, panels
from pipeline.report.figures.legend import LEGEND, legend
from pipeline.report.figures.svg import MUTED, PAPER, Drawing, finish
from pipeline.report.parts import Judged, Part
from pipeline.results import DECODE

HEIGHT = 190.0
# Methods of one K stand side by side.
_APART = 0.12
# These make their tokens one after another, so a shorter draft is the beginning of a longer one.
ONE_BY_ONE = frozenset({"ngram", "mtp", "eagle3", "draft_model"})


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no method was measured at more than one K, nor can be predicted."""
    shown = {name: own for name in part.datasets if (own := tuple(_methods(part, name)))}
    if not any(len({c.record.at.k for c in cells}) > 1 for o in shown.values() for cells in o):
        return None
    names = tuple(shown)
    drawn, made = panels(names, HEIGHT, LEGEND, right=44)
    largest = max(one.record.at.k for own in shown.values() for cells in own for one in cells)
    for name, one in zip(names, made, strict=True):
        one.axhline(1.0, color=MUTED, linewidth=1.0)
        for i, cells in enumerate(shown[name]):
            _curve(one, cells, palette, _APART * (i - (len(shown[name]) - 1) / 2))
        one.grid(axis="y")
        one.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        one.set_xlim(0.5, largest + 0.5)
        one.set_xlabel("K, tokens drafted per step")
        _second_axis(one, part, name)
    legend(
        drawn,
        [cells[0].record.at.method for own in shown.values() for cells in own],
        palette,
        [Line2D([], [], color=MUTED, linestyle=(0, (3, 2)), label="predicted")],
    )
    return finish(
        drawn,
        "k",
        "Speed against K",
        "Filled, with 95% intervals: measured, times plain decoding (left) and tokens per second at"
        " plain decoding's median (right). Dashed and hollow: predicted from the run at the largest"
        " K and the step times, for methods that draft one token after another.",
        f"{part.slug}-k",
    )


def predicted(cells: Sequence[Judged]) -> tuple[PredictedK, ...]:
    """Every K of one method on one data set, as its run at the largest K predicts it; nothing of a
    drafter that drafts all at once.
    """
    largest = max(cells, key=lambda one: one.record.at.k).record
    if largest.at.kind not in ONE_BY_ONE or not largest.counts or not decode_steps(largest.counts):
        return ()
    forecast = forecast_of(largest.at.k, [one.evidence for one in cells])
    return forecast.predicted if forecast else ()


def _methods(part: Part, dataset: str) -> Iterator[tuple[Judged, ...]]:
    cells = [one for one in part.of(dataset) if one.estimate is not None]
    for method in dict.fromkeys(one.record.at.method for one in cells):
        yield tuple(one for one in cells if one.record.at.method == method)


def _curve(axes: Axes, cells: Sequence[Judged], palette: Palette, shift: float) -> None:
    look = palette[cells[0].record.at.method]
    foreseen = predicted(cells)
    axes.plot(
        [one.k + shift for one in foreseen],
        [one.speedup for one in foreseen],
        color=look.color,
        linestyle=(0, (3, 2)),
        linewidth=1.2,
        marker=look.marker,
        markersize=4,
        markerfacecolor=PAPER,
    )
    found = [(one.record.at.k + shift, one.estimate) for one in cells if one.estimate is not None]
    axes.vlines(
        [k for k, _ in found],
        [one.low or one.ratio for _, one in found],
        [one.high or one.ratio for _, one in found],
        color=look.color,
    )
    axes.plot(
        [k for k, _ in found],
        [one.ratio for _, one in found],
        marker=look.marker,
        markersize=6,
        color=look.color,
        linestyle="none",
    )


def _second_axis(axes: Axes, part: Part, dataset: str) -> None:
    """Tokens per second, where a baseline of this data set has a median to start from."""
    rates = [
        one.record.companion.metrics[DECODE].value
        for one in part.of(dataset)
        if one.record.companion is not None and DECODE in one.record.companion.metrics
    ] or [
        one.record.metrics[DECODE].value
        for one in part.of(dataset)
        if not one.record.at.k and DECODE in one.record.metrics
    ]
    if not rates:
        return
    plain, other = fmean(rates), axes.twinx()
    # Of a pair of axes matplotlib paints the lower one's background, hidden or not.
    axes.set_facecolor("none")
    other.set_facecolor("none")
    low, high = axes.get_ylim()
    other.set_ylim(low * plain, high * plain)
    other.spines["right"].set_visible(True)
    axes.set_title("tok/s", loc="right", color=MUTED, fontsize=11)
