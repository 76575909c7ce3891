"""What a sweep leaves on disk: the records, where they lie, and how they are written and read.

Disk is the truth. A cell is durable once its record is in place; the requests behind it are written
first, so that a record never points at nothing. Every write is a temporary file, an fsync and a
rename inside the same folder.

    outputs/<sweep>/
      plan.json                         the plan last run
      cells/<label>.<fingerprint>.json  one record per measured cell
      requests/<same name>.jsonl        one line per request of that cell
      prompts/<model>--<dataset>.jsonl  the token ids every method was given
      logs/<group>.log                  the engine's own log
      starts/<start>.json               provenance and time split of one start of the command
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from pipeline.errors import InfrastructureError
from pipeline.plan import Coordinates, Plan
from pipeline.spec import Record

CELL_SCHEMA: Literal[1] = 1

# What a cell can end as; only OK cells enter comparisons.
Status = Literal[
    "OK", "NOOP_NOT_CONFIGURED", "NOOP_NO_DRAFTS", "NOOP_NO_ACCEPT", "SUSPECT", "FAILED"
]

R = TypeVar("R", bound=Record)


class RequestRecord(Record):
    """One request of a measured pass; times are seconds since the pass began, on engine clocks.

    Attributes:
        chunk_s: when each chunk of tokens came out, one chunk per verification step.
        chunk_tokens: tokens in each chunk; their sum is the number of output tokens.
        drafted: tokens drafted at each step that drafted; None where the engine does not tell.
        accepted: drafted tokens accepted at the same steps, before truncation at the end.
    """

    prompt_id: str
    category: str
    repeat: int
    prompt_tokens: int
    output_token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    sent_s: float
    chunk_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    drafted: tuple[int, ...] | None
    accepted: tuple[int, ...] | None


class CounterDelta(Record):
    """What the engine's own counters moved by during one pass."""

    drafts: int
    drafted: int
    accepted: int
    accepted_per_position: tuple[int, ...]


class PassRecord(Record):
    """One pass over a cell's prompts; `counters` is None where the engine has no such series."""

    repeat: int
    wall_s: float
    requests: tuple[RequestRecord, ...]
    counters: CounterDelta | None


class Summary(Record):
    """A number, its spread (median absolute deviation, same unit), and of how many values."""

    value: float
    spread: float
    n: int


class Counts(Record):
    """Totals over all repeats of a cell: see `pipeline.analysis.metrics` for the letters."""

    requests: int
    output_tokens: int
    drafts: int
    drafted: int
    accepted: int
    accepted_per_position: tuple[int, ...]
    truncated: int


class Failure(Record):
    """Why a cell has no measurement: a class, a sentence, and the end of the engine's log.

    Attributes:
        cause: what the log most likely means, and what to do about it; empty where nobody knows.
    """

    kind: str
    message: str
    log_tail: tuple[str, ...] = ()
    cause: str = ""


class EngineContext(Record):
    """Where and with what a cell was measured; context, never part of its fingerprint."""

    node: str
    vllm_version: str
    engine_start_s: float
    checkpoint: str
    drafter: str | None
    preloaded: tuple[str, ...]
    serve_command: str


class CellRecord(Record):
    """One cell, durable. Summaries are by metric name; per-repeat values stand beside them.

    Attributes:
        role: `opening` and `closing` are a baseline's cells measured again as references.
        node: where it was tried, also when no engine started there; None in older records.
        earlier: why earlier attempts in the same start were lost.
    """

    schema_version: Literal[1] = CELL_SCHEMA
    fingerprint: str
    at: Coordinates
    status: Status
    status_reason: str = ""
    start_id: str
    group: str
    role: Literal["cell", "opening", "closing"] = "cell"
    node: str | None = None
    attempt: int = 1
    earlier: tuple[Failure, ...] = ()
    started_at: str
    measured_s: float = 0.0
    context: EngineContext | None = None
    counts: Counts | None = None
    metrics: dict[str, Summary] = Field(default_factory=dict)
    per_repeat: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    failure: Failure | None = None


class TimeSplit(Record):
    """Where a start's wall time went, in seconds; overlapping work on several nodes counts once."""

    wall_s: float
    engine_start_s: float
    generation_s: float

    @property
    def other_s(self) -> float:
        """Time in neither an engine start nor generation."""
        return max(0.0, self.wall_s - self.engine_start_s - self.generation_s)


class StartRecord(Record):
    """One start of the command on a sweep: what was asked, with what, on what, and how it went."""

    schema_version: Literal[1] = 1
    start_id: str
    sweep: str
    started_at: str
    command: tuple[str, ...]
    git_commit: str | None
    packages: dict[str, str]
    host: dict[str, JsonValue]
    config: dict[str, JsonValue]
    outcome: Literal["running", "finished", "interrupted", "failed"] = "running"
    engine_starts: int = 0
    split: TimeSplit | None = None
    driver_peak_bytes: int | None = None


class RecordError(InfrastructureError):
    """A record on disk that cannot be read as what it should be."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            problem, where=str(path), remedy="move it away and start the same command again"
        )


class WriteError(InfrastructureError):
    """A record that the disk did not take."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"it cannot be written ({error.strerror})",
            where=str(path),
            remedy="make room or correct the folder's rights, and start the same command again",
        )


class Outputs:
    """The folder of one sweep. The driver alone writes to it."""

    def __init__(self, root: Path, sweep: str) -> None:
        self.folder = root / sweep

    def write_plan(self, plan: Plan) -> None:
        """Replace `plan.json`."""
        write_atomically(self.folder / "plan.json", plan.model_dump_json(indent=1))

    def write_start(self, start: StartRecord) -> None:
        """Write or replace the record of one start of the command."""
        path = self.folder / "starts" / f"{start.start_id}.json"
        write_atomically(path, start.model_dump_json(indent=1))

    def write_cell(self, record: CellRecord, passes: Iterable[PassRecord]) -> None:
        """Make a cell durable: its requests first, then its record."""
        name = cell_name(record)
        lines = [r.model_dump_json() for p in passes for r in p.requests]
        if lines:
            write_atomically(self.folder / "requests" / f"{name}.jsonl", "\n".join(lines) + "\n")
        write_atomically(self.folder / "cells" / f"{name}.json", record.model_dump_json(indent=1))

    def cells(self) -> tuple[CellRecord, ...]:
        """Every cell record of this sweep, those of earlier plans included.

        Raises:
            RecordError: a file is not a cell record of this schema.
        """
        return tuple(read(path, CellRecord) for path in self._files("cells"))

    def starts(self) -> tuple[StartRecord, ...]:
        """The records of all starts, oldest first."""
        return tuple(read(path, StartRecord) for path in self._files("starts"))

    def _files(self, kind: str) -> list[Path]:
        folder = self.folder / kind
        try:
            if folder.exists() and not folder.is_dir():
                raise RecordError(folder, "it is not a folder")
        except OSError as error:
            raise RecordError(folder, f"it cannot be read ({error.strerror})") from error
        return sorted(folder.glob("*.json"))

    def requests(self, record: CellRecord) -> tuple[RequestRecord, ...]:
        """The requests behind a cell, in the order they were measured; empty for a failed cell."""
        path = self.folder / "requests" / f"{cell_name(record)}.jsonl"
        if not path.is_file():
            return ()
        with path.open(encoding="utf-8") as file:
            return tuple(RequestRecord.model_validate_json(line) for line in file)

    def log_path(self, group: str) -> Path:
        """Where the engine of a group logs to."""
        return self.folder / "logs" / f"{group}.log"


def cell_name(record: CellRecord) -> str:
    """A file name a person can read; the identity is the fingerprint inside the record."""
    return f"{record.at.label.replace('/', '--')}.{record.fingerprint[:12]}"


def read(path: Path, kind: type[R]) -> R:
    """Read one record from a JSON file.

    Raises:
        RecordError: the file is torn, of another schema, or not such a record.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(path, f"it cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise RecordError(path, f"it is not a {kind.__name__} ({where}{first['msg']})") from error


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader, now or after a crash, sees all of it or the one before.

    Raises:
        WriteError: the disk is full, or the place cannot be written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
