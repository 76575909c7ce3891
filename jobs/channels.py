"""Where messages go: the console, a folder, a webhook, a mail server. Each is tried a few times,
within a time limit, and whatever goes wrong with one is a sentence and never stops the others.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from jobs import mail, webhook
from jobs.findings import NightVerdict
from jobs.junit import junit, without_verdict
from jobs.message import Message, markdown, plain
from jobs.page import html
from jobs.suite import Channel, ConsoleChannel, FileChannel, MailChannel, Suite, WebhookChannel
from jobs.trouble import RejectedError, UndeliveredError
from pipeline.console import console_for
from pipeline.errors import InputError, PipelineError
from pipeline.outputs import write_atomically

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class MissingVariableError(InputError):
    """A channel whose address or password is not in the environment."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(
            f"the environment variable {name} is not set",
            where=where,
            remedy=f"set {name} where the job runs, or remove the channel from the suite",
        )


def check(suite: Suite, environment: Mapping[str, str] = os.environ) -> None:
    """Find out before the night is measured whether its message could be sent.

    Raises:
        MissingVariableError: a channel's variable is not set.
    """
    for channel in suite.tell:
        _check(channel, f"suite {suite.name}: tell", environment)


def tell(
    channels: Sequence[Channel],
    message: Message,
    verdict: NightVerdict | None,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Give everybody a message; returns a sentence for each channel that did not take it.

    Args:
        verdict: None for a night that has none, since it could not be run.
    """
    problems = []
    for channel in channels:
        try:
            _check(channel, _named(channel), os.environ)
            _with_patience(channel, partial(_send, channel, message, verdict), sleep)
        except PipelineError as error:
            problems.append(str(error))
        # Of a console that nobody reads any more Rich exits.
        except (Exception, SystemExit) as error:  # noqa: BLE001 — the others are still to be told
            reason = type(error).__name__  # its text may hold a secret
            problems.append(str(UndeliveredError(_named(channel), reason)))
    return tuple(problems)


def always(suite: Suite) -> tuple[Channel, ...]:
    """The channels that get every night: what nobody is woken by."""
    return tuple(c for c in suite.tell if isinstance(c, ConsoleChannel | FileChannel))


def people(suite: Suite) -> tuple[Channel, ...]:
    """The channels that get a night only when there is something to say."""
    return tuple(c for c in suite.tell if not isinstance(c, ConsoleChannel | FileChannel))


def _check(channel: Channel, where: str, environment: Mapping[str, str]) -> None:
    for name in webhook.variables(channel) + mail.variables(channel):
        if not environment.get(name):
            raise MissingVariableError(where, name)


def _named(channel: Channel) -> str:
    match channel:
        case ConsoleChannel():
            return "console"
        case FileChannel():
            return f"folder {channel.folder}"
        case WebhookChannel():
            return webhook.named(channel)
        case MailChannel():
            return mail.named(channel)


def _send(channel: Channel, message: Message, verdict: NightVerdict | None) -> None:
    if isinstance(channel, ConsoleChannel):
        console_for(sys.stdout).print(plain(message), soft_wrap=True, end="")
    elif isinstance(channel, FileChannel):
        _write(Path(channel.folder), message, verdict)
    elif isinstance(channel, WebhookChannel):
        webhook.post(channel, webhook.payload(channel.shape, message, verdict))
    else:
        mail.send(channel, message, verdict)


def _write(folder: Path, message: Message, verdict: NightVerdict | None) -> None:
    """What programs read comes first, so that no drawing that fails leaves an older night's."""
    write_atomically(folder / "message.md", markdown(message))
    if verdict is None:
        write_atomically(folder / "junit.xml", without_verdict(message))
        (folder / "verdict.json").unlink(missing_ok=True)
    else:
        write_atomically(folder / "junit.xml", junit(verdict))
        write_atomically(folder / "verdict.json", verdict.model_dump_json(indent=1) + "\n")
    write_atomically(folder / "message.html", html(message, verdict))


def _with_patience(
    channel: Channel, send: Callable[[], None], sleep: Callable[[float], None]
) -> None:
    """Try again after a pause that doubles, unless the receiver named one or refused for good."""
    tries = getattr(channel, "tries", 1)
    for number in range(1, tries + 1):
        try:
            send()
        except RejectedError:
            raise
        except UndeliveredError as error:
            if number == tries:
                raise
            pause = error.wait_s if error.wait_s is not None else _FIRST_PAUSE_S * 2 ** (number - 1)
            sleep(min(pause, _LONGEST_PAUSE_S))
        else:
            return
