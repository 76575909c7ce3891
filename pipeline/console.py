"""What a sweep prints: its plan before it starts, a table per model after it, and its troubles.

Plain text where standard output is not a terminal: no control codes, and wide enough that a log
file keeps a row on one line. What happens in between is `pipeline.progress`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import Console, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipeline.durable import DamagedError, WriteError, set_aside
from pipeline.estimate import Estimate
from pipeline.plan import Coordinates, Plan
from pipeline.progress import Progress
from pipeline.records import CellRecord, TimeSplit
from pipeline.results import (
    HEADINGS,
    LEFT_ALIGNED,
    RATIO_NOTE,
    ModelTable,
    counted,
    duration,
    model_tables,
    table_markdown,
)

__all__ = [
    "fail",
    "print_answer",
    "print_plan",
    "print_results",
    "progress",
    "results_table",
    "table_markdown",
    "warn",
    "warn_set_aside",
]

_PLAIN_WIDTH = 160
# Nobody reads a longer table on a terminal, and laying it out takes seconds per thousand rows.
_MOST_ROWS = 500


def console_for(stream: TextIO) -> Console:
    """A console on a stream: a terminal as it is, anything else plain and wide."""
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=None if terminal else True,
        width=None if terminal else _PLAIN_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def fail(message: str) -> None:
    """Say why the command ends, on standard error."""
    console_for(sys.stderr).print(message, style="red", soft_wrap=True)


def warn(*messages: str) -> None:
    """Say what went wrong without ending the command, a line each, on standard error."""
    for message in messages:
        console_for(sys.stderr).print(message, style="yellow", soft_wrap=True)


def warn_set_aside(damaged: DamagedError) -> None:
    """Set a damaged record aside, so that it counts as missing, and say so."""
    try:
        kept = f"kept as {set_aside(damaged.path)}"
    except WriteError as error:
        kept = str(error)
    warn(f"{damaged.where}: {damaged.problem}; taken as missing, and {kept}")


def progress(cells: int, engine_starts: int, expected_s: float | None = None) -> Progress:
    """The progress of a sweep on standard output; a context manager."""
    return Progress(console_for(sys.stdout), cells, engine_starts, expected_s)


def print_plan(
    plan: Plan,
    prompts: Mapping[str, int],
    expected: Estimate,
    *,
    recorded: int = 0,
    unfinished: Iterable[str] = (),
    out: Console | None = None,
) -> None:
    """Print what a sweep will measure, what it leaves out and how long it may take.

    Args:
        prompts: the number of prompts of each dataset, by name.
        expected: the time for what is still to be measured.
        recorded: cells of the plan that are on disk already.
        unfinished: what measured cells lack still, and what becomes of them, a sentence each.
        out: where to; standard output by default.
    """
    out = out or console_for(sys.stdout)
    size = f"{counted(len(plan.cells), 'cell')}, {counted(len(plan.groups), 'engine')}"
    out.print(f"{plan.sweep} on {plan.platform}: {size}", style="bold", soft_wrap=True)
    out.print(Padding(_groups_table(plan), (0, 0, 0, 2), expand=False))
    for line in _plan_lines(plan, prompts, expected, recorded, unfinished):
        out.print(line, soft_wrap=True)


def print_results(
    records: Sequence[CellRecord], split: TimeSplit | None = None, out: Console | None = None
) -> None:
    """Print a table per model, and where the time of this start went."""
    out = out or console_for(sys.stdout)
    if len(records) > _MOST_ROWS:
        by_status = Counter(record.status for record in records)
        counts = ", ".join(f"{n} {status}" for status, n in by_status.most_common())
        out.print(f"{len(records)} cells: {counts}; the report has their tables", soft_wrap=True)
    else:
        out.print(results_table(records))
    if split is not None and split.wall_s:
        share = 100 * split.other_s / split.wall_s
        out.print(
            f"{duration(split.wall_s)}: {duration(split.engine_start_s)} engine starts,"
            f" {duration(split.generation_s)} generation,"
            f" {duration(split.other_s)} ({share:.0f} %) everything else",
            soft_wrap=True,
        )


def print_answer(answer: str, report: Path, out: Console | None = None) -> None:
    """Print what a sweep found (Markdown), and where its report is."""
    out = out or console_for(sys.stdout)
    out.print(Markdown(answer))
    out.print(f"report: {report}", soft_wrap=True)


def results_table(records: Sequence[CellRecord]) -> Group:
    """A table per model for a rich console: every cell, with the reason where it is not OK."""
    return Group(*(part for table in model_tables(records) for part in _model_parts(table)))


def _model_parts(table: ModelTable) -> Iterator[Table | Text]:
    grid = Table(title=table.model, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        left = column in LEFT_ALIGNED
        heading = getattr(HEADINGS, column)
        grid.add_column(heading, justify="left" if left else "right", no_wrap=True)
    ends = [a.dataset != b.dataset for a, b in zip(table.rows, table.rows[1:], strict=False)]
    for row, last in zip(table.rows, [*ends, False], strict=True):
        style = None if row.status == "OK" else "dim"
        grid.add_row(*(getattr(row, c) for c in table.columns), style=style, end_section=last)
    yield grid
    yield Text(RATIO_NOTE, style="dim")
    yield from (Text(remark, style="red", overflow="fold") for remark in table.remarks)


def _groups_table(plan: Plan) -> Table:
    """A row per (model, method), since the K of a method differ in nothing else."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("model", "method", "K", "engines", "cells"):
        left = heading in ("model", "method", "K")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for (model, method), groups in groupby(plan.groups, key=lambda g: (g.model, g.method)):
        same = list(groups)
        ks = ", ".join(str(g.k) for g in same if g.k) or "-"
        cells = sum(len(g.cells) for g in same)
        table.add_row(model, method, ks, str(len(same)), str(cells))
    return table


def _plan_lines(
    plan: Plan,
    prompts: Mapping[str, int],
    expected: Estimate,
    recorded: int,
    unfinished: Iterable[str],
) -> Iterator[str]:
    counts = ", ".join(f"{name} ({n})" for name, n in prompts.items())
    yield f"prompts: {counts}; requests at once: {_concurrencies(cell.at for cell in plan.cells)}"
    searched = plan.search == "choose_k" and any(group.k for group in plan.groups)
    if searched:
        yield "of each method the largest K comes first, then one or two that it predicts fastest"
    for point in plan.pruned:
        k = f" K={point.k}" if point.k else ""
        yield f"left out: {point.model} {point.method}{k}: {point.reason}"
    yield from (f"note: {warning}" for warning in plan.warnings)
    if recorded:
        yield f"{recorded} of {len(plan.cells)} cells are recorded already"
    yield from unfinished
    if recorded < len(plan.cells):
        yield (
            f"{'at most' if searched else 'about'} {duration(expected.total_s)} on one node:"
            f" {counted(expected.engine_starts, 'engine start')}"
            f" {duration(expected.engine_start_s)},"
            f" generation {duration(expected.generation_s)} ({expected.basis})"
        )


def _concurrencies(places: Iterator[Coordinates]) -> str:
    return ", ".join(str(c) for c in sorted({at.concurrency for at in places}))
