"""The report's files: complete, closed off from the network, escaped, and the same every time."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.analysis.findings import Evidence
from pipeline.analysis.judging import find
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from pipeline.outputs import Outputs
from pipeline.plan import Coordinates, Pruned
from pipeline.records import Summary
from pipeline.report import Report, write_report
from pipeline.report.__main__ import USAGE, main
from pipeline.report.build import build
from pipeline.report.render import html, markdown
from tests.factories import plan
from tests.report.composed import (
    MODEL,
    Made,
    Method,
    cell,
    change,
    composed_start,
    evidence,
    methods,
    reference,
    sweep,
    troubled,
    write,
)

GOLDEN = Path(__file__).parents[1] / "golden"
NASTY = '<script>alert("x")</script> & `code` | *bold* [link](http://x) _it_'
PRUNED = (Pruned(model=MODEL, method="dflash", k=9, reason="K=9 exceeds its limit of 7"),)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outputs, Report]:
    """A composed sweep of all methods, some cells of which failed."""
    outputs = Outputs(tmp_path_factory.mktemp("outputs"), "composed")
    asked = write(outputs, list(sweep()), extra=troubled(), pruned=PRUNED)
    return outputs, write_report(outputs, asked)


def moved(one: Evidence, dataset: str) -> Evidence:
    """The same cell on another data set."""
    at = one.record.at.model_copy(update={"dataset": dataset})
    record = one.record.model_copy(update={"at": at, "fingerprint": at.label})
    return one.model_copy(update={"record": record})


class Parsed(HTMLParser):
    """What a browser would make of a page, as far as tests ask."""

    # Elements that are never closed.
    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(report: Report) -> Parsed:
    return Parsed(report.html.read_text(encoding="utf-8"))


def test_the_answer_of_a_whole_sweep_word_for_word(whole: tuple[Outputs, Report]) -> None:
    assert f"{whole[1].answer}\n" == (GOLDEN / "report_answer.md").read_text(encoding="utf-8")


def test_the_answer_comes_before_everything_else(whole: tuple[Outputs, Report]) -> None:
    headings = re.findall(r"^## (.*)$", whole[1].markdown, re.M)
    assert headings == [
        "Answer",
        "Results",
        "How it was paired",
        "Figures",
        "Failed, left out, undecided",
        "Losslessness",
        "The article's figures",
        "Where this comes from",
    ]
    assert whole[1].answer in whole[1].markdown.partition("## Results")[0]


def test_every_cell_is_in_the_table_whatever_became_of_it(whole: tuple[Outputs, Report]) -> None:
    outputs, report = whole
    table = report.markdown.partition("## Results")[2].partition("## How")[0]
    assert table.count("\n| ") == len(outputs.cells()) + 2
    assert "| code | mtp | 4 | - | - | - | FAILED |" in table
    assert "| chat | eagle3 | 2 | - | - | - | NOOP_NO_ACCEPT |" in table


def test_what_failed_or_was_left_out_is_told_once_per_reason(
    whole: tuple[Outputs, Report],
) -> None:
    told = whole[1].markdown.partition("## Failed")[2].partition("## Loss")[0]
    assert told.count("- composed-135m/") == 3
    assert "- composed-135m/mtp-k4/code/c1, composed-135m/mtp-k4/json/c1: FAILED, " in told
    assert "composed-135m/dflash-k9: left out of the plan: K=9 exceeds its limit of 7" in told


def test_the_page_is_well_formed_and_names_what_it_holds(whole: tuple[Outputs, Report]) -> None:
    parsed = page(whole[1])
    assert parsed.open == []
    assert parsed.all("html")[0]["lang"] == "en"
    assert parsed.all("meta")[1]["content"] == "width=device-width, initial-scale=1"
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {attributes.get("aria-labelledby") for attributes in parsed.all("section")}
    assert labelled <= set(ids)
    assert all(figure["role"] == "img" and figure["aria-label"] for figure in parsed.all("svg"))


def test_the_page_fetches_nothing(whole: tuple[Outputs, Report]) -> None:
    text = whole[1].html.read_text(encoding="utf-8")
    parsed = page(whole[1])
    assert not {"link", "img", "iframe", "object"} & {name for name, _ in parsed.tags}
    assert not [a for _, a in parsed.tags if "src" in a]
    assert "default-src 'none'" in str(parsed.all("meta")[3]["content"])
    addresses = set(re.findall(r"https?://[^\"' <)]*", text))
    assert addresses <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}


def test_every_column_can_be_sorted_and_says_so(whole: tuple[Outputs, Report]) -> None:
    heads = page(whole[1]).all("th")
    assert heads
    assert {head["aria-sort"] for head in heads} == {"none"}
    assert page(whole[1]).tags.count(("button", {"type": "button"})) == len(heads)


def test_figures_are_drawn_in_the_pages_colours_and_stand_alone_too(
    whole: tuple[Outputs, Report],
) -> None:
    assert [path.name for path in whole[1].figures] == [
        f"composed-135m-c1-{kind}.svg"
        for kind in ("speedups", "positions", "k", "variability", "prompts")
    ]
    for path in whole[1].figures:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "var(--series-1, #0072b2)" in text
        assert "currentColor" in text
        assert "<text" in text
        assert not re.findall(r"#(?:010101|020202|030303|fdfdfd)", text)
        # Another colour would stay as it is in the dark.
        assert re.findall(r"(?:fill|stroke): (?!none|currentColor|var\()[^;\"]+", text) == []


def test_the_same_records_give_the_same_bytes(whole: tuple[Outputs, Report]) -> None:
    outputs, report = whole
    paths = [report.html, outputs.folder / "report.md", *report.figures]
    before = [path.read_bytes() for path in paths]
    assert write_report(outputs, [c.record.fingerprint for c in report.findings.cells]) == report
    assert [path.read_bytes() for path in paths] == before


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    asked = write(outputs, list(sweep(("chat",), methods()[:4])))
    stale = tmp_path / "composed" / "figures" / "another-c1-speedups.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    report = write_report(outputs, asked)
    assert not stale.exists()
    assert set(stale.parent.iterdir()) == set(report.figures)


def test_whatever_records_say_is_shown_as_it_is(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    made = list(sweep(("chat",), methods()[:2]))
    made[1] = change(
        made[1],
        lambda record: record.model_copy(
            update={"status": "SUSPECT", "status_reason": NASTY, "group": NASTY[:8]}
        ),
    )
    start = composed_start().model_copy(
        update={"command": ("python", NASTY), "config": {"question": NASTY}}
    )
    report = write_report(outputs, write(outputs, made, [start]))
    parsed = page(report)
    assert parsed.open == []
    assert len(parsed.all("script")) == 1
    assert parsed.text.count(NASTY) >= 3
    escaped = (
        r"&lt;script>alert(\"x\")&lt;/script> &amp; \`code\` \| \*bold\* \[link\](http://x) \_it\_"
    )
    assert escaped.replace('\\"', '"') in report.markdown
    assert "<script" not in report.markdown.replace("```sh\npython '<script", "")


def test_a_sweep_without_requests_is_reported_from_its_records(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    asked = write(outputs, list(sweep(("chat",), methods()[:4])))
    whole = write_report(outputs, asked).markdown
    for folder in ("requests", "rescored"):
        for path in (outputs.folder / folder).iterdir():
            path.unlink()
    report = write_report(outputs, asked)
    assert report.answer in whole
    assert "No output was rescored" in report.markdown


def test_a_sweep_of_which_nothing_is_ok_says_why(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    report = write_report(outputs, write(outputs, [], extra=troubled()))
    assert "nothing can be said yet" in report.answer
    assert report.figures == ()
    assert "Nothing was measured that a figure could show." in report.markdown
    assert page(report).open == []


def test_a_baseline_alone_is_reported(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    report = write_report(outputs, write(outputs, list(sweep(("chat",), methods()[:1]))))
    assert report.answer.endswith("No method was measured.")
    assert "| chat | none | 39.9 ± 0.4 | baseline |" in report.markdown


def test_an_empty_folder_is_reported_as_empty(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    report = write_report(outputs, write(outputs, []))
    assert report.answer == ""
    assert "Nothing was measured." in report.markdown


def test_cells_that_were_planned_and_not_measured_are_told(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    made = list(sweep(("chat",), methods()[:2]))
    write(outputs, made)
    (outputs.folder / "cells").joinpath(
        next(p.name for p in (outputs.folder / "cells").iterdir() if "ngram" in p.name)
    ).unlink()
    assert "composed-135m/ngram-k4/chat/c1: planned, but not measured yet" in (
        write_report(outputs).markdown
    )


def test_a_reason_that_holds_for_many_cells_names_a_few_of_them(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    made = list(sweep(("chat",), methods()[:1]))
    at = made[0].record.at
    many = [at.model_copy(update={"method": "mtp", "kind": "mtp", "k": k}) for k in range(1, 12)]
    write(outputs, made)
    outputs.write_plan(plan(at, *many))
    told = write_report(outputs).markdown.partition("## Failed")[2].partition("##")[0]
    assert "composed-135m/mtp-k8/chat/c1 and 3 more: planned, but not measured yet" in told


def test_a_search_for_k_says_what_it_found_and_what_it_did_not_need(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    chance = {"chat": 0.6}
    some = [Method("none", 0), *(Method("mtp", k, chance, 1.15 + 0.1 * k) for k in (1, 2, 4))]
    made = list(sweep(("chat",), some))
    write(outputs, made)
    searched = plan(
        *(m.record.at for m in made), made[-1].record.at.model_copy(update={"k": 3})
    ).model_copy(update={"search": "choose_k"})
    outputs.write_plan(searched)
    text = write_report(outputs, [cell.fingerprint for cell in searched.cells]).markdown
    found = text.partition("## Choosing K")[2].partition("##")[0]
    assert "mtp: of K 1, 2, 4, 3 these were compared with plain decoding: 1, 2, 4; use K=" in found
    assert "Engine starts saved: 1" in found
    assert "mtp-k3/chat/c1: not measured: the search for K did not need it" in text


def test_energy_is_told_where_the_host_gave_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "composed")
    made = list(sweep(("chat",), methods()[:2]))
    assert "J per token" not in write_report(outputs, write(outputs, made)).markdown
    energy = {"energy/j_per_token": Summary(value=1.234, spread=0.02, n=2)}
    made[1] = change(made[1], lambda r: r.model_copy(update={"metrics": {**r.metrics, **energy}}))
    assert "| 1.2 ± 0.0 |" in write_report(outputs, write(outputs, made)).markdown


def test_interleaved_and_bracketed_cells_never_share_a_table(tmp_path: Path) -> None:
    place = Coordinates(model=MODEL, method="mtp", kind="mtp", k=2, dataset="chat", concurrency=1)
    made: list[Made] = [
        *sweep(("chat",), methods()[:2]),
        cell(place, Method("mtp", 2, {"chat": 0.6}, 1.3), pairing="bracketed"),
        reference(place, "opening"),
        reference(place, "closing"),
    ]
    outputs = Outputs(tmp_path, "composed")
    text = write_report(outputs, write(outputs, made)).markdown
    results = text.partition("## Results")[2].partition("## How")[0].split("### ")[1:]
    assert [one.partition("\n")[0] for one in results] == [
        "composed-135m, 1 request at once, interleaved",
        "composed-135m, 1 request at once, bracketed",
    ]
    assert ("| ngram |" in results[0], "| mtp |" in results[0]) == (True, False)
    assert ("| ngram |" in results[1], "| mtp |" in results[1]) == (False, True)


def test_the_articles_rows_stand_beside_ours_on_its_hardware_only(tmp_path: Path) -> None:
    model = "qwen3-30b-a3b"
    eagle = (Method("none", 0), Method("eagle3", 1, {"chat": 0.7}, 1.2))
    made = list(sweep(("chat",), eagle, model=model))
    told = {}
    for gpu in ("NVIDIA GB10", "NVIDIA H200"):
        outputs = Outputs(tmp_path / gpu, "composed")
        asked = write(outputs, made, [composed_start([gpu])])
        told[gpu] = write_report(outputs, asked).markdown.partition("## The article")[2]
    assert "| qwen3-30b-a3b | eagle3 | 1 | 38\u201340 | " in told["NVIDIA GB10"]
    assert "122b" not in told["NVIDIA GB10"]
    assert "different hardware (one DGX Spark" in told["NVIDIA H200"]
    assert "|" not in told["NVIDIA H200"].partition("## ")[0]


def test_a_thousand_cells_are_told_in_seconds() -> None:
    kinds = ("ngram", "mtp", "eagle3", "dflash")
    some = [Method("none", 0), *(Method(kind, k, {}, 1.1) for kind in kinds for k in range(1, 9))]
    one_set = [evidence(one) for one in sweep(("set",), some, prompts=5, repeats=1)]
    given = [moved(one, f"set{i:02d}") for i in range(31) for one in one_set]
    assert len(given) > 1000
    # On this process's own clock, since the machine that tests run on may be busy.
    began = time.process_time()
    told = build("composed", given, find(given), [composed_start()], None)
    texts = markdown(told), html(told)
    assert time.process_time() - began < 40
    assert texts[0].count("| no change |") + texts[0].count("| worse |") > 900


def test_figures_of_the_first_tables_only_are_drawn_where_there_are_very_many() -> None:
    some = [Method("none", 0), Method("mtp", 1, {"set": 0.5}, 1.1)]
    given = [
        evidence(one)
        for concurrency in range(1, 16)
        for one in sweep(("set",), some, prompts=5, repeats=1, concurrency=concurrency)
    ]
    told = build("composed", given, find(given), [composed_start()], None)
    assert sum(bool(chapter.figures) for chapter in told.chapters) == 12
    assert "Figures of 3 more tables are left out" in markdown(told)


def test_the_verb_writes_and_prints_the_answer(
    whole: tuple[Outputs, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    outputs, report = whole
    assert main([str(outputs.folder)]) == EXIT_OK
    assert capsys.readouterr().out == (
        f"{report.answer}\n\n{outputs.folder}/report.md\n{outputs.folder}/report.html\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], f"one folder is needed; allowed: {USAGE}"),
        (["a", "b"], f"one folder is needed; allowed: {USAGE}"),
        (["nowhere"], "nowhere: no cell of a sweep is recorded here; give the folder of a sweep"),
        (["x", "to=y"], "'to' is not an option"),
    ],
)
def test_bad_input_ends_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == EXIT_BAD_CONFIG
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert error.count("\n") == 1


def test_a_report_stays_where_its_records_are_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = Outputs(tmp_path, "composed")
    before = write_report(outputs, write(outputs, list(sweep(("chat",), methods()[:2])))).markdown
    for record in (outputs.folder / "cells").iterdir():
        record.unlink()
    assert main([str(outputs.folder)]) == EXIT_BAD_CONFIG
    assert "no cell of a sweep is recorded here" in capsys.readouterr().err
    assert (outputs.folder / "report.md").read_text() == before


def test_help_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == EXIT_OK
    assert capsys.readouterr().out == f"{USAGE}\n"


def test_a_torn_record_is_set_aside_in_one_sentence_and_the_rest_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = Outputs(tmp_path, "composed")
    write(outputs, list(sweep(("chat",), methods()[:2])))
    for folder, pattern in (("requests", "*ngram*[!n].jsonl"), ("cells", "*ngram*")):
        torn = next((outputs.folder / folder).glob(pattern))
        torn.write_bytes(torn.read_bytes()[:-40])
        assert main([str(outputs.folder)]) == EXIT_OK
        error = capsys.readouterr().err
        assert error.startswith(f"{torn}: it is not a ")
        assert error.count("\n") == 1
        assert torn.with_name(f"{torn.name}.damaged").is_file()
        assert not torn.exists()
