"""The alarm: who is told when a night ended without saying anything itself, and who cannot be."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs import alarm, nightly
from tests.jobs.receivers import Receiver
from tests.jobs.test_nightly import suite_in

CHANNEL = {"kind": "webhook", "shape": "plain", "url_env": "HOOK_URL"}


def test_the_alarm_says_how_the_night_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Receiver
) -> None:
    monkeypatch.setenv("MONITOR_UNIT", "spec-decode-nightly@mine.service")
    monkeypatch.setenv("MONITOR_SERVICE_RESULT", "oom-kill")
    monkeypatch.setenv("MONITOR_EXIT_STATUS", "9")
    assert alarm.main(suite_in(tmp_path, tell=[CHANNEL])) == 0
    (body,) = hook.bodies
    assert body["title"].endswith("the night ended without a verdict")
    assert "spec-decode-nightly@mine.service ended with oom-kill 9" in body["markdown"]


def test_the_alarm_of_another_scheduler_says_what_it_was_given(
    tmp_path: Path, hook: Receiver
) -> None:
    assert alarm.main([*suite_in(tmp_path, tell=[CHANNEL]), "what=the disk is full"]) == 0
    assert "the disk is full" in hook.bodies[0]["markdown"]


def test_a_secret_that_is_missing_does_not_keep_the_alarm_from_the_others(
    tmp_path: Path, hook: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    without = {**CHANNEL, "url_env": "NOT_SET_URL"}
    assert alarm.main(suite_in(tmp_path, tell=[without, CHANNEL])) == 5
    assert len(hook.bodies) == 1
    assert "the environment variable NOT_SET_URL is not set" in capsys.readouterr().err


def test_an_alarm_about_a_suite_that_cannot_be_read_says_that_nobody_was_told(
    tmp_path: Path, hook: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alarm.main(suite_in(tmp_path, tell=[CHANNEL], budget=3)) == 2
    assert hook.bodies == []
    told = " ".join(capsys.readouterr().err.split())
    assert "there is no key 'budget', did you mean 'budget_hours'?" in told
    assert "nobody was told that a night ended without a verdict" in told


def test_the_usage_is_shown_to_whoever_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert alarm.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith(alarm.USAGE)


# --- a night that has said itself why it could not be run


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Receiver) -> list[str]:
    """A night that ended with 2 and told people why; returns the arguments of its alarm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INVOCATION_ID", "a1")
    arguments = suite_in(tmp_path / "conf", tell=[CHANNEL, {"kind": "file", "folder": "last"}])
    assert nightly.main([*arguments, "measure.repeat=2"]) == 2
    assert len(hook.bodies) == 1
    return arguments


def test_what_the_night_has_told_is_not_told_again(
    refused: list[str], hook: Receiver, tmp_path: Path
) -> None:
    assert alarm.main([*refused, "what=the command ended with exit code 2"]) == 0
    assert len(hook.bodies) == 1
    assert "did you mean 'repeats'?" in (tmp_path / "last" / "message.md").read_text()
    assert alarm.main(refused) == 0
    assert len(hook.bodies) == 2, "one start has one alarm"


def test_systemd_says_which_night_the_alarm_is_about(
    refused: list[str], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpgrp", lambda: 1)
    monkeypatch.setenv("MONITOR_INVOCATION_ID", "a1")
    assert alarm.main(refused) == 0
    assert len(hook.bodies) == 1


def test_a_crash_of_another_night_is_told(
    refused: list[str], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONITOR_INVOCATION_ID", "b2")
    assert alarm.main(refused) == 0
    assert hook.bodies[-1]["title"].endswith("the night ended without a verdict")


def test_a_crash_in_another_start_by_hand_or_by_cron_is_told(
    refused: list[str], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpgrp", lambda: 1)
    assert alarm.main(refused) == 0
    assert hook.bodies[-1]["title"].endswith("the night ended without a verdict")


def test_a_night_that_begins_makes_the_one_before_no_excuse(
    refused: list[str], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise SystemExit(137)

    monkeypatch.setattr(nightly, "Measuring", killed)
    with pytest.raises(SystemExit):
        nightly.main(refused)
    assert alarm.main(refused) == 0
    assert hook.bodies[-1]["title"].endswith("the night ended without a verdict")


@pytest.mark.parametrize("content", ["", '{"schema_version": 2}', "old"])
def test_a_mark_that_says_nothing_of_tonight_keeps_no_alarm_from_speaking(
    content: str, refused: list[str], hook: Receiver
) -> None:
    mark = Path("outputs/nights/mine/failed.json")
    if content == "old":
        long_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        content = json.dumps(json.loads(mark.read_text()) | {"at": long_ago})
    mark.write_text(content)
    assert alarm.main(refused) == 0
    assert hook.bodies[-1]["title"].endswith("the night ended without a verdict")


def test_who_did_not_get_the_nights_own_message_gets_it_from_the_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Receiver
) -> None:
    monkeypatch.chdir(tmp_path)
    hook.answers[:] = [500]
    once = {**CHANNEL, "tries": 1}
    arguments = suite_in(tmp_path / "conf", tell=[once, {"kind": "file", "folder": "last"}])
    assert nightly.main([*arguments, "measure.repeat=2"]) == 2
    (tmp_path / "last" / "message.md").unlink()
    hook.answers[:] = [200]
    assert alarm.main(arguments) == 0
    first, second = hook.bodies
    assert first == second
    assert not (tmp_path / "last" / "message.md").exists()
