"""From matplotlib's SVG to a figure that a page can hold, light or dark.

Figures are drawn in stand-in colours, which are replaced by CSS here: ink follows the text around
it, the series take the page's palette. Text stays text, in the page's own font.
"""

from __future__ import annotations

import io
import re

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pipeline.spec import Record

INK, MUTED, RULE, PAPER = "#010101", "#020202", "#030303", "#fdfdfd"
# Okabe and Ito's colours, which stay apart for colour-blind readers; yellow is too pale on white.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
_CSS = {
    INK: "currentColor",
    MUTED: "var(--muted, #6b7280)",
    RULE: "var(--rule, #c4c9d1)",
    PAPER: "var(--paper, #ffffff)",
    **{color: f"var(--series-{i}, {color})" for i, color in enumerate(SERIES, 1)},
}
# What a figure looks like on its own, outside the report.
_ALONE = (
    "<style>svg{color:#1d2530;background:#fff;font-family:system-ui,sans-serif;max-width:60em}"
    "@media (prefers-color-scheme:dark){svg{color:#e4e8ee;background:#14181d;--muted:#98a2b0;"
    "--rule:#3d4652;--paper:#14181d}}</style>"
)


class Drawing(Record):
    """A finished figure.

    Attributes:
        kind: what it shows, as part of a file name.
        caption: how to read it, in one or two sentences.
        svg: an `svg` element to set into a page.
    """

    kind: str
    title: str
    caption: str
    svg: str

    @property
    def alone(self) -> str:
        """The figure as a file of its own."""
        head, end, rest = self.svg.partition(">")
        return f"{head}{end}{_ALONE}{rest}\n"


def finish(drawn: Figure, kind: str, title: str, caption: str, scope: str) -> Drawing:
    """The figure as a drawing; `scope` keeps its ids apart from those of other figures."""
    target = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(drawn).print_figure(target, format="svg", metadata=nothing)
    return Drawing(kind=kind, title=title, caption=caption, svg=_page(target.getvalue(), scope))


def _page(svg: str, scope: str) -> str:
    """Less what only a file needs, with the page's colours and font, and ids of its own."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", "", svg, flags=re.S
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{scope}-", svg)
    svg = re.sub(r"font-family: [^;\"]*; ?", "", svg)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    svg = re.sub(
        r"^<svg [^>]*?viewBox", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox', svg
    )
    svg = svg.replace("<svg", '<svg role="img" stroke-linejoin="round" stroke-linecap="butt"', 1)
    return re.sub("|".join(_CSS), lambda found: _CSS[found[0]], svg)
