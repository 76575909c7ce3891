"""What a sweep prints where standard output is no terminal, word for word."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console

from pipeline import console
from pipeline.estimate import Estimate
from pipeline.plan import Coordinates, Pruned
from pipeline.progress import Progress
from pipeline.records import CellRecord, Summary
from pipeline.results import duration, figure, table_markdown
from pipeline.spec import Assumptions
from tests.factories import cell_record, coordinates, failed_record, plan, start_record

NONE, NGRAM, MTP = coordinates("none", 0), coordinates("ngram", 4), coordinates("mtp", 2)
ESTIMATE = Estimate(
    engine_starts=2,
    engine_start_s=40,
    generation_s=128,
    cells_from_history=0,
    cells=3,
    assume=Assumptions(engine_start_s=20, decode_tok_s=30),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def golden(name: str) -> str:
    return (Path(__file__).parent / "golden" / name).read_text(encoding="utf-8")


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """What is on standard output, less the spaces that fill a table's lines."""
    return "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())


def at(dataset: str, method: str = "none", k: int = 0, concurrency: int = 1) -> Coordinates:
    return coordinates(method, k, dataset, concurrency=concurrency)


def test_the_plan_shows_cells_engines_prompts_what_is_left_out_and_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pruned = (
        Pruned(model="tiny", method="eagle3", k=None, reason="tiny has no eagle3 drafter"),
        Pruned(model="tiny", method="mtp", k=9, reason="K=9 exceeds 3"),
    )
    grid = plan(
        NONE, NGRAM, coordinates("ngram", 8), coordinates("ngram", 8, "chat"), pruned=pruned
    )
    console.print_plan(grid, {"echo": 20, "chat": 5}, ESTIMATE)
    assert printed(capsys) == golden("console_plan.txt")


def test_a_plan_partly_recorded_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_plan(plan(NONE, NGRAM), {"echo": 20}, ESTIMATE, recorded=1)
    assert "1 of 2 cells are recorded already\nabout 2 min" in printed(capsys)


def test_a_plan_wholly_recorded_gives_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_plan(plan(NONE, NGRAM), {"echo": 20}, ESTIMATE, recorded=2)
    assert printed(capsys).endswith("2 of 2 cells are recorded already\n")


def test_results_show_every_cell_with_spread_ratio_and_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = [
        cell_record(at("echo", "ngram", 4), decode=60.0, length=2.6),
        failed_record(at("echo", "mtp", 2)),
        cell_record(at("echo"), decode=30.0),
        cell_record(at("chat", "ngram", 4), decode=27.123, length=1.04),
        cell_record(at("chat"), decode=30.0, status="SUSPECT", reason="counts disagree by 9"),
    ]
    console.print_results(records, start_record().split)
    assert printed(capsys) == golden("console_results.txt")


def test_concurrency_is_a_column_only_where_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.print_results([cell_record(at("echo")), cell_record(at("echo", concurrency=8))])
    text = printed(capsys)
    assert "requests at once" in text
    assert re.search(r"echo +none +- +8 ", text)


def test_models_have_tables_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    small, large = coordinates("none", 0, model="small"), coordinates("none", 0, model="large")
    console.print_results([cell_record(small), cell_record(large)])
    titles = [line for line in printed(capsys).splitlines() if line in ("small", "large")]
    assert titles == ["large", "small"]


def test_no_ratio_is_given_to_a_baseline_on_another_node() -> None:
    ngram = cell_record(NGRAM)
    assert ngram.context is not None
    elsewhere = ngram.context.model_copy(update={"node": "other"})
    moved = ngram.model_copy(update={"context": elsewhere})
    rows = table_markdown([cell_record(NONE), moved]).splitlines()
    assert "| echo | ngram | 4 | 40.0 ± 0.8 | 60.0 | 0.25 | 2.00 | - | 20 | OK |" in rows


def test_markdown_has_the_same_rows_and_reasons() -> None:
    lost = failed_record(MTP).model_copy(update={"status_reason": "no | head"})
    assert table_markdown([cell_record(NONE, decode=30.0), lost]) == golden("console_results.md")


def test_no_records_make_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_results([])
    assert printed(capsys).strip() == ""
    assert table_markdown([]) == ""


def run_through(progress: Progress) -> None:
    with progress:
        progress.starting("tiny--none", "box")
        progress.ready("tiny--none", 10.0)
        progress.cell(cell_record(NONE, decode=30.0))
        progress.starting("tiny--mtp-k2", "box")
        progress.cell(failed_record(MTP))
        progress.starting("tiny--ngram-k4", "box")
        progress.ready("tiny--ngram-k4", 12.0)
        progress.cell(cell_record(NGRAM, decode=123.4))


def test_progress_without_a_terminal_is_a_line_per_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_through(console.progress(cells=3, engine_starts=3))
    assert printed(capsys) == golden("console_progress.txt")


def test_a_doubt_about_a_node_is_told_once_though_its_figures_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with console.progress(cells=1, engine_starts=1) as progress:
        for node, about, sentence in (
            ("box", "page_cache", "76 GiB are cached"),
            ("box", "page_cache", "77 GiB are cached"),
            ("box", "slowdown", "it is slow"),
            ("other", "page_cache", "76 GiB are cached"),
        ):
            progress.doubted(node, about, sentence)
    assert printed(capsys).splitlines() == [
        "box: 76 GiB are cached",
        "box: it is slow",
        "other: 76 GiB are cached",
    ]


def test_progress_on_a_terminal_redraws_one_line_and_leaves_no_thread() -> None:
    screen = Terminal()
    before = set(threading.enumerate())
    progress = Progress(console.console_for(screen), cells=3, engine_starts=3, expected_s=90)
    run_through(progress)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=5)
    assert set(threading.enumerate()) == before
    assert "\x1b[" in screen.getvalue()
    assert progress.line() == "3/3 cells · 1 not OK · 3/3 engines · tiny--ngram-k4"


def test_the_planned_time_is_shown_until_a_cell_tells_better() -> None:
    progress = Progress(Console(file=io.StringIO()), cells=2, engine_starts=1, expected_s=90)
    assert progress.line().endswith("about 1 min 30 s in all")
    progress.starting("tiny--none", "box")
    progress.ready("tiny--none", 10.0)
    progress.cell(cell_record(NONE))
    assert progress.line().endswith("9 s left")


def test_two_nodes_at_work_halve_the_time_left() -> None:
    progress = Progress(Console(file=io.StringIO()), cells=5, engine_starts=2)
    for node in ("a", "b"):
        progress.starting(f"tiny--{node}", node)
        progress.ready(f"tiny--{node}", 10.0)
    progress.cell(cell_record(NONE))
    assert progress.line().endswith("18 s left")


def test_troubles_go_to_standard_error_as_one_unbroken_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentence = "conf/x.yaml: a [bold] key " + "is far too long " * 20
    console.fail(sentence)
    console.warn("MLflow is down")
    assert capsys.readouterr() == ("", f"{sentence}\nMLflow is down\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.634, "0.63"),
        (9.99, "9.99"),
        (9.996, "10.0"),
        (45.67, "45.7"),
        (99.96, "100"),
        (1234.5, "1234"),
        (-0.5, "-0.50"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_read_like_speech(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_spread_has_no_more_decimals_than_its_value() -> None:
    record: CellRecord = cell_record(NONE)
    metrics = {"speed/decode_tok_s": Summary(value=321.987, spread=4.321, n=20)}
    text = table_markdown([record.model_copy(update={"metrics": metrics})])
    assert "| 322 ± 4 |" in text


def test_engines_that_were_not_planned_are_counted_with_those_that_were() -> None:
    progress = Progress(Console(file=io.StringIO()), cells=3, engine_starts=1)
    for _ in range(3):
        progress.starting("tiny--none", "box")
    assert "3/3 engines" in progress.line()
