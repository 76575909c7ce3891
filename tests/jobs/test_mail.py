"""Mails sent for real, to servers on this machine: good, slow, refusing, with and without TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from jobs.loading import load_suite
from jobs.suite import MailChannel
from pipeline.errors import InputError
from tests.jobs.receivers import sent, trickling


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
