"""The speed-up of every single prompt: what an average hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes

from pipeline.report.figures.drawing import Look, Palette, ratio_axis
from pipeline.report.figures.rows import canvas, figure_of, headings, lines, write
from pipeline.report.figures.svg import INK, Drawing, finish
from pipeline.report.parts import Part, prompt_ratios

# Heights that dots of one row take in turn, so that neighbours do not hide one another.
_STAGGER = (0.0, -0.2, 0.2, -0.1, 0.1)


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no cell was paired with a baseline."""
    shown = list(lines(part))
    cells = [(line.y, line.cell) for line in shown if line.cell is not None]
    ratios = {y: sorted(prompt_ratios(cell).values()) for y, cell in cells}
    if not any(ratios.values()):
        return None
    made = canvas(shown[-1].y + 1, "times as fast as plain decoding, each prompt")
    ratio_axis(made, [ratio for own in ratios.values() for ratio in own])
    headings(made, shown)
    for y, cell in cells:
        slower = sum(ratio < 1 for ratio in ratios[y])
        write(made, y, cell.setting, f"{slower} of {len(ratios[y])} slower")
    for method, look in palette.items():
        own = {y: ratios[y] for y, cell in cells if cell.record.at.method == method}
        _dots(made, own, look)
    return finish(
        figure_of(made),
        "prompts",
        "Every prompt",
        "A dot is one prompt, repeats averaged; the bar is the median. On the right, how many"
        " prompts were slower than with plain decoding.",
        f"{part.slug}-prompts",
    )


def _dots(made: Axes, rows: Mapping[int, Sequence[float]], look: Look) -> None:
    """The rows of one method, by height: a dot for each prompt and a bar at the median."""
    heights = [y + _STAGGER[i % len(_STAGGER)] for y, own in rows.items() for i in range(len(own))]
    values = [ratio for own in rows.values() for ratio in own]
    made.plot(values, heights, "o", color=look.color, markersize=3.6, alpha=0.6, markeredgewidth=0)
    made.vlines(
        [median(own) for own in rows.values()],
        [y - 0.38 for y in rows],
        [y + 0.38 for y in rows],
        color=INK,
        linewidth=1.6,
        zorder=3,
    )
