"""`python -m jobs.baseline` and a night's keeping, on a real MLflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from jobs import baseline
from jobs.history import History
from jobs.judge import judge, judged
from jobs.keeping import Waiting, everything, load, night_entry
from jobs.message import compose
from jobs.night import Night
from pipeline.folders import CONF
from pipeline.tracking.ledger import Keeper, LedgerError
from tests.jobs.nights import MTP, NGRAM, SUITE, cell, night, quiet, usual
from tests.jobs.situations import RULE, SITUATIONS

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
NIGHTS = quiet(5)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a store that holds five nights, and a suite of its own."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "conf" / "suite").mkdir(parents=True)
    suite = {
        "name": "demo",
        "command": ["+sweep=smoke"],
        "budget_hours": 1,
        "tell": [{"kind": "console"}],
    }
    (folder / "conf" / "suite" / "demo.yaml").write_text(yaml.safe_dump(suite))
    keeper = Keeper("smoke", None, folder / "mlruns")
    for one in NIGHTS:
        keep(keeper, one)
    return folder


def keep(keeper: Keeper, one: Night) -> None:
    verdict = judge(History([]), one, RULE)
    keeper.write(night_entry(one, verdict, compose(SUITE, verdict)))


@pytest.fixture
def here(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(work)
    return work


def say(*words: str) -> int:
    return baseline.main([*words, "--config-dir", "conf"])


def test_a_night_comes_back_from_mlflow_as_it_was_kept(here: Path) -> None:
    history = load(Keeper("smoke", None), "demo", NIGHTS[0].node_class, RULE)
    assert history.nights == tuple(NIGHTS)


def test_nights_of_another_class_of_machine_are_not_loaded(here: Path) -> None:
    assert load(Keeper("smoke", None), "demo", "dgx_spark: GB10", RULE).nights == ()


def test_show_tells_each_cells_level_and_in_how_many_nights(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say("show", "suite=demo") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny/none/chat/c1: 28.5 tok/s (27.6 to 29.2 in 5 nights)"
    assert "x baseline" in lines[1]
    assert "tokens per step" in lines[1]


def test_a_decision_is_kept_with_who_and_why_and_shown(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("suite=demo", f"night={NIGHTS[3].id}", "cell=*/mtp-*", "reason=new vLLM")
    assert say("accept", *words) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"recorded: accept {NIGHTS[3].id} ({MTP.label}): new vLLM\n")
    assert f"level since {NIGHTS[3].id}" in out
    (decision,) = everything(Keeper("smoke", None), "demo").decisions
    assert (decision.action, decision.cells, decision.reason) == (
        "accept",
        (MTP.label,),
        "new vLLM",
    )
    assert decision.by
    assert say("reset", "suite=demo", "reason=a mistake") == 0
    out = capsys.readouterr().out
    assert "level since" not in out
    assert "accept" in out
    assert "reset (all cells): a mistake" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("accept", "suite=demo", "reason=x"), "'accept' needs night="),
        (("accept", "suite=demo", f"night={NIGHTS[0].id}"), "'accept' needs reason="),
        (("pin", "suite=demo", "night=20261001T020001", "reason=x"), "did you mean '20261001T02"),
        (
            ("pin", "suite=demo", f"night={NIGHTS[0].id}", "cell=tiny/mpt", "reason=x"),
            "no cell is called",
        ),
        (("forget", "suite=demo"), "no verb 'forget', did you mean 'reset'?; allowed: show, a"),
        (
            ("shwo", "suite=demo"),
            "no verb 'shwo', did you mean 'show'?; allowed: show, accept, pin",
        ),
        (("pin", "accept", "suite=demo"), "one verb and a suite are needed"),
        (("reset", "suite=demo", f"night={NIGHTS[0].id}", "reason=x"), "'reset' takes no night"),
        (("show", "suite=demo", "reason=x"), "'show' takes no reason"),
        (("show", "suite=demo", "cell=tiny/mpt"), "no cell is called 'tiny/mpt'"),
        (("show", "suite=demo", "tracking.uri=ftp://x"), "'ftp://x' is not a store"),
        (("show",), "one verb and a suite are needed"),
        (("show", "suite=dmeo"), "there is no suite called 'dmeo', did you mean 'demo'?"),
        (("show", "siute=demo"), "'siute' is not an option, did you mean 'suite'?"),
    ],
)
def test_a_mistake_is_one_sentence_and_ends_with_2(
    words: tuple[str, ...], told: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say(*words) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_night_that_mlflow_did_not_take_waits_on_disk(tmp_path: Path, work: Path) -> None:
    waiting = Waiting(tmp_path / "waiting")
    before, tonight = SITUATIONS["slower"]()
    verdict = judge(History(before), tonight, RULE)
    entry = night_entry(judged(tonight, verdict), verdict, compose(SUITE, verdict))
    waiting.add(entry.model_copy(update={"key": "elsewhere/1"}))
    with pytest.raises(LedgerError):
        waiting.deliver(Keeper("smoke", "http://127.0.0.1:1", tmp_path))
    assert len(list((tmp_path / "waiting").iterdir())) == 1
    keeper = Keeper("waited", None, work / "mlruns")
    waiting.deliver(keeper)
    assert list((tmp_path / "waiting").iterdir()) == []
    (kept,) = keeper.read("night", {"exit_code": "4"}, "verdict.json", 9)
    assert json.loads(kept.content or b"")["findings"][0]["kind"] == "worse"


def test_what_a_later_night_needs_to_know_is_kept_with_the_night(here: Path) -> None:
    before, tonight = SITUATIONS["slower"]()
    kept = judged(tonight, judge(History(before), tonight, RULE))
    again = Night.model_validate_json(kept.model_dump_json())
    assert again == kept
    assert again.called
    assert again.found


def test_nothing_is_shown_where_there_is_no_night(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(work)
    folder = tmp_path / "suite"
    folder.mkdir()
    text = (work / "conf" / "suite" / "demo.yaml").read_text().replace("demo", "fresh")
    (folder / "fresh.yaml").write_text(text)
    assert baseline.main(["show", "suite=fresh", "--config-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "fresh has no night yet\n"
    words = ["reset", "suite=fresh", "reason=a mistake", "--config-dir", str(tmp_path)]
    assert baseline.main(words) == 0
    recorded, none_yet, kept = capsys.readouterr().out.splitlines()
    assert recorded == "recorded: reset (all cells): a mistake"
    assert none_yet == "fresh has no night yet"
    assert kept.endswith("reset (all cells): a mistake")


def test_show_tells_only_of_the_cells_that_are_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say("show", "suite=demo", "cell=*/ngram-*") == 0
    first, *decisions = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{NGRAM.label}: ")
    assert not any(line.startswith("tiny/") for line in decisions)
    assert not any("*/mtp" in line or f"({MTP.label})" in line for line in decisions)


def test_a_store_of_the_nights_own_is_looked_into(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"tracking.uri=sqlite:///{here / 'other.db'}"
    keep(Keeper("smoke", store.partition("=")[2]), NIGHTS[0])
    assert say("show", "suite=demo", store) == 0
    assert "in 1 night)" in capsys.readouterr().out
    assert say("pin", "suite=demo", store, f"night={NIGHTS[0].id}", "reason=elsewhere") == 0
    assert "elsewhere" in capsys.readouterr().out
    assert say("show", "suite=demo") == 0
    assert "elsewhere" not in capsys.readouterr().out


def test_a_damaged_night_is_named_and_the_others_are_shown(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another_suite(here, "torn")
    for one in quiet(3):
        keep(Keeper("smoke", None), one.model_copy(update={"suite": "torn"}))
    newest, *_ = Keeper("smoke", None).read("night", {"suite": "torn"}, "night.json", 1)
    Path(newest.where.removeprefix("file://")).write_text("")
    assert say("show", "suite=torn") == 0
    said = capsys.readouterr()
    assert "in 2 nights)" in said.out
    assert f"night torn/{quiet(3)[2].id}: {newest.where}: it is not a Night" in said.err


def test_the_usage_is_shown_to_whoever_asks(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["show", "-h"]):
        assert baseline.main(argv) == 0
        assert capsys.readouterr().out.startswith(baseline.USAGE)


def another_suite(folder: Path, name: str, sweep: str = "smoke") -> None:
    """A suite like `demo`, in a folder of the user's own."""
    text = (folder / "conf" / "suite" / "demo.yaml").read_text()
    suite = text.replace("demo", name).replace("+sweep=smoke", f"+sweep={sweep}")
    (folder / "conf" / "suite" / f"{name}.yaml").write_text(suite)


def test_a_suite_may_run_a_sweep_of_ones_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another_suite(here, "own", sweep="my_sweep")
    (here / "conf" / "sweep").mkdir()
    sweep = (CONF / "sweep" / "smoke.yaml").read_text().replace("name: smoke", "name: my_sweep")
    (here / "conf" / "sweep" / "my_sweep.yaml").write_text(sweep)
    keep(Keeper("my_sweep", None), NIGHTS[0].model_copy(update={"suite": "own"}))
    assert say("show", "suite=own") == 0
    assert "28.5 tok/s" not in capsys.readouterr().out
    assert say("accept", "suite=own", f"night={NIGHTS[0].id}", "reason=new vLLM") == 0
    assert f"accept {NIGHTS[0].id} (all cells): new vLLM" in capsys.readouterr().out


def test_only_nights_on_the_newest_nights_class_of_machine_are_pooled(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another_suite(here, "moved")
    for number, one in enumerate(quiet(4)):
        where = "cpu: EPYC, 2 cores" if number < 3 else "dgx_spark: GB10"
        keep(Keeper("smoke", None), one.model_copy(update={"suite": "moved", "node_class": where}))
    assert say("show", "suite=moved") == 0
    assert "in 1 night)" in capsys.readouterr().out.splitlines()[0]


def test_a_night_that_measured_nothing_usable_of_a_cell_is_no_level_for_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    another_suite(here, "failing")
    cells = [*usual(9)[:2], cell(MTP, status="FAILED", reason="the engine ended")]
    keep(Keeper("smoke", None), night(9, cells=cells).model_copy(update={"suite": "failing"}))
    words = ("suite=failing", f"night={night(9).id}", "reason=x")
    for verb in ("pin", "accept"):
        assert say(verb, *words, f"cell={MTP.label}") == 2
        told = " ".join(capsys.readouterr().err.split())
        assert f"night {night(9).id}: the night holds no usable measurement of {MTP.label}" in told
    assert everything(Keeper("smoke", None), "failing").decisions == ()
    assert say("pin", *words, "cell=tiny/[mn][tg]*") == 0
    assert f"pin {night(9).id} ({NGRAM.label}): x" in capsys.readouterr().out
