"""What a report says, before it is Markdown or HTML: text, tables and figures in reading order."""

from __future__ import annotations

from typing import Literal

from pipeline.analysis.answer import Answer
from pipeline.report.figures.svg import Drawing
from pipeline.spec import Record

# How a cell of a table is set apart, in HTML only: the word in it says the same.
Tone = Literal["", "good", "bad", "dim"]


class Heading(Record):
    """The head of a column; numbers stand on the right."""

    text: str
    numeric: bool = False


class Entry(Record):
    """One cell of a table, and what it is sorted by where that is not its text."""

    text: str
    sort: float | None = None
    tone: Tone = ""


class Table(Record):
    """Rows under headings; `caption` says what the table shows."""

    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Entry, ...], ...]


class Exclusion(Record):
    """Something that failed, was left out, or decides nothing: which cells, and why."""

    what: tuple[str, ...]
    why: str


class Chapter(Record):
    """What is told of one part of the sweep.

    Attributes:
        pairing: how baseline and method were brought close in time, in words.
        lossless: None where no output was rescored.
    """

    title: str
    slug: str
    results: Table
    pairing: str
    figures: tuple[Drawing, ...]
    lossless: Table | None


class Origin(Record):
    """One start of the command: what was asked, on what, and how it went; names with values."""

    title: str
    command: str
    facts: tuple[tuple[str, str], ...]


class Page(Record):
    """A whole report.

    Attributes:
        undrawn: chapters whose figures are left out, since there are too many.
        searches: what each search for K found, a sentence each; none of a grid.
    """

    sweep: str
    question: str
    subtitle: str
    answers: tuple[Answer, ...]
    chapters: tuple[Chapter, ...]
    undrawn: int
    searches: tuple[str, ...]
    exclusions: tuple[Exclusion, ...]
    reference: Table | None
    reference_note: str
    origins: tuple[Origin, ...]
