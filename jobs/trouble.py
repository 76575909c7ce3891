"""What can become of a message on its way."""

from __future__ import annotations

from pipeline.errors import InfrastructureError


class UndeliveredError(InfrastructureError):
    """A receiver that could not be reached or did not take the message.

    Args:
        where: the channel, in words that hold no secret.
        wait_s: how long the receiver asks to wait.
    """

    def __init__(self, where: str, problem: str, wait_s: float | None = None) -> None:
        super().__init__(f"the message was not delivered ({problem})", where=where)
        self.wait_s = wait_s


class RejectedError(UndeliveredError):
    """A receiver that will not take the message however often it is sent."""
