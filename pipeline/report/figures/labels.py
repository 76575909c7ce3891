"""Names beside points, placed so that they cover neither points nor one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from pipeline.report.figures.drawing import WIDTH
from pipeline.report.figures.svg import INK

_SIZE = 11.0
# Width of a letter over the font's size, on the safe side for any sans-serif font.
_LETTER = 0.62
_POINT = 6.0


class _Box(NamedTuple):
    left: float
    bottom: float
    width: float
    height: float

    def overlap(self, other: _Box) -> float:
        across = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        up = min(self.bottom + self.height, other.bottom + other.height)
        return max(0.0, across) * max(0.0, up - max(self.bottom, other.bottom))


def label(axes: Axes, named: Sequence[tuple[float, float, str]]) -> None:
    """Write each name at the place around its point that overlaps least with what is there."""
    places = [tuple(axes.transData.transform((x, y))) for x, y, _ in named]
    taken = [_Box(x - _POINT, y - _POINT, 2 * _POINT, 2 * _POINT) for x, y in places]
    for (px, py), (x, y, name) in zip(places, named, strict=True):
        best = min(_around(px, py, name), key=lambda box: _cost(box, taken))
        taken.append(best)
        axes.annotate(
            name,
            (x, y),
            xytext=(best.left - px, best.bottom - py + _SIZE * 0.25),
            textcoords="offset points",
            fontsize=_SIZE,
            color=INK,
        )


def _around(x: float, y: float, name: str) -> Iterator[_Box]:
    """Right, left, above, below, and the corners; near first, then a line farther out."""
    width, height = len(name) * _SIZE * _LETTER, _SIZE * 1.1
    for away in (_POINT + 2, _POINT + 2 + height):
        for right in (away, -away - width, -width / 2):
            for up in (-height / 2, away - 2, -away - height + 2):
                if abs(right + width / 2) > 1 or abs(up + height / 2) > 1:
                    yield _Box(x + right, y + up, width, height)


def _cost(box: _Box, taken: Sequence[_Box]) -> float:
    outside = max(0.0, box.left + box.width - WIDTH + 4) + max(0.0, 40 - box.left)
    return sum(box.overlap(other) for other in taken) + 1000 * outside
