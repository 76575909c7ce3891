"""A page as Markdown and as one HTML file. Whatever comes from records is escaped on the way.

The templates lie beside this module; they hold the words of headings and nothing that is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.analysis.answer import Answer, listed, sentence, title
from pipeline.analysis.findings import Advice, Advised
from pipeline.analysis.wording import span
from pipeline.report.figures.svg import Drawing
from pipeline.report.page import Entry, Heading, Page, Table
from pipeline.report.tables import columns
from pipeline.results import NOTHING

# Cells that are named where one reason holds for many.
_FEW = 8
# What Markdown would read as its own, and what GitHub would read as HTML.
_SPECIAL = re.compile(r"([\\`*\[\]|~])|(?<![0-9A-Za-z])(_)|(_)(?![0-9A-Za-z])")


def markdown(page: Page) -> str:
    """The report as GitHub's Markdown; figures are linked, not embedded."""
    text = _environment(escape=False).get_template("report.md").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def html(page: Page) -> str:
    """The report as one file: style, script and figures inline, nothing fetched."""
    return _environment(escape=True).get_template("report.html").render(page=page) + "\n"


def escape_markdown(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", flat)


def table_markdown(table: Table) -> str:
    """A table, less the columns that tell nothing."""
    kept = columns(table)
    headings = [table.headings[i] for i in kept]
    lines = [
        [escape_markdown(heading.text) for heading in headings],
        ["--:" if heading.numeric else ":--" for heading in headings],
        *([escape_markdown(row[i].text) for i in kept] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(text: str) -> str:
    """A command as a block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"


def kinds_table(advice: Sequence[Advice]) -> Table:
    """What to use for each kind of prompt, and what to avoid."""
    headings = ("prompts", "use", "times plain decoding", "as good within the noise", "avoid")
    return Table(
        caption="",
        headings=tuple(Heading(text=text) for text in headings),
        rows=tuple(
            (
                Entry(text=one.dataset or "all kinds"),
                Entry(text=_use(one)),
                Entry(text=_ratio(one.use) or _nearest(one.nearest) or NOTHING),
                Entry(text=", ".join(other.setting for other in one.tied) or NOTHING),
                Entry(text="; ".join(map(avoided, one.avoid)) or NOTHING),
            )
            for one in advice
        ),
    )


def advice_title(advice: Advice) -> str:
    """`mtp K=2, 1.42 (1.36 to 1.49)`."""
    return ", ".join(part for part in (_use(advice), _ratio(advice.use)) if part)


def details(advice: Advice) -> Iterator[str]:
    """What stands behind an advice, a line each: why, what is as good, or why there is none."""
    if advice.use is None:
        yield advice.sentence
        return
    if advice.use.why:
        yield advice.use.why
    if advice.tied:
        yield f"as good within the noise: {', '.join(one.setting for one in advice.tied)}"


def avoided(one: Advised) -> str:
    """A setting that was slower, by how much, and why."""
    because = f", since {one.why}" if one.why else ""
    return f"{one.setting}, {_ratio(one)} times plain decoding{because}"


def about(answer: Answer, among: Sequence[Answer]) -> str:
    """What an answer is about; the concurrency where a model has several."""
    return title(answer, several=len({one.concurrency for one in among}) > 1)


def inline(figure: Drawing, scope: str) -> Markup:
    """The figure's own markup, with a name for who cannot see it."""
    name = Markup.escape(f"{figure.title}, {scope}. {figure.caption}")
    return Markup(figure.svg.replace("<svg", f'<svg aria-label="{name}"', 1))


def commands(advice: Sequence[Advice]) -> list[tuple[str, list[str], str]]:
    """Each different setting that is advised, the kinds of prompt it is for, and its command."""
    found: dict[str, tuple[str, list[str], str]] = {}
    for one in advice:
        if one.serve_command:
            name = _use(one)
            _, kinds, _ = found.setdefault(name, (name, [], one.serve_command))
            kinds.append(one.dataset or "all kinds together")
    return list(found.values())


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


def capital(text: str) -> str:
    """The text with its first letter as a sentence begins."""
    return text[:1].upper() + text[1:]


def _use(advice: Advice) -> str:
    if advice.use is not None:
        return advice.use.setting
    return "plain decoding" if advice.nearest else "nothing can be said yet"


def _ratio(one: Advised | None) -> str:
    found = one.comparison.estimate if one else None
    return span(found) if found else ""


def _nearest(one: Advised | None) -> str:
    """What came nearest where plain decoding stays, so that its ratio is not taken for that."""
    return f"nearest: {one.setting}, {_ratio(one)}" if one else ""


def _environment(*, escape: bool) -> Environment:
    made = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "md": escape_markdown,
        "table": table_markdown,
        "fenced": fenced,
        "columns": columns,
        "title": advice_title,
        "commands": commands,
        "kinds": kinds_table,
        "avoid": avoided,
        "about": about,
        "inline": inline,
        "details": details,
        "few": few,
        "listed": listed,
        "capital": capital,
        "sentence": sentence,
    }
    return made
