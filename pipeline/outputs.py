"""A sweep's folder on disk, which is the truth: where each record lies, how it is written and read.

A cell is durable once its record is in place; the requests behind it are written first, so that a
record never points at nothing. Every write is a temporary file, an fsync and a rename inside the
same folder.

    outputs/<sweep>/
      plan.json                         the plan last run
      cells/<label>.<fingerprint>.json  one record per measured cell
      requests/<same name>.jsonl        one line per request of that cell
      requests/<same name>.companion.jsonl  the same of the baseline it was interleaved with
      rescored/<same names>.jsonl       those outputs as the plain engine scores them
      telemetry/<same name>.jsonl       the host, second by second, while the cell was measured
      references/<name>.<start>.<node>.<role>.json  baselines that bracket a node's cells
      prompts/<model>--<dataset>.jsonl  the token ids every method was given
      logs/<group>.log                  the engine's own log
      starts/<start>.json               provenance and time split of one start of the command
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pipeline.durable import OtherVersionError as OtherVersionError
from pipeline.durable import RecordError as RecordError
from pipeline.durable import WriteError as WriteError
from pipeline.durable import parsed
from pipeline.durable import read as read
from pipeline.durable import write_atomically as write_atomically
from pipeline.host.series import Sample
from pipeline.plan import Plan
from pipeline.records import (
    CellRecord,
    PassRecord,
    RequestRecord,
    RescoredOutput,
    StartRecord,
)
from pipeline.spec import Record

R = TypeVar("R", bound=Record)


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

    def write_cell(
        self,
        record: CellRecord,
        passes: Iterable[PassRecord],
        companion: Iterable[PassRecord] = (),
        series: Iterable[Sample] = (),
    ) -> None:
        """Make a cell, or a reference, durable: its requests first, then its record.

        Args:
            companion: the passes of the baseline that it was interleaved with.
            series: the host while it was measured.
        """
        self._write_lines("telemetry", cell_name(record), series)
        for name, side in ((cell_name(record), passes), (companion_name(record), companion)):
            self._write_lines("requests", name, [r for p in side for r in p.requests])
        folder = "cells" if record.role == "cell" else "references"
        path = self.folder / folder / f"{cell_name(record)}.json"
        write_atomically(path, record.model_dump_json(indent=1))

    def write_rescored(self, name: str, outputs: Iterable[RescoredOutput]) -> None:
        """Keep how the plain engine scores the outputs that lie under a name in `requests/`."""
        self._write_lines("rescored", name, outputs)

    def _write_lines(self, folder: str, name: str, records: Iterable[Record]) -> None:
        lines = [record.model_dump_json() for record in records]
        if lines:
            write_atomically(self.folder / folder / f"{name}.jsonl", "\n".join(lines) + "\n")

    def plan(self) -> Plan | None:
        """The plan last run; None where none was.

        Raises:
            RecordError: the file is not a plan of this schema.
        """
        path = self.folder / "plan.json"
        return read(path, Plan) if path.is_file() else None

    def cells(self) -> tuple[CellRecord, ...]:
        """Every cell record of this sweep, those of earlier plans included.

        Raises:
            RecordError: a file is not a cell record of this schema.
        """
        return tuple(read(path, CellRecord) for path in self._files("cells"))

    def sound_cells(self) -> tuple[tuple[CellRecord, ...], tuple[RecordError, ...]]:
        """Every cell record that is whole, and what is wrong with the others.

        Raises:
            OtherVersionError: a record is whole and of another schema; it is not half read.
        """
        sound, damaged = [], []
        for path in self._files("cells"):
            try:
                sound.append(read(path, CellRecord))
            except OtherVersionError:
                raise
            except RecordError as error:
                damaged.append(error)
        return tuple(sound), tuple(damaged)

    def set_aside(self, damaged: RecordError) -> Path:
        """Rename a damaged record, so that its cell is measured again and nothing is thrown away.

        Raises:
            WriteError: it cannot be renamed.
        """
        aside = damaged.path.with_name(f"{damaged.path.name}.damaged")
        try:
            return damaged.path.replace(aside)
        except OSError as error:
            raise WriteError(damaged.path, error) from error

    def clear_after_kill(self) -> None:
        """What is half written or still says it runs was killed: one start runs at a time."""
        for folder in (self.folder, *(f for f in self.folder.iterdir() if f.is_dir())):
            for half_written in folder.glob(".*.tmp"):
                half_written.unlink()
        for path in self._files("starts"):
            start = read(path, StartRecord)
            if start.outcome == "running":
                self.write_start(start.model_copy(update={"outcome": "interrupted"}))

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

    def references(self) -> tuple[CellRecord, ...]:
        """The baselines that bracket other cells, of all starts and nodes."""
        return tuple(read(path, CellRecord) for path in self._files("references"))

    def requests(self, name: str) -> tuple[RequestRecord, ...]:
        """The requests under a name, in the order they were measured; none for a failed cell."""
        return self._lines("requests", name, RequestRecord)

    def rescored(self, name: str) -> tuple[RescoredOutput, ...]:
        """The same outputs as the plain engine scores them; empty where none were rescored."""
        return self._lines("rescored", name, RescoredOutput)

    def series(self, name: str) -> tuple[Sample, ...]:
        """The host, second by second, while the cell of that name was measured."""
        return self._lines("telemetry", name, Sample)

    def _lines(self, folder: str, name: str, kind: type[R]) -> tuple[R, ...]:
        path = self.folder / folder / f"{name}.jsonl"
        if not path.is_file():
            return ()
        with path.open("rb") as file:
            return tuple(parsed(path, line, kind) for line in file)

    def log_path(self, group: str) -> Path:
        """Where the engine of a group logs to."""
        return self.folder / "logs" / f"{group}.log"


def cell_name(record: CellRecord) -> str:
    """A file name a person can read; the identity is the fingerprint inside the record."""
    name = f"{record.at.label.replace('/', '--')}.{record.fingerprint[:12]}"
    if record.role == "cell":
        return name
    return f"{name}.{record.start_id}.{record.node}.{record.role}"


def companion_name(record: CellRecord) -> str:
    """The name under which the baseline lies that a cell was interleaved with."""
    return f"{cell_name(record)}.companion"
