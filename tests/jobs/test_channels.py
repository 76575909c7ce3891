"""Messages sent for real, to web and mail servers on this machine: good, slow, failing, gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import trustme
import yaml
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from jobs import channels
from jobs.channels import MissingVariableError, check, tell
from jobs.loading import load_suite
from jobs.message import Message
from jobs.suite import (
    Channel,
    ConsoleChannel,
    FileChannel,
    MailChannel,
    WebhookChannel,
)
from jobs.webhook import Shape
from pipeline.driver import Terminated
from pipeline.errors import InputError
from tests.jobs.nights import SUITE
from tests.jobs.test_message import same_as_golden, told

HOOK = WebhookChannel(kind="webhook", shape="plain", url_env="HOOK_URL", timeout_s=1.0)
SECRET = "a-secret-in-the-path"


SHAPES: tuple[Shape, ...] = ("slack", "discord", "teams")


def blank(body: Any) -> bool:
    """Whether a text that the services want has nothing in it."""
    if isinstance(body, dict):
        return any(blank(value) for value in body.values())
    if isinstance(body, list):
        return any(blank(value) for value in body)
    return isinstance(body, str) and not body.strip()


class Receiver:
    """A web server that answers as it is told to, the last answer for ever.

    Like the services it refuses a message with an empty text in it.
    """

    def __init__(self, *answers: int, header: tuple[str, str] | None = None) -> None:
        self.bodies: list[Any] = []
        self.answers = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.bodies.append(json.loads(self.rfile.read(length)))
                answers = outer.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(400 if blank(outer.bodies[-1]) else answer)
                if header is not None:
                    self.send_header(*header)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


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


def sent(*to: Channel) -> tuple[tuple[str, ...], list[float]]:
    """What went wrong, and the pauses that were made."""
    pauses: list[float] = []
    return tell(to, *told("slower"), sleep=pauses.append), pauses


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


@contextmanager
def trickling(beginning: bytes) -> Iterator[int]:
    """The port of a server whose answer begins and never ends, a byte at a time."""
    stop = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(beginning)
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        stop.set()
        thread.join()


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


# --- mail


class Mailbox:
    """What a mail server does with a mail.

    Args:
        answers: to a mail, before it takes all that follow.
        wait_s: how long it takes for each.
        recipients: its answers to recipients, before it takes all that follow.
        goodbye: its answer to QUIT, and `goodbye_s` how long it takes for it.
    """

    def __init__(
        self,
        *answers: str,
        wait_s: float = 0.0,
        recipients: Sequence[str] = (),
        goodbye: str = "221 Bye",
        goodbye_s: float = 0.0,
    ) -> None:
        self.mails: list[EmailMessage] = []
        self.answers, self.wait_s = list(answers), wait_s
        self.recipients = list(recipients)
        self.goodbye, self.goodbye_s = goodbye, goodbye_s

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.recipients.pop(0) if self.recipients else "250 OK"
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_QUIT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        await asyncio.sleep(self.goodbye_s)
        return self.goodbye

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        await asyncio.sleep(self.wait_s)
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"


@pytest.fixture
def serve() -> Iterator[Callable[..., MailChannel]]:
    controllers: list[Controller] = []

    def start(mailbox: Mailbox, **how: Any) -> MailChannel:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        controller = Controller(mailbox, hostname="127.0.0.1", port=port, **how)
        controller.start()
        controllers.append(controller)
        return MailChannel(
            kind="mail",
            host="localhost",
            port=port,
            security="none",
            sender="nightly@example.org",
            to=("one@example.org", "two@example.org"),
            timeout_s=20.0,
        )

    yield start
    for controller in controllers:
        controller.stop()


def test_a_mail_arrives_with_text_page_and_the_drawn_trend(
    serve: Callable[..., MailChannel],
) -> None:
    mailbox = Mailbox()
    assert sent(serve(mailbox)) == ((), [])
    (mail,) = mailbox.mails
    assert mail["Subject"] == "demo 2026-10-15: 1 regression"
    assert mail["To"] == "one@example.org, two@example.org"
    kinds = [part.get_content_type() for part in mail.walk() if not part.is_multipart()]
    assert kinds == ["text/plain", "text/html", "text/html"]
    (attached,) = mail.iter_attachments()
    assert attached.get_filename() == "demo-2026-10-15.html"
    assert "<svg" in attached.get_content()
    body = mail.get_body(("plain",))
    assert body is not None
    assert "Regressions:" in body.get_content()


def test_a_mail_that_is_put_off_is_sent_again(serve: Callable[..., MailChannel]) -> None:
    mailbox = Mailbox("451 try later", "421 busy")
    assert sent(serve(mailbox)) == ((), [1.0, 2.0])
    assert len(mailbox.mails) == 1


def test_a_mail_that_is_refused_is_not(serve: Callable[..., MailChannel]) -> None:
    channel = serve(Mailbox("554 no"))
    (problem,), pauses = sent(channel)
    assert problem == (
        f"mail server localhost:{channel.port}: the message was not delivered (status 554)"
    )
    assert pauses == []


def test_a_mail_whose_recipients_are_all_put_off_is_sent_again(
    serve: Callable[..., MailChannel],
) -> None:
    mailbox = Mailbox(recipients=["450 greylisted", "451 greylisted"])
    assert sent(serve(mailbox)) == ((), [1.0])
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize("second", ["450 greylisted", "550 no such user"])
def test_a_mail_that_one_recipient_is_refused_for_good_is_not(
    second: str, serve: Callable[..., MailChannel]
) -> None:
    (problem,), pauses = sent(serve(Mailbox(recipients=["550 no such user", second])))
    assert "it refuses one@example.org, two@example.org" in problem
    assert pauses == []


def test_a_mail_that_some_recipients_got_is_not_sent_to_them_again(
    serve: Callable[..., MailChannel],
) -> None:
    mailbox = Mailbox(recipients=["450 greylisted", "250 OK"])
    (problem,), pauses = sent(serve(mailbox))
    assert "it refuses one@example.org, and took the others" in problem
    assert pauses == []
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(
    "mailbox", [Mailbox(goodbye="500 what?"), Mailbox(goodbye="421 busy"), Mailbox(goodbye_s=3.0)]
)
def test_a_mail_that_was_taken_is_delivered_however_the_server_says_goodbye(
    mailbox: Mailbox, serve: Callable[..., MailChannel]
) -> None:
    channel = serve(mailbox).model_copy(update={"timeout_s": 1.0})
    assert sent(channel) == ((), [])
    assert len(mailbox.mails) == 1


def test_a_mail_server_that_answers_a_byte_at_a_time_is_given_up() -> None:
    with trickling(b"220 ") as port:
        channel = MailChannel(
            kind="mail",
            host="127.0.0.1",
            port=port,
            security="none",
            sender="a@b.c",
            to=("d@e.f",),
            tries=1,
            timeout_s=0.5,
        )
        began = time.monotonic()
        (problem,), _ = sent(channel)
        took = time.monotonic() - began
    assert "no answer within 0.5 s" in problem
    assert took < 10


def test_a_slow_mail_server_is_given_up(serve: Callable[..., MailChannel]) -> None:
    channel = serve(Mailbox(wait_s=4.0)).model_copy(update={"timeout_s": 0.5, "tries": 1})
    (problem,), _ = sent(channel)
    assert "no answer within 0.5 s" in problem


def test_a_mail_server_that_is_gone_is_one_sentence() -> None:
    channel = MailChannel(
        kind="mail", host="127.0.0.1", port=1, sender="a@b.c", to=("d@e.f",), tries=2
    )
    (problem,), pauses = sent(channel)
    assert "127.0.0.1:1: the message was not delivered (ConnectionRefusedError)" in problem
    assert pauses == [1.0]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have this machine trust the authority."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.mark.usefixtures("trusted")
def test_a_mail_goes_over_tls_from_the_first_byte(
    serve: Callable[..., MailChannel], authority: trustme.CA
) -> None:
    mailbox = Mailbox()
    channel = serve(mailbox, ssl_context=tls(authority)).model_copy(update={"security": "tls"})
    assert sent(channel) == ((), [])
    assert len(mailbox.mails) == 1


def test_tls_from_the_first_byte_wants_a_certificate_that_somebody_vouches_for(
    serve: Callable[..., MailChannel], authority: trustme.CA
) -> None:
    mailbox = Mailbox()
    channel = serve(mailbox, ssl_context=tls(authority)).model_copy(update={"security": "tls"})
    (problem,), pauses = sent(channel)
    assert "its certificate" in problem
    assert (mailbox.mails, pauses) == ([], [])


@pytest.mark.usefixtures("trusted")
def test_a_login_goes_over_tls_with_what_the_environment_holds(
    serve: Callable[..., MailChannel], authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[LoginPassword] = []

    def login(server: SMTP, session: Session, envelope: Envelope, how: str, who: Any) -> AuthResult:
        seen.append(who)
        return AuthResult(success=who.password == b"right", handled=False)

    monkeypatch.setenv("MAIL_USER", "nightly")
    mailbox = Mailbox()
    options = {"authenticator": login, "auth_required": True, "auth_require_tls": True}
    channel = serve(mailbox, tls_context=tls(authority), **options).model_copy(
        update={"security": "starttls", "user_env": "MAIL_USER", "password_env": "MAIL_PASSWORD"}
    )
    monkeypatch.setenv("MAIL_PASSWORD", "right")
    assert sent(channel) == ((), [])
    assert seen[0].login == b"nightly"
    monkeypatch.setenv("MAIL_PASSWORD", "wrong-one")
    (problem,), pauses = sent(channel)
    assert "it refuses the login that MAIL_USER and MAIL_PASSWORD hold" in problem
    assert "wrong-one" not in problem
    assert pauses == []
    monkeypatch.setenv("MAIL_PASSWORD", "pässword")
    (problem,), _ = sent(channel)
    assert problem == (
        f"mail server localhost:{channel.port}: the message was not delivered (UnicodeEncodeError)"
    )


@pytest.mark.parametrize("half", ["user_env", "password_env"])
def test_half_a_login_is_refused_when_the_suite_is_read(half: str, tmp_path: Path) -> None:
    mail = {"kind": "mail", "host": "h", "sender": "a@b.c", "to": ["d@e.f"], half: "MAIL_USER"}
    suite = {"name": "mine", "command": ["+sweep=smoke"], "budget_hours": 1, "tell": [mail]}
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "mine.yaml").write_text(yaml.safe_dump(suite))
    with pytest.raises(InputError, match="user_env and password_env are a login together"):
        load_suite("mine", [tmp_path])


def test_a_certificate_that_nobody_vouches_for_is_refused(
    serve: Callable[..., MailChannel], authority: trustme.CA
) -> None:
    channel = serve(Mailbox(), tls_context=tls(authority))
    (problem,), pauses = sent(channel.model_copy(update={"security": "starttls"}))
    assert "its certificate" in problem
    assert pauses == []


def test_a_server_without_tls_gets_no_mail_that_wants_it(
    serve: Callable[..., MailChannel],
) -> None:
    mailbox = Mailbox()
    (problem,), _ = sent(serve(mailbox).model_copy(update={"security": "starttls"}))
    assert "STARTTLS" in problem
    assert mailbox.mails == []


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
