"""What people read, word for word, in every situation; run with UPDATE_GOLDEN=1 after a change."""

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobs import webhook
from jobs.findings import NightVerdict
from jobs.history import History
from jobs.judge import judge
from jobs.junit import junit
from jobs.message import Message, compose, markdown, plain
from jobs.page import html, trend_svg
from jobs.webhook import Shape
from tests.jobs.nights import NGRAM, SUITE
from tests.jobs.situations import RULE, SITUATIONS

GOLDEN = Path(__file__).parents[1] / "golden" / "nights"


def told(name: str) -> tuple[Message, NightVerdict]:
    before, tonight = SITUATIONS[name]()
    verdict = judge(History(before), tonight, RULE)
    return compose(SUITE, verdict), verdict


def same_as_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), "no golden file yet; run again with UPDATE_GOLDEN=1"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_message_of_a_situation_reads_as_its_golden_file(name: str) -> None:
    same_as_golden(f"{name}.md", markdown(told(name)[0]))


def test_no_golden_message_is_left_of_a_situation_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(SITUATIONS)


@pytest.mark.parametrize("name", ["slower_since_yesterday", "failed", "k_changed"])
def test_junit_reads_as_its_golden_file(name: str) -> None:
    same_as_golden(f"{name}.xml", junit(told(name)[1]))


def test_junit_counts_what_it_holds() -> None:
    suite = ElementTree.fromstring(junit(told("checkpoint_edited")[1]).encode())
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "0", "2"]
    assert len(suite) == 3


def test_junit_is_xml_whatever_an_engine_wrote_to_its_log() -> None:
    verdict = told("failed")[1]
    finding = verdict.findings[0].model_copy(update={"sentence": "died \x1b[31m\x00 <&>"})
    text = junit(verdict.model_copy(update={"findings": (finding,)}))
    (error,) = ElementTree.fromstring(text.encode()).iter("error")
    assert error.get("message") == "died ?[31m? <&>"


def test_the_page_holds_the_message_and_a_drawing_of_what_moved() -> None:
    page = html(*told("slower"))
    without = re.sub(r"<svg.*?</svg>", "<svg></svg>", page, flags=re.DOTALL)
    same_as_golden("slower.html", without)
    assert page.count("<svg") == 1


def test_what_the_night_before_said_is_marked_in_words_on_the_page_too() -> None:
    page = html(*told("still_slower"))
    assert page.count("(as the night before)") == 1
    assert re.search(r"color:#777'><b>.*\(as the night before\)</p>", page)


def test_a_trend_tells_its_nights_apart_and_itself_without_colour() -> None:
    trend = told("slower")[1].findings[0].trend
    assert trend is not None
    drawing = ElementTree.fromstring(trend_svg(trend))
    texts = {"".join(e.itertext()) for e in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"baseline", "no baseline", "level"} <= texts
    assert drawing.get("role") == "img"
    last = trend.points[-1]
    assert drawing.get("aria-label") == (
        f"{trend.unit}: 15 nights, level {trend.level:.4g}, on {last.date} {last.value:.4g}"
    )


def test_a_trend_is_valid_svg_with_a_point_a_night() -> None:
    _, verdict = told("slower")
    trend = verdict.findings[0].trend
    assert trend is not None
    drawing = ElementTree.fromstring(trend_svg(trend))
    uses = [e for e in drawing.iter("{http://www.w3.org/2000/svg}use") if "stroke" in str(e.attrib)]
    assert len(trend.points) == 15
    assert len(uses) >= len(trend.points)
    assert drawing.findall(".//{http://www.w3.org/2000/svg}text")


def test_a_drawing_is_the_same_every_time() -> None:
    trend = told("slower")[1].findings[0].trend
    assert trend is not None
    assert trend_svg(trend) == trend_svg(trend)


def test_markup_in_a_reason_is_shown_and_not_obeyed() -> None:
    message, verdict = told("failed")
    evil = message.sections[0].lines[0].model_copy(update={"text": "<script>x</script> & <!here>"})
    section = message.sections[0].model_copy(update={"lines": (evil,)})
    message = message.model_copy(update={"sections": (section,)})
    assert "<script>" not in html(message, verdict)
    assert "<!here>" not in str(webhook.payload("slack", message, verdict))


@pytest.mark.parametrize("shape", ["slack", "discord", "teams"])
def test_a_webhook_of_a_service_takes_this_form(shape: Shape) -> None:
    body = webhook.payload(shape, *told("slower_since_yesterday"))
    same_as_golden(f"webhook_{shape}.json", json.dumps(body, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("shape", ["slack", "discord", "teams"])
def test_a_long_message_keeps_to_the_services_limits(shape: Shape) -> None:
    message, verdict = told("failed")
    line = message.sections[0].lines[0].model_copy(update={"text": "x" * 9000})
    section = message.sections[0].model_copy(update={"lines": (line,) * 30})
    message = message.model_copy(update={"sections": (section,) * 80, "title": "t" * 5000})
    body = webhook.payload(shape, message, verdict)
    assert isinstance(body, dict)
    if shape == "slack":
        blocks = body["blocks"]
        assert isinstance(blocks, list)
        assert len(blocks) <= 50
        assert max(len(str(block)) for block in blocks) < 3100
    elif shape == "discord":
        assert len(str(body["content"])) <= 2000
        assert len(str(body["embeds"])) <= 4096 + 50
    else:
        assert len(str(body).encode()) < 28_000


def test_the_plain_webhook_carries_the_verdict_whole() -> None:
    message, verdict = told("slower")
    body = webhook.payload("plain", message, verdict)
    assert isinstance(body, dict)
    assert NightVerdict.model_validate(body["verdict"]) == verdict
    assert body["exit_code"] == 4


def test_a_verdict_survives_its_json() -> None:
    verdict = told("slower_since_yesterday")[1]
    assert NightVerdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_text_for_a_terminal_has_no_markup() -> None:
    text = plain(told("slower")[0])
    assert "**" not in text
    assert "`" not in text
    assert NGRAM.label in text


def test_many_cells_that_say_the_same_share_a_line() -> None:
    message, verdict = told("prompts_edited")
    again = verdict.findings[0].model_copy(update={"about": "tiny/other/chat/c1"})
    verdict = verdict.model_copy(update={"findings": (*verdict.findings, again)})
    lines = compose(SUITE, verdict).sections[-1].lines
    assert [line.about for line in lines] == ["4 cells"]
    assert len(message.sections[-1].lines) == 3


def test_one_cell_is_not_said_to_be_several() -> None:
    _, verdict = told("quiet")
    alone = verdict.model_copy(update={"cells": verdict.cells[:1], "compared": verdict.cells[:1]})
    message = compose(SUITE, alone)
    assert message.title.endswith("nothing changed in 1 cell")
    assert message.footer[0].startswith("1 cell measured, 1 compared")
    first = compose(SUITE, alone.model_copy(update={"compared": ()}))
    assert first.title.endswith("1 cell, none with a baseline yet")
