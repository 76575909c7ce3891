"""What tonight would be, shown to whoever asks; nothing is measured, and nobody is told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.measuring import Measuring
from jobs.suite import Suite
from pipeline.commandline import split
from pipeline.config import read_command_line
from pipeline.console import console_for
from pipeline.execution.host import detect_platform

# What a switch is turned off with.
_OFF = ("false", "f", "no", "n", "off", "0")


def asked(extra: Sequence[str]) -> bool:
    """Whether a night's further arguments want something shown."""
    given = split(extra)
    dry = [value for key, _, value in (w.partition("=") for w in given.overrides) if _is_dry(key)]
    return bool(given.show) or (bool(dry) and dry[-1].lower() not in _OFF)


def preview(suite: Suite, extra: Sequence[str]) -> None:
    """Show the night's plan, its hours and what they leave out, or what `--cfg` asks for.

    Raises:
        PipelineError: the night could not be run.
    """
    if split(extra).show:
        read_command_line([*suite.command, *extra], detect_platform)
        return
    lines = Measuring(suite, extra, datetime.now(UTC), shown=True).show()
    console_for(sys.stdout).print("\n".join(lines), soft_wrap=True)


def _is_dry(key: str) -> bool:
    return key.lstrip("+") == "dry_run"
