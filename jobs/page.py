"""A message as one screen of HTML, with the trend of every cell that moved as an SVG. Pure.

Styles stand on the elements, since mail clients drop everything else.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape

import matplotlib
from matplotlib.figure import Figure

from jobs.findings import NightVerdict, Trend
from jobs.message import Message, Section

_BODY = "font:14px/1.4 sans-serif;color:#222;max-width:960px;margin:1em auto;padding:0 1em"
_LINE = "margin:.2em 0"
_MUTED = "color:#777"
# Told apart without colour, too.
_MARKS = ((True, "o", "#3a6", "baseline"), (False, "x", "#c33", "no baseline"))
# Trends beyond this number would not fit a screen.
_TRENDS = 6


def html(message: Message, verdict: NightVerdict | None) -> str:
    """The page; None leaves the trends out, for readers that draw no SVG."""
    parts = [f"<h1 style='font-size:18px'>{escape(message.title)}</h1>"]
    parts += [part for section in message.sections for part in _section(section)]
    if verdict is not None:
        parts += _trends(verdict)
    parts += [f"<p style='{_MUTED}'>{escape(line.replace('`', ''))}</p>" for line in message.footer]
    head = f"<meta charset='utf-8'><title>{escape(message.title)}</title>"
    return f"<!doctype html>\n{head}\n<body style='{_BODY}'>\n" + "\n".join(parts) + "\n</body>\n"


def trend_svg(trend: Trend) -> str:
    """A signal over the nights: what may be a baseline, what may not, tonight, and the level."""
    with matplotlib.rc_context({"svg.hashsalt": "trend", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(4.4, 1.7), layout="constrained")
        axes = figure.add_subplot()
        nights = range(len(trend.points))
        values = [point.value for point in trend.points]
        axes.plot(nights, values, color="#bbb", linewidth=1, zorder=1)
        for good, marker, colour, name in _MARKS:
            own = [i for i in nights if trend.points[i].good is good]
            of = [values[i] for i in own]
            axes.scatter(
                own, of, c=colour, marker=marker, s=12, zorder=2, label=name if own else ""
            )
        if trend.level is not None:
            axes.axhline(trend.level, color="#3a6", linewidth=0.8, linestyle="--", label="level")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=3, frameon=False)
        ends = sorted({0, len(trend.points) - 1})
        axes.set_xticks(ends, [trend.points[i].date for i in ends])
        axes.set_ylabel(trend.unit)
        axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :].replace("<svg", f"<svg role='img' {_label(trend)}", 1)


def _label(trend: Trend) -> str:
    """What the drawing shows, for who does not see it."""
    last, level = trend.points[-1], f", level {trend.level:.4g}" if trend.level is not None else ""
    said = f"{trend.unit}: {len(trend.points)} nights{level}, on {last.date} {last.value:.4g}"
    return f"aria-label='{escape(said)}'"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2 style='font-size:15px;margin:.8em 0 .2em'>{escape(section.heading)}</h2>"
    for line in section.lines:
        style = _LINE if line.news else f"{_LINE};{_MUTED}"
        yield f"<p style='{style}'><b>{escape(line.about)}</b>: {escape(line.said)}</p>"


def _trends(verdict: NightVerdict) -> Iterator[str]:
    shown = [finding for finding in verdict.findings if finding.trend is not None]
    yield "<div style='display:flex;flex-wrap:wrap'>"
    for finding in shown[:_TRENDS]:
        assert finding.trend is not None, "chosen for it"
        yield f"<figure style='margin:.5em'><figcaption>{escape(finding.about)}</figcaption>"
        yield f"{trend_svg(finding.trend)}</figure>"
    yield "</div>"
    if len(shown) > _TRENDS:
        yield f"<p style='{_MUTED}'>{len(shown) - _TRENDS} more trends are not drawn.</p>"
