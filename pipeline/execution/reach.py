"""Whether there is a cluster, told within seconds and with what to do where there is none."""

from __future__ import annotations

import re
import socket

from pipeline.errors import InfrastructureError

_CONNECT_S = 5.0


class ClusterError(InfrastructureError):
    """Ray cannot be reached, or cannot start here."""

    def __init__(self, address: str | None, error: Exception) -> None:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        remedy = "start one with 'ray start --head', or leave ray.address null to have one here"
        if address is None:
            remedy = "try again when the machine is less busy; Ray's logs are in /tmp/ray"
        if "auth" in f"{error.__cause__}".lower():
            remedy = "it asks for a token: set RAY_AUTH_MODE=token, and where the token is not in"
            remedy += " this home, RAY_AUTH_TOKEN_PATH to its file"
        super().__init__(
            f"no Ray cluster ({first[:200]})",
            where=f"ray.address {address}" if address else "ray",
            remedy=remedy,
        )


class TaskLostError(InfrastructureError):
    """Ray lost a short task twice."""

    def __init__(self, what: str, why: str) -> None:
        last = (why.strip().splitlines() or ["no reason given"])[-1]
        super().__init__(
            f"no node could look at it ({last[:200]})",
            where=what,
            remedy="see that the nodes are up and hold what the sweep names",
        )


class ClusterLostError(InfrastructureError):
    """Ray's own processes here ended while a task was waited for, and again once restarted."""

    def __init__(self, what: str) -> None:
        super().__init__(
            "Ray's own processes on this machine end again and again",
            where=what,
            remedy="see what ends the process raylet; the same command goes on then",
        )


def reach(address: str | None) -> None:
    """Find out within seconds that nothing listens at an address; Ray itself tries for minutes.

    Raises:
        OSError: nothing does.
    """
    match = re.fullmatch(r"(?:ray://)?(\[[^]]+\]|[^/:]+):(\d+)", address or "")
    if match:
        host, port = match.group(1).strip("[]"), int(match.group(2))
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
