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
      logs/<group>.log                  the engine's own log; attempts and references have theirs
      starts/<start>.json               provenance and time split of one start of the command
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pipeline.durable import DamagedError as DamagedError
from pipeline.durable import OtherVersionError as OtherVersionError
from pipeline.durable import RecordError as RecordError
from pipeline.durable import UnreadableError as UnreadableError
from pipeline.durable import WriteError as WriteError
from pipeline.durable import read as read
from pipeline.durable import read_lines, remove
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


def refuse(damaged: DamagedError) -> None:
    """End what reads a damaged record."""
    raise damaged


class Outputs:
    """The folder of one sweep. The driver alone writes to it.

    What lies there and cannot be read, or is of another version, raises a RecordError.

    Args:
        damaged: told of each record that is damaged, which is then taken as missing.
    """

    def __init__(
        self, root: Path, sweep: str, damaged: Callable[[DamagedError], None] = refuse
    ) -> None:
        self.folder = root / sweep
        self._damaged = damaged

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

        Scores of outputs that it replaces go before them.

        Args:
            companion: the passes of the baseline that it was interleaved with.
            series: the host while it was measured.
        """
        for name in (cell_name(record), companion_name(record)):
            remove(self.folder / "rescored" / f"{name}.jsonl")
        self._write_lines("telemetry", cell_name(record), series)
        for name, side in ((cell_name(record), passes), (companion_name(record), companion)):
            self._write_lines("requests", name, [r for p in side for r in p.requests])
        write_atomically(self._place(record), record.model_dump_json(indent=1))

    def remove(self, name: str) -> None:
        """Take a file of the sweep's folder away, where it is there."""
        remove(self.folder / name)

    def write_rescored(self, name: str, outputs: Iterable[RescoredOutput]) -> None:
        """Keep how the plain engine scores the outputs that lie under a name in `requests/`."""
        self._write_lines("rescored", name, outputs)

    def _write_lines(self, folder: str, name: str, records: Iterable[Record]) -> None:
        """Write the lines of a cell; without any, those of an earlier start are none of it."""
        lines = [record.model_dump_json() for record in records]
        path = self.folder / folder / f"{name}.jsonl"
        if lines:
            write_atomically(path, "\n".join(lines) + "\n")
        else:
            remove(path)

    def plan(self) -> Plan | None:
        """The plan last run; None where none was."""
        path = self.folder / "plan.json"
        return next(self._whole([path], Plan), None) if path.is_file() else None

    def cells(self) -> tuple[CellRecord, ...]:
        """Every cell record of this sweep, those of earlier plans included."""
        return tuple(self._whole(self._files("cells"), CellRecord))

    def clear_after_kill(self) -> None:
        """What is half written or still says it runs was killed: one start runs at a time."""
        for folder in (self.folder, *(f for f in self.folder.iterdir() if f.is_dir())):
            for half_written in folder.glob(".*.tmp"):
                half_written.unlink()
        for start in self.starts():
            if start.outcome == "running":
                self.write_start(start.model_copy(update={"outcome": "interrupted"}))

    def starts(self) -> tuple[StartRecord, ...]:
        """The records of all starts, oldest first."""
        return tuple(self._whole(self._files("starts"), StartRecord))

    def damaged_starts(self) -> frozenset[str]:
        """The starts whose records were set aside."""
        found = (self.folder / "starts").glob("*.json.damaged")
        return frozenset(path.name.removesuffix(".json.damaged") for path in found)

    def _place(self, record: CellRecord) -> Path:
        folder = "cells" if record.role == "cell" else "references"
        return self.folder / folder / f"{cell_name(record)}.json"

    def _whole(self, paths: Iterable[Path], kind: type[R]) -> Iterator[R]:
        for path in paths:
            try:
                yield read(path, kind)
            except DamagedError as error:
                self._damaged(error)

    def _files(self, kind: str) -> list[Path]:
        folder = self.folder / kind
        try:
            if folder.exists() and not folder.is_dir():
                raise RecordError(folder, "it is not a folder")
        except OSError as error:
            raise UnreadableError(folder, error) from error
        return sorted(folder.glob("*.json"))

    def references(self) -> tuple[CellRecord, ...]:
        """The baselines that bracket other cells, of all starts and nodes."""
        return tuple(self._whole(self._files("references"), CellRecord))

    def is_ok(self, record: CellRecord) -> bool:
        """Whether what lies where a record would be written is OK."""
        path = self._place(record)
        found = next(self._whole([path], CellRecord), None) if path.is_file() else None
        return found is not None and found.status == "OK"

    def names(self, folder: str) -> frozenset[str]:
        """The names under which something lies in `requests/` or `rescored/`."""
        return frozenset(path.stem for path in (self.folder / folder).glob("*.jsonl"))

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
        try:
            return read_lines(self.folder / folder / f"{name}.jsonl", kind)
        except DamagedError as error:
            self._damaged(error)
            return ()

    def log_path(self, name: str) -> Path:
        """Where an engine's log lies."""
        return self.folder / "logs" / f"{name}.log"


def cell_name(record: CellRecord) -> str:
    """A file name a person can read; the identity is the fingerprint inside the record."""
    name = f"{record.at.label.replace('/', '--')}.{record.fingerprint[:12]}"
    if record.role == "cell":
        return name
    return f"{name}.{record.start_id}.{record.node}.{record.role}"


def companion_name(record: CellRecord) -> str:
    """The name under which the baseline lies that a cell was interleaved with."""
    return f"{cell_name(record)}.companion"
