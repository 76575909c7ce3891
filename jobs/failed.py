"""What a night that could not be run has told people itself, for the alarm that comes after it.

A scheduler calls the alarm about every start that ends badly. Where that start has said why, the
alarm adds nothing, and only tries again to reach those who did not get it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from jobs.message import Message
from jobs.suite import NIGHTS, Channel
from pipeline.durable import RecordError, WriteError, read, remove, write_atomically
from pipeline.spec import Record

# The alarm follows at once, and process groups have their numbers again after a while.
_FRESH = timedelta(minutes=10)


class FailedStart(Record):
    """A start that ended before it measured anything, and said so.

    Attributes:
        at: when it was said, ISO 8601.
        invocation: what systemd calls the start; empty without it.
        group: the process group, which a script and all that it runs share.
        message: what people were told.
        missed: the channels that did not take it.
    """

    schema_version: Literal[1] = 1
    at: str
    invocation: str
    group: int
    message: Message
    missed: tuple[Channel, ...]


def leave(
    suite: str, message: Message, missed: Sequence[Channel], environment: Mapping[str, str]
) -> None:
    """Keep what was told, until the alarm takes it or another night begins.

    Raises:
        WriteError: the disk does not take it; the alarm then speaks.
    """
    failed = FailedStart(
        at=datetime.now(UTC).isoformat(),
        invocation=environment.get("INVOCATION_ID", ""),
        group=os.getpgrp(),
        message=message,
        missed=tuple(missed),
    )
    write_atomically(_path(suite), failed.model_dump_json(indent=1))


def forget(suite: str) -> None:
    """A night begins: what an earlier one said is not about it.

    Raises:
        WriteError: it cannot be removed.
    """
    remove(_path(suite))


def take(suite: str, environment: Mapping[str, str]) -> FailedStart | None:
    """What the start that the alarm is about has told; None where it said nothing."""
    path = _path(suite)
    if not path.is_file():
        return None
    # Whatever is wrong with the file, the alarm then speaks for itself.
    with suppress(RecordError, WriteError):
        failed = read(path, FailedStart)
        if _is_about(failed, environment):
            remove(path)
            return failed
    return None


def _is_about(failed: FailedStart, environment: Mapping[str, str]) -> bool:
    if datetime.now(UTC) - datetime.fromisoformat(failed.at) > _FRESH:
        return False
    if asked := environment.get("MONITOR_INVOCATION_ID", ""):
        return failed.invocation == asked
    return failed.group == os.getpgrp()


def _path(suite: str) -> Path:
    return NIGHTS / suite / "failed.json"
