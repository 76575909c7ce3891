"""Where a suite's nights lie on disk, and what is there of the one that goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.outputs import DamagedError, Outputs, RecordError

# A night that ended before it was judged goes on within this time; later it would be two nights.
RESUME_H = 12
ID = "%Y%m%dT%H%M%S"
# In a night's folder: that it was judged.
DONE = "judged"
# Its first round; others are further starts, and what was measured again.
FIRST = "first"


def nights(root: Path) -> list[Path]:
    """The folders of a suite's nights, the oldest first; what people put beside them is theirs."""
    return sorted(path for path in root.glob("*T*") if path.is_dir() and _is_night(path.name))


def unfinished(root: Path, now: datetime) -> str | None:
    """The newest night, where it began lately and was not judged."""
    there = nights(root)
    if not there or (there[-1] / DONE).exists():
        return None
    name = there[-1].name
    return name if now - began(name) < timedelta(hours=RESUME_H) else None


def began(name: str) -> datetime:
    """When the night of that name began."""
    return datetime.strptime(name, ID).replace(tzinfo=UTC)


def rounds(night: Path, sweep: str, damaged: Callable[[DamagedError], None]) -> tuple[Outputs, ...]:
    """The records of every round of a night.

    Args:
        damaged: told of each record that cannot be read.
    """
    return tuple(Outputs(path, sweep, damaged) for path in night.glob("*") if path.is_dir())


def measured_in(outputs: Outputs) -> frozenset[str]:
    """Fingerprints of the cells that a round has measured; what is unreadable is told by others."""
    with suppress(RecordError):
        return frozenset(record.fingerprint for record in outputs.cells())
    return frozenset()


def taken_s(night: Path, sweep: str) -> float:
    """Seconds that a night's starts of the sweep took; of one that was killed, its cells alone."""
    taken = 0.0
    for outputs in rounds(night, sweep, lambda _: None):
        with suppress(RecordError):
            splits = {start.start_id: start.split for start in outputs.starts()}
            taken += sum(split.wall_s for split in splits.values() if split is not None)
            cells = [cell for cell in outputs.cells() if splits.get(cell.start_id) is None]
            taken += sum(cell.measured_s for cell in cells)
    return taken


def _is_night(name: str) -> bool:
    # Written again, since dates are also read where digits are missing.
    with suppress(ValueError):
        return datetime.strptime(name, ID).strftime(ID) == name
    return False
