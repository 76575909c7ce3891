"""The speed-up of every single prompt: what an average hides."""

from __future__ import annotations

from statistics import median

from pipeline.report.figures.drawing import Palette, ratio_axis
from pipeline.report.figures.rows import canvas, headings, lines, write
from pipeline.report.figures.svg import INK, Drawing, finish
from pipeline.report.parts import Part, prompt_ratios

# Heights that dots of one row take in turn, so that neighbours do not hide one another.
_STAGGER = (0.0, -0.2, 0.2, -0.1, 0.1)


def draw(part: Part, palette: Palette) -> Drawing | None:
    """None where no cell was paired with a baseline."""
    shown = list(lines(part))
    ratios = {
        line.y: sorted(prompt_ratios(line.cell).values()) for line in shown if line.cell is not None
    }
    if not any(ratios.values()):
        return None
    made = canvas(shown[-1].y + 1, "times as fast as plain decoding, each prompt")
    ratio_axis(made, [ratio for own in ratios.values() for ratio in own])
    headings(made, shown)
    for line in shown:
        if line.cell is None or not ratios[line.y]:
            continue
        own, look = ratios[line.y], palette[line.cell.record.at.method]
        heights = [line.y + _STAGGER[i % len(_STAGGER)] for i in range(len(own))]
        made.plot(own, heights, "o", color=look.color, markersize=3.6, alpha=0.6, markeredgewidth=0)
        middle = median(own)
        made.plot([middle, middle], [line.y - 0.38, line.y + 0.38], color=INK, linewidth=1.6)
        slower = sum(ratio < 1 for ratio in own)
        write(made, line.y, line.cell.setting, f"{slower} of {len(own)} slower")
    figure = made.get_figure(root=True)
    assert figure is not None, "axes are drawn on a figure"
    return finish(
        figure,
        "prompts",
        "Every prompt",
        "A dot is one prompt, repeats averaged; the bar is the median. On the right, how many"
        " prompts were slower than with plain decoding.",
        f"{part.slug}-prompts",
    )
