"""Mail by SMTP: the message as text and as a page, with the trends in an attached file."""

from __future__ import annotations

import os
import smtplib
import ssl
from concurrent.futures import Future
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from threading import Event, Thread

from jobs.findings import NightVerdict
from jobs.message import Message, plain
from jobs.page import html
from jobs.suite import Channel, MailChannel
from jobs.trouble import RejectedError, UndeliveredError

_PASSING = range(400, 500)
# By recipient, the code and text of a refusal.
Refused = dict[str, tuple[int, bytes]]


def named(channel: MailChannel) -> str:
    """The channel in words that hold no secret."""
    return f"mail server {channel.host}:{channel.port}"


def variables(channel: Channel) -> tuple[str, ...]:
    """The environment variables that the channel takes its login from."""
    if not isinstance(channel, MailChannel):
        return ()
    return tuple(name for name in (channel.user_env, channel.password_env) if name is not None)


def compose(channel: MailChannel, message: Message, verdict: NightVerdict | None) -> EmailMessage:
    """The mail. Few mail programs draw SVG, so the page in the body has none."""
    mail = EmailMessage()
    mail["Subject"] = message.title
    mail["From"] = channel.sender
    mail["To"] = ", ".join(channel.to)
    mail["Date"] = formatdate(localtime=True)
    mail["Message-ID"] = make_msgid(domain=channel.sender.rpartition("@")[2] or None)
    mail.set_content(plain(message))
    mail.add_alternative(html(message, None), subtype="html")
    if verdict is not None and any(f.trend for f in verdict.findings):
        page = html(message, verdict)
        mail.add_attachment(page, subtype="html", filename=f"{verdict.suite}-{verdict.date}.html")
    return mail


def send(channel: MailChannel, message: Message, verdict: NightVerdict | None) -> None:
    """Send once. The time limit is on the whole exchange, so a server that trickles ends too.

    Raises:
        UndeliveredError: nobody there, too slow, or a refusal that may pass.
        RejectedError: a refusal that will not, or a certificate that is not to be trusted.
    """
    where = named(channel)
    try:
        refused = _within_limit(channel, compose(channel, message, verdict))
    except ssl.SSLCertVerificationError as error:
        raise RejectedError(where, f"its certificate: {error.verify_message}") from error
    except smtplib.SMTPResponseException as error:
        kind = UndeliveredError if error.smtp_code in _PASSING else RejectedError
        raise kind(where, f"status {error.smtp_code}") from error
    except smtplib.SMTPNotSupportedError as error:
        raise RejectedError(where, str(error)) from error
    except smtplib.SMTPRecipientsRefused as error:
        passing = all(code in _PASSING for code, _ in error.recipients.values())
        kind = UndeliveredError if passing else RejectedError
        raise kind(where, f"it refuses {', '.join(sorted(error.recipients))}") from error
    except TimeoutError as error:
        raise UndeliveredError(where, f"no answer within {channel.timeout_s:g} s") from error
    except (OSError, smtplib.SMTPException) as error:
        raise UndeliveredError(where, type(error).__name__) from error
    if refused:
        raise RejectedError(where, f"it refuses {', '.join(sorted(refused))}, and took the others")


def _within_limit(channel: MailChannel, mail: EmailMessage) -> Refused:
    """Who of several was refused.

    In a thread, since what smtplib limits is each read, and a name's look-up not at all. One that
    does not end is left behind, and sends nothing any more unless it was about to: then the mail
    may come twice, which is better than never.

    Raises:
        TimeoutError: it was not taken in time.
    """
    taken: Future[Refused] = Future()
    given_up = Event()
    thread = Thread(target=_exchange, args=(channel, mail, taken, given_up), daemon=True)
    thread.start()
    thread.join(channel.timeout_s)
    if not taken.done():
        given_up.set()
        raise TimeoutError
    return taken.result()


def _exchange(
    channel: MailChannel, mail: EmailMessage, taken: Future[Refused], given_up: Event
) -> None:
    try:
        server = _connected(channel)
        try:
            if not given_up.is_set():
                taken.set_result(server.send_message(mail))
                with suppress(OSError, smtplib.SMTPException):  # it has the mail by now
                    server.quit()
        finally:
            server.close()
    except Exception as error:  # noqa: BLE001 — raised again where it is waited for
        taken.set_exception(error)


def _connected(channel: MailChannel) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if channel.security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            channel.host, channel.port, timeout=channel.timeout_s, context=context
        )
    else:
        server = smtplib.SMTP(channel.host, channel.port, timeout=channel.timeout_s)
    try:
        if channel.security == "starttls":
            server.starttls(context=context)
        if channel.user_env is not None and channel.password_env is not None:
            _login(server, channel.user_env, channel.password_env, named(channel))
    except BaseException:
        server.close()
        raise
    return server


def _login(server: smtplib.SMTP, user_env: str, password_env: str, where: str) -> None:
    """Log in; a refusal is final, since a password tried again and again locks an account."""
    try:
        server.login(os.environ[user_env], os.environ[password_env])
    except (smtplib.SMTPAuthenticationError, smtplib.SMTPServerDisconnected) as error:
        problem = f"it refuses the login that {user_env} and {password_env} hold"
        raise RejectedError(where, problem) from error
