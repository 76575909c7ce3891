"""The article's figures beside ours, where the hardware is the same.

Numbers of other hardware say nothing about these, so elsewhere they are only mentioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

from pipeline.records import CellRecord, StartRecord
from pipeline.report.page import Entry, Heading, Table
from pipeline.results import DECODE, NOTHING
from pipeline.spec import Record

_HEADINGS = (
    Heading(text="model"),
    Heading(text="method"),
    Heading(text="K", numeric=True),
    Heading(text="article: average tok/s", numeric=True),
    Heading(text="here: median tok/s", numeric=True),
    Heading(text="article: peak tok/s", numeric=True),
    Heading(text="here: peak tok/s", numeric=True),
    Heading(text="article: acceptance"),
    Heading(text="article says"),
)


class ReferenceRow(Record):
    """One row of the article, in its own words; speeds are tokens per second."""

    model: str
    kind: str
    k: int
    average: str
    peak: str
    acceptance: str
    note: str


class Reference(Record):
    """The article: what it measured, on what; `gpu` is part of the name of the same hardware."""

    title: str
    published: str
    hardware: str
    gpu: str
    rows: tuple[ReferenceRow, ...]


def load() -> Reference:
    """The rows that ship with this room."""
    file = resources.files("pipeline.report") / "article.json"
    return Reference.model_validate_json(file.read_bytes())


def reference_table(
    article: Reference, starts: Iterable[StartRecord], cells: Sequence[CellRecord]
) -> Table | None:
    """The article's rows of models measured here; None on other hardware, or without such rows."""
    same = {start.start_id for start in starts if _is_same(article, start)}
    ours = [cell for cell in cells if cell.status == "OK" and cell.start_id in same]
    models = {cell.at.model for cell in ours}
    rows = [tuple(_row(row, ours)) for row in article.rows if row.model in models]
    caption = f"{article.title} ({article.published}): {article.hardware}. Here: range over the"
    caption += " kinds of prompt, one request at a time."
    return Table(caption=caption, headings=_HEADINGS, rows=tuple(rows)) if rows else None


def note(article: Reference, starts: Iterable[StartRecord]) -> str:
    """Why there is no such table."""
    if any(_is_same(article, start) for start in starts):
        return "None of the models that the article measured was measured here."
    return (
        f"The article's own figures were measured on different hardware ({article.hardware}) and"
        " are not compared."
    )


def _is_same(article: Reference, start: StartRecord) -> bool:
    gpus = start.host.get("gpus")
    return isinstance(gpus, list) and any(article.gpu in str(gpu) for gpu in gpus)


def _row(row: ReferenceRow, cells: Iterable[CellRecord]) -> Iterator[Entry]:
    own = [
        cell
        for cell in cells
        if (cell.at.model, cell.at.kind, cell.at.k) == (row.model, row.kind, row.k)
        and cell.at.concurrency == 1
    ]
    texts = (
        *(row.model, row.kind, str(row.k) if row.k else NOTHING),
        *(row.average, _range(own, DECODE)),
        *(row.peak, _range(own, "speed/peak_tok_s")),
        *(row.acceptance, row.note),
    )
    yield from (Entry(text=text or NOTHING) for text in texts)


def _range(cells: Iterable[CellRecord], metric: str) -> str:
    values = [cell.metrics[metric].value for cell in cells if metric in cell.metrics]
    if not values:
        return "not measured"
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return low if low == high else f"{low} to {high}"
