"""The page in a real browser: sorting, copying, and fitting a phone's window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.outputs import Outputs
from pipeline.report import write_report
from tests.benchmarks.compare_screenshot import Page, browser
from tests.benchmarks.report_screenshots import VIEWS, picture
from tests.report.composed import methods, sweep, troubled, write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromedriver") is None, reason="needs chromium-driver"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outputs = Outputs(tmp_path_factory.mktemp("outputs"), "composed")
    made = list(sweep(("chat", "json"), methods()))
    return write_report(outputs, write(outputs, made, extra=troubled())).html


@pytest.fixture(scope="module")
def page(report: Path) -> Iterator[Page]:
    with browser() as shown:
        yield shown


def ask(page: Page, expression: str) -> Any:
    told = page.devtools("Runtime.evaluate", expression=expression, returnByValue=True)
    return told["result"].get("value")


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
def test_nothing_sticks_out_of_the_window(page: Page, report: Path, view: Any) -> None:
    png, width = picture(page, report, view)
    assert png.startswith(b"\x89PNG")
    assert width == view.width


def test_a_heading_sorts_by_its_numbers_then_backwards(page: Page, report: Path) -> None:
    page.show(report.as_uri())
    column = "document.querySelectorAll('main table')[0]"
    ratios = (
        f"[...{column}.rows].slice(1).map(r => r.cells[5].dataset.sort).filter(Boolean).map(Number)"
    )
    click = f"{column}.rows[0].cells[5].querySelector('button').click()"
    state = f"{column}.rows[0].cells[5].getAttribute('aria-sort')"
    before = ask(page, ratios)
    ask(page, click)
    assert ask(page, ratios) == sorted(before)
    assert ask(page, state) == "ascending"
    ask(page, click)
    assert ask(page, ratios) == sorted(before, reverse=True)
    assert ask(page, state) == "descending"
    last = f"{column}.rows[{column}.rows.length - 1].cells[5].textContent"
    assert ask(page, last) == "-"


def test_copying_selects_the_command_at_least(page: Page, report: Path) -> None:
    page.show(report.as_uri())
    ask(page, "document.querySelector('[data-copy]').click()")
    copied = ask(page, "getSelection().toString()")
    assert copied.startswith("vllm serve /models/composed-135m")
    assert copied == ask(page, "document.querySelector('pre code').textContent")
