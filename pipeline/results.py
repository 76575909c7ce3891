"""Cell records as rows of text: one row per cell, every cell shown, whatever became of it. Pure.

The ratio is the cell's median decode speed over its baseline's, on the same node; it is a first
look, without pairing or interval. Only OK cells take part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pipeline.methods import BASELINE
from pipeline.records import CellRecord, Summary

DECODE = "speed/decode_tok_s"
NOTHING = "-"
RATIO_NOTE = "x baseline: median decode tok/s over the baseline's, same node, unpaired"


class Row(NamedTuple):
    """One cell of a table, as text; `spread` is a median absolute deviation, n counts prompts."""

    dataset: str
    method: str
    k: str
    concurrency: str
    decode: str
    peak: str
    rate: str
    length: str
    ratio: str
    n: str
    status: str


HEADINGS = Row(
    "dataset",
    "method",
    "K",
    "requests at once",
    "decode tok/s",
    "peak tok/s",
    "accept rate",
    "accept length",
    "x baseline",
    "n",
    "status",
)
LEFT_ALIGNED = frozenset({"dataset", "method", "status"})


class ModelTable(NamedTuple):
    """The cells of one model; `columns` are the fields of `Row` that tell anything here."""

    model: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]


def model_tables(records: Sequence[CellRecord]) -> Iterator[ModelTable]:
    """A table per model, the baseline first within each dataset, and why a cell is not OK."""
    baselines = {_place(r): r for r in records if r.at.kind == BASELINE and r.status == "OK"}
    datasets = list(dict.fromkeys(r.at.dataset for r in records))

    def order(record: CellRecord) -> tuple[str, int, int, bool, str, int]:
        at = record.at
        plain = at.kind != BASELINE
        return at.model, datasets.index(at.dataset), at.concurrency, plain, at.method, at.k

    for model, group in groupby(sorted(records, key=order), key=lambda r: r.at.model):
        cells = list(group)
        several = len({r.at.concurrency for r in cells}) > 1
        yield ModelTable(
            model=model,
            columns=tuple(f for f in Row._fields if f != "concurrency" or several),
            rows=tuple(_row(r, baselines.get(_place(r))) for r in cells),
            remarks=tuple(f"{r.at.label}: {outcome(r)}" for r in cells if r.status != "OK"),
        )


def table_markdown(records: Sequence[CellRecord]) -> str:
    """The tables as Markdown, with what each column needs to be read rightly."""
    parts = []
    for table in model_tables(records):
        headings = [getattr(HEADINGS, c) for c in table.columns]
        rule = [":--" if c in LEFT_ALIGNED else "--:" for c in table.columns]
        rows = [[_cell_text(getattr(row, c)) for c in table.columns] for row in table.rows]
        lines = [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
        remarks = [f"- {_cell_text(remark)}" for remark in table.remarks]
        blocks = [[f"### {table.model}"], lines, [RATIO_NOTE], remarks]
        parts += ["\n".join(block) for block in blocks if block]
    return "\n\n".join(parts) + "\n" if parts else ""


def outcome(record: CellRecord) -> str:
    """The status with its reason, on one line."""
    reason = record.status_reason
    if not reason and record.failure is not None:
        reason = f"{record.failure.kind}: {record.failure.message}"
    return ", ".join(part for part in (record.status, " ".join(reason.split())) if part)


def figure(value: float) -> str:
    """A measured number with three digits, or its whole part where that is longer."""
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def counted(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds in words: `8 s`, `1 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _place(record: CellRecord) -> tuple[str, str, int, str]:
    """What a cell shares with the baseline it may be compared to."""
    node = record.context.node if record.context else ""
    return record.at.model, record.at.dataset, record.at.concurrency, node


def _row(record: CellRecord, baseline: CellRecord | None) -> Row:
    at, metrics = record.at, record.metrics
    decode = metrics.get(DECODE)
    return Row(
        dataset=at.dataset,
        method=at.method,
        k=str(at.k) if at.k else NOTHING,
        concurrency=str(at.concurrency),
        decode=_with_spread(decode),
        peak=_value(metrics.get("speed/peak_tok_s")),
        rate=_value(metrics.get("accept/rate")),
        length=_value(metrics.get("accept/length")),
        ratio=_ratio(record, baseline),
        n=str(decode.n) if decode else NOTHING,
        status=record.status,
    )


def _ratio(record: CellRecord, baseline: CellRecord | None) -> str:
    if baseline is None or record.status != "OK":
        return NOTHING
    mine, base = record.metrics.get(DECODE), baseline.metrics.get(DECODE)
    return f"{mine.value / base.value:.2f}" if mine and base and base.value else NOTHING


def _value(summary: Summary | None) -> str:
    return figure(summary.value) if summary else NOTHING


def _with_spread(summary: Summary | None) -> str:
    """The spread with as many decimals as its value, since more would mean nothing."""
    if summary is None:
        return NOTHING
    value = figure(summary.value)
    return f"{value} ± {summary.spread:.{len(value.partition('.')[2])}f}"


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|")
