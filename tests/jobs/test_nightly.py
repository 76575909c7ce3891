"""The nightly command: what it refuses before it begins, who is told when, and one real night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs import nightly
from jobs.history import History
from jobs.keeping import everything
from jobs.night import Night
from jobs.suite import Suite
from pipeline.locks import held
from pipeline.tracking.ledger import Keeper
from tests.jobs.nights import SUITE, night, quiet
from tests.jobs.receivers import HOOK, Receiver
from tests.jobs.test_message import told


def suite_in(folder: Path, **changes: Any) -> list[str]:
    """Arguments that run a suite of one's own."""
    content = {
        "name": "mine",
        "command": ["+sweep=smoke"],
        "budget_hours": 1,
        "tell": [{"kind": "console"}],
        **changes,
    }
    (folder / "suite").mkdir(parents=True, exist_ok=True)
    (folder / "suite" / "mine.yaml").write_text(yaml.safe_dump(content))
    return ["suite=mine", "--config-dir", str(folder)]


# --- before it begins


def test_without_a_suite_the_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert nightly.main([]) == 2
    assert "one suite is needed" in capsys.readouterr().err


def test_a_secret_that_is_not_set_ends_with_2_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    channel = {"kind": "webhook", "shape": "slack", "url_env": "NOT_SET_URL"}
    assert nightly.main(suite_in(tmp_path / "conf", tell=[channel])) == 2
    assert "NOT_SET_URL is not set" in capsys.readouterr().err
    (left,) = (path for path in (tmp_path / "outputs").rglob("*") if path.is_file())
    assert left == tmp_path / "outputs" / "nights" / "mine" / "failed.json"


def test_a_night_that_cannot_be_run_is_told_to_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Receiver
) -> None:
    monkeypatch.chdir(tmp_path)
    channel = {"kind": "webhook", "shape": "plain", "url_env": "HOOK_URL"}
    arguments = suite_in(tmp_path / "conf", tell=[channel])
    assert nightly.main([*arguments, "method=[none,ngarm]"]) == 2
    (body,) = hook.bodies
    assert body["title"].endswith("the night could not be run")
    assert "did you mean 'ngram'?" in body["markdown"]
    assert body["exit_code"] == 2


def test_why_a_night_could_not_be_run_stands_on_the_console_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert nightly.main([*suite_in(tmp_path / "conf"), "output_dir=elsewhere"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("a night is kept in outputs/nights/mine") == 1


def test_the_usage_is_shown_to_whoever_asks(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["suite=nightly", "-h"]):
        assert nightly.main(argv) == 0
        assert capsys.readouterr().out.startswith(nightly.USAGE)


def test_a_second_night_beside_the_first_ends_with_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = tmp_path / "outputs" / "nights" / "mine" / ".lock"
    lock.parent.mkdir(parents=True)
    with held(lock, "night of mine", 0.0, lambda owner: AssertionError(owner)):  # type: ignore[arg-type, return-value]
        assert nightly.main(suite_in(tmp_path / "conf")) == 5
    assert "a night is running already (night of mine, process" in capsys.readouterr().err


# --- who is told


def after(nights: list[Night], quiet_rule: str, hook: Receiver) -> list[str]:
    """The titles that people get of a night without news."""
    suite = SUITE.model_copy(update={"tell": (HOOK,), "quiet": quiet_rule})
    message, verdict = told("quiet")
    nightly._told(suite, History(nights), verdict, message)
    return [body["title"] for body in hook.bodies]


def test_a_night_with_news_is_told_whole(hook: Receiver) -> None:
    suite: Suite = SUITE.model_copy(update={"tell": (HOOK,), "quiet": "never"})
    message, verdict = told("slower")
    assert nightly._told(suite, History(quiet(3)), verdict, message) == (True, False, ())
    assert "## Regressions" in hook.bodies[0]["markdown"]


def test_a_quiet_night_is_one_line_once_a_week(hook: Receiver) -> None:
    long_ago = [night(n).model_copy(update={"told": n == 7}) for n in range(14)]
    assert after(long_ago, "weekly", hook) == ["demo 2026-10-15: nothing changed in 3 cells"]
    lately = [night(n).model_copy(update={"told": n == 8}) for n in range(14)]
    assert len(after(lately, "weekly", hook)) == 1


def test_a_suite_may_want_every_quiet_night_or_none(hook: Receiver) -> None:
    assert after(quiet(14), "never", hook) == []
    assert len(after(quiet(14), "always", hook)) == 1


def test_a_finding_that_stays_is_not_told_every_night(hook: Receiver) -> None:
    suite = SUITE.model_copy(update={"tell": (HOOK,)})
    lately = [night(n).model_copy(update={"told": True}) for n in range(14)]
    message, verdict = told("still_slower")
    assert nightly._told(suite, History(lately), verdict, message) == (False, False, ())
    assert hook.bodies == []


# --- a real night


@pytest.mark.engine
@pytest.mark.timeout(1800)  # six engine starts
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_a_real_night_is_measured_judged_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = suite_in(
        tmp_path / "conf",
        command=[
            *("+sweep=nightly_cpu", "dataset=echo", "dataset.limit=6"),
            *("measure.max_tokens=12", "measure.repeats=2", "method=[none,ngram]"),
        ],
        starts=2,
        tell=[{"kind": "console"}, {"kind": "file", "folder": "last"}],
    )
    assert nightly.main(arguments) == 5
    out = capsys.readouterr().out
    assert "2 cells, none with a baseline yet" in out
    (first,) = everything(Keeper("nightly_cpu", None), "mine").nights
    none, ngram = first.cells
    assert len(none.costs) == len(ngram.reference) == 6
    assert len(none.outputs) == 6
    assert ngram.lossless == "lossless"
    assert [one.fingerprint for one in first.more] == [none.fingerprint, ngram.fingerprint]
    assert first.more[0].outputs == none.outputs
    assert first.more[1].costs != ngram.costs
    assert first.environment["vllm"]
    assert int(first.environment["usable cores"]) >= 1
    assert (tmp_path / "last" / "junit.xml").is_file()
    assert first.told
