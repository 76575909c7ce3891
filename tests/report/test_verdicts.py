"""The whole report as Markdown, word for word, for every word a verdict can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.outputs import Outputs
from pipeline.plan import Coordinates
from pipeline.report import write_report
from tests.report.composed import MODEL, Made, Method, cell, reference, write

GOLDEN = Path(__file__).parents[1] / "golden"


def at(method: str, k: int, dataset: str = "chat") -> Coordinates:
    return Coordinates(model=MODEL, method=method, kind=method, k=k, dataset=dataset, concurrency=1)


def pair(method: Method, *, prompts: int = 20) -> list[Made]:
    """A method beside its baseline, both loaded at once, and the baseline's own cell."""
    return [
        cell(at("none", 0), Method("none", 0), prompts=prompts),
        cell(at(method.name, method.k), method, prompts=prompts),
    ]


def bracket(closing: float | None) -> list[Made]:
    """A method between two measurements of its baseline, the second so many times as slow."""
    place = at("mtp", 2)
    made = [cell(place, Method("mtp", 2, {"chat": 0.6}, 1.3), pairing="bracketed")]
    if closing is not None:
        made += [reference(place, "opening"), reference(place, "closing", closing)]
    return made


CASES: dict[str, Sequence[Made]] = {
    "better": pair(Method("mtp", 2, {"chat": 0.6}, 1.3)),
    "worse": pair(Method("ngram", 4, {"chat": 0.2}, 1.2, coverage=0.3)),
    "no change": pair(Method("eagle3", 1, {"chat": 0.25}, 1.24)),
    "unstable": pair(Method("mtp", 2, {"chat": 0.6}, 1.3), prompts=4),
    "no baseline": bracket(None),
    "not comparable": bracket(1.3),
}


@pytest.mark.parametrize("word", CASES, ids=[word.replace(" ", "-") for word in CASES])
def test_a_report_says_the_verdict_with_its_evidence(word: str, tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    report = write_report(outputs, write(outputs, CASES[word]))
    [found] = [one.comparison for one in report.findings.cells if one.comparison]
    assert found.verdict == word
    assert report.markdown == golden(word)
    assert (outputs.folder / "report.md").read_text() == report.markdown


def test_where_plain_decoding_stays_the_ratio_is_told_to_be_the_nearest_ones(
    tmp_path: Path,
) -> None:
    method = Method("eagle3", 1, {"chat": 0.25, "code": 0.25}, 1.24)
    made = [
        cell(at(one.name, one.k, dataset), one, prompts=20)
        for dataset in ("chat", "code")
        for one in (Method("none", 0), method)
    ]
    outputs = Outputs(tmp_path, "composed")
    said = write_report(outputs, write(outputs, made)).markdown
    assert "| chat | plain decoding | nearest: eagle3 K=1, 1.0" in said


def test_a_bracket_that_held_still_is_told_with_its_drift(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    report = write_report(outputs, write(outputs, bracket(1.01)))
    assert "| better |" in report.markdown
    assert "The largest change seen is +1.0%." in report.markdown


def golden(word: str) -> str:
    return (GOLDEN / f"report_{word.replace(' ', '_')}.md").read_text(encoding="utf-8")
