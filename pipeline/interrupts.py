"""SIGTERM as an interrupt that cleans up on its way out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """SIGTERM: everything is cleaned up on the way out, as after Ctrl-C."""


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end the sweep as Ctrl-C does.

    Set once Ray has started, since Ray puts a handler of its own; and raised as an interrupt,
    since Ray's waiting calls turn whatever a handler raises into one.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
