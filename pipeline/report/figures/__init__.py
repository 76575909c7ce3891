"""The figures of a report, as SVG text that is the same for the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.report.figures import distributions, forest, k_curve, positions, variability
from pipeline.report.figures.drawing import Palette, rules
from pipeline.report.figures.svg import Drawing
from pipeline.report.parts import Part

_KINDS: tuple[Callable[[Part, Palette], Drawing | None], ...] = (
    forest.draw,
    positions.draw,
    k_curve.draw,
    variability.draw,
    distributions.draw,
)


def figures(part: Part, palette: Palette) -> Iterator[Drawing]:
    """Every figure that the part has numbers for."""
    for draw in _KINDS:
        with rules():
            drawing = draw(part, palette)
        if drawing is not None:
            yield drawing
