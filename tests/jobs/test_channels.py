"""Messages sent for real, to web and mail servers on this machine: good, slow, failing, gone."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobs import channels
from jobs.channels import MissingVariableError, check, tell
from jobs.message import Message
from jobs.suite import (
    ConsoleChannel,
    FileChannel,
    MailChannel,
)
from jobs.webhook import Shape
from pipeline.interrupts import Terminated
from tests.jobs.nights import SUITE
from tests.jobs.receivers import HOOK, SECRET, Receiver, sent, trickling
from tests.jobs.test_message import same_as_golden, told

SHAPES: tuple[Shape, ...] = ("slack", "discord", "teams")


@pytest.fixture
def receive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Receiver]]:
    receivers: list[Receiver] = []

    def start(*answers: int, header: tuple[str, str] | None = None) -> Receiver:
        receivers.append(Receiver(*answers, header=header))
        monkeypatch.setenv("HOOK_URL", receivers[-1].url)
        return receivers[-1]

    yield start
    for receiver in receivers:
        receiver.close()


# --- webhooks


def test_a_webhook_is_posted_once_where_it_is_taken(receive: Callable[..., Receiver]) -> None:
    receiver = receive(200)
    assert sent(HOOK) == ((), [])
    (body,) = receiver.bodies
    assert body["title"] == "demo 2026-10-15: 1 regression"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_whole_message_is_taken_in_the_form_of_each_service(
    shape: Shape, receive: Callable[..., Receiver]
) -> None:
    receiver = receive(200)
    assert sent(HOOK.model_copy(update={"shape": shape})) == ((), [])
    (body,) = receiver.bodies
    assert "Regressions" in str(body)
    assert "night 20261015T020000." in str(body)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_one_line_of_a_quiet_week_is_taken_in_the_form_of_each_service(
    shape: Shape, receive: Callable[..., Receiver]
) -> None:
    receiver = receive(200)
    line = Message(title="demo 2026-10-15: nothing changed in 3 cells", exit_code=0)
    assert tell([HOOK.model_copy(update={"shape": shape})], line, None) == ()
    text = json.dumps(receiver.bodies[0], indent=1, ensure_ascii=False)
    same_as_golden(f"webhook_{shape}_line.json", f"{text}\n")


@pytest.mark.parametrize("shape", SHAPES)
def test_each_service_is_told_what_the_night_before_said_too(
    shape: Shape, receive: Callable[..., Receiver]
) -> None:
    receiver = receive(200)
    assert tell([HOOK.model_copy(update={"shape": shape})], *told("still_slower")) == ()
    assert "(as the night before)" in str(receiver.bodies[0])


def test_a_failing_webhook_is_tried_again_with_longer_pauses(
    receive: Callable[..., Receiver],
) -> None:
    receiver = receive(503, 500, 502, 200)
    assert sent(HOOK) == ((), [1.0, 2.0, 4.0])
    assert len(receiver.bodies) == 4


def test_a_webhook_that_asks_for_patience_gets_it_within_bounds(
    receive: Callable[..., Receiver],
) -> None:
    receive(429, 200, header=("Retry-After", "7"))
    assert sent(HOOK) == ((), [7.0])
    receive(429, 200, header=("Retry-After", "86400"))
    assert sent(HOOK) == ((), [60.0])


def test_a_webhook_that_refuses_for_good_is_not_asked_again(
    receive: Callable[..., Receiver],
) -> None:
    receiver = receive(404)
    (problem,), pauses = sent(HOOK)
    assert problem == "webhook HOOK_URL: the message was not delivered (status 404)"
    assert pauses == []
    assert len(receiver.bodies) == 1


def test_a_webhook_that_stays_broken_is_given_up(receive: Callable[..., Receiver]) -> None:
    receiver = receive(500)
    (problem,), _ = sent(HOOK)
    assert "status 500" in problem
    assert len(receiver.bodies) == HOOK.tries


def test_a_webhook_that_answers_a_byte_at_a_time_ends_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with trickling(b"HTTP/1.1 200 OK\r\nX-Slow: ") as port:
        monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{port}/")
        began = time.monotonic()
        (problem,), _ = sent(HOOK.model_copy(update={"tries": 1}))
        took = time.monotonic() - began
    assert "no answer within 1 s" in problem
    assert took < 10


def test_a_webhook_where_nobody_listens_is_one_sentence_without_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{port}/{SECRET}")
    (problem,), pauses = sent(HOOK)
    assert problem == "webhook HOOK_URL: the message was not delivered (ConnectError)"
    assert len(pauses) == HOOK.tries - 1


@pytest.mark.parametrize("address", [f"ftp://host/{SECRET}", f"{SECRET}", "http://"])
def test_an_address_that_is_none_is_told_without_showing_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_URL", address)
    (problem,), pauses = sent(HOOK)
    assert "does not hold an http(s) address" in problem
    assert SECRET not in problem
    assert pauses == []


def test_one_dead_channel_does_not_keep_the_message_from_the_others(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive(200)
    monkeypatch.setenv("DEAD_URL", "http://127.0.0.1:1/")
    dead = HOOK.model_copy(update={"url_env": "DEAD_URL", "tries": 1})
    problems, _ = sent(dead, HOOK)
    assert len(problems) == 1
    assert len(receiver.bodies) == 1


def test_a_channel_without_its_secret_does_not_keep_the_message_from_the_others(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive(200)
    monkeypatch.delenv("MAIL_PASSWORD", raising=False)
    mail = MailChannel(
        kind="mail",
        host="localhost",
        sender="a@b.c",
        to=("d@e.f",),
        user_env="HOOK_URL",
        password_env="MAIL_PASSWORD",
    )
    (problem,), _ = sent(mail, HOOK)
    assert "mail server localhost:587: the environment variable MAIL_PASSWORD is not" in problem
    assert len(receiver.bodies) == 1


def test_a_console_that_nobody_reads_does_not_keep_the_message_from_the_others(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive(200)
    end, pipe = os.pipe()
    os.close(end)
    with os.fdopen(pipe, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        (problem,), _ = sent(ConsoleChannel(kind="console"), HOOK)
    assert problem == "console: the message was not delivered (SystemExit)"
    assert len(receiver.bodies) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated])
def test_a_person_who_ends_the_command_is_obeyed_while_it_tells(
    stop: type[BaseException], receive: Callable[..., Receiver]
) -> None:
    receive(503)

    def interrupted(pause: float) -> None:
        raise stop

    with pytest.raises(stop):
        tell([HOOK], *told("slower"), sleep=interrupted)


# --- console, file, and what is checked beforehand


def test_the_console_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    sent(ConsoleChannel(kind="console"))
    assert capsys.readouterr().out.startswith("demo 2026-10-15: 1 regression\n\nRegressions:\n")


def test_a_folder_gets_the_message_the_page_and_both_verdicts(tmp_path: Path) -> None:
    assert sent(FileChannel(kind="file", folder=str(tmp_path / "new"))) == ((), [])
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {"message.md", "message.html", "verdict.json", "junit.xml"}


def test_a_night_without_a_verdict_leaves_no_older_one_in_the_folder(tmp_path: Path) -> None:
    channel = FileChannel(kind="file", folder=str(tmp_path))
    assert sent(channel) == ((), [])
    crashed = Message(title="demo: the night ended", exit_code=1, footer=("the disk is full",))
    assert tell([channel], crashed, None) == ()
    assert {path.name for path in tmp_path.iterdir()} == {"message.md", "message.html", "junit.xml"}
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["1", "0", "1"]
    (error,) = suite.iter("error")
    assert error.get("message") == "demo: the night ended"
    assert "the disk is full" in str(error.text)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (problem,), _ = sent(FileChannel(kind="file", folder=str(tmp_path / "file" / "below")))
    assert "cannot be written" in problem


def test_a_variable_that_is_not_set_is_found_before_the_night_begins() -> None:
    suite = SUITE.model_copy(update={"tell": (HOOK,)})
    with pytest.raises(MissingVariableError, match="HOOK_URL is not set"):
        check(suite, {})
    check(suite, {"HOOK_URL": "http://x"})


def test_people_are_told_by_other_channels_than_logs() -> None:
    suite = SUITE.model_copy(update={"tell": (ConsoleChannel(kind="console"), HOOK)})
    assert channels.people(suite) == (HOOK,)
    assert channels.always(suite) == (ConsoleChannel(kind="console"),)
