"""A node's own reference, kept on the node: what its GPU has sustained when all was well."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_state_dir
from pydantic import ValidationError

from pipeline.host.series import TelemetrySummary
from pipeline.host.throttling import Reference, throttled

# A start-up transient is no sustained clock.
_LEAST_S, _LEAST_SAMPLES = 10.0, 10


def reference_file() -> Path:
    """By node name, since a home folder may be shared."""
    return (
        Path(user_state_dir("spec-decode-pipeline")) / "reference" / f"{socket.gethostname()}.json"
    )


def load(gpu: str | None, driver: str | None) -> Reference | None:
    """The reference of this GPU under this driver; None where there is none that can be read."""
    try:
        found = Reference.model_validate_json(reference_file().read_bytes())
    except (OSError, ValidationError):
        return None
    return found if (found.gpu, found.driver) == (gpu, driver) else None


def remember(summary: TelemetrySummary, gpu: str | None, driver: str | None) -> Reference | None:
    """Take a sound interval up into the node's reference, and return what the reference is now.

    The highest sustained clock stays: a reference that followed the last measurement would follow a
    slow decline down. An interval that is short or itself throttled changes nothing.
    """
    known = load(gpu, driver)
    clock = summary.sm_clock_mhz
    short = summary.seconds < _LEAST_S or summary.samples < _LEAST_SAMPLES
    if gpu is None or clock is None or short or throttled(summary, known) is not None:
        return known
    if known is not None and known.sm_clock_mhz >= clock.median:
        return known
    new = Reference(
        gpu=gpu,
        driver=driver,
        sm_clock_mhz=clock.median,
        power_w=summary.power_w,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write(new)
    return new


def _write(reference: Reference) -> None:
    # Only a memory: where it cannot be kept, the next sound measurement makes another.
    file = reference_file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(reference.model_dump_json(indent=1))
        temporary.replace(file)
