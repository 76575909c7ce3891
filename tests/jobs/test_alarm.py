"""The alarm: who is told when a night ended without saying anything itself, and who cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import alarm
from tests.jobs.test_channels import Receiver
from tests.jobs.test_nightly import suite_in

CHANNEL = {"kind": "webhook", "shape": "plain", "url_env": "HOOK_URL"}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    receiver = Receiver(200)
    monkeypatch.setenv("HOOK_URL", receiver.url)
    yield receiver
    receiver.close()


def test_the_alarm_says_how_the_night_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.setenv("MONITOR_UNIT", "spec-decode-nightly@mine.service")
    monkeypatch.setenv("MONITOR_SERVICE_RESULT", "oom-kill")
    monkeypatch.setenv("MONITOR_EXIT_STATUS", "9")
    assert alarm.main(suite_in(tmp_path, tell=[CHANNEL])) == 0
    (body,) = receiver.bodies
    assert body["title"].endswith("the night ended without a verdict")
    assert "spec-decode-nightly@mine.service ended with oom-kill 9" in body["markdown"]


def test_the_alarm_of_another_scheduler_says_what_it_was_given(
    tmp_path: Path, receiver: Receiver
) -> None:
    assert alarm.main([*suite_in(tmp_path, tell=[CHANNEL]), "what=the disk is full"]) == 0
    assert "the disk is full" in receiver.bodies[0]["markdown"]


def test_a_secret_that_is_missing_does_not_keep_the_alarm_from_the_others(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    without = {**CHANNEL, "url_env": "NOT_SET_URL"}
    assert alarm.main(suite_in(tmp_path, tell=[without, CHANNEL])) == 5
    assert len(receiver.bodies) == 1
    assert "the environment variable NOT_SET_URL is not set" in capsys.readouterr().err


def test_an_alarm_about_a_suite_that_cannot_be_read_says_that_nobody_was_told(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alarm.main(suite_in(tmp_path, tell=[CHANNEL], budget=3)) == 2
    assert receiver.bodies == []
    told = " ".join(capsys.readouterr().err.split())
    assert "there is no key 'budget', did you mean 'budget_hours'?" in told
    assert "nobody was told that a night ended without a verdict" in told
