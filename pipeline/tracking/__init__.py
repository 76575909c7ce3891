"""MLflow as a sink of the records on disk: an experiment per sweep, a parent run per start of the
command, a child run per cell. A sweep never waits for a store that is down, since all of it can be
told again:

    python -m pipeline.tracking replay outputs/spec_methods [uri=sqlite:///elsewhere.db]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipeline.analysis.answer import answer_markdown
from pipeline.analysis.findings import Findings
from pipeline.analysis.judging import find
from pipeline.console import table_markdown
from pipeline.errors import InfrastructureError, InputError
from pipeline.evidence import gather
from pipeline.outputs import Outputs
from pipeline.records import CellRecord, StartRecord
from pipeline.tracking.address import default_root, store_uri
from pipeline.tracking.store import Store

__all__ = ["Tracker", "TrackingError", "replay", "store_uri"]


class TrackingError(InfrastructureError):
    """The store did not take a record; the records on disk are whole."""

    def __init__(self, uri: str, cause: Exception, folder: Path) -> None:
        elsewhere = "" if uri == store_uri(None) else f" uri={uri}"
        first = (str(cause).strip() or "no reason given").splitlines()[0]
        super().__init__(
            f"MLflow did not take the records ({type(cause).__name__}:"
            f" {first}), which are whole on disk",
            where=uri,
            remedy=f"once it is back, run python -m pipeline.tracking replay {folder}{elsewhere}",
        )


class Tracker:
    """The sink that a sweep feeds as it goes; no method raises for what the store does.

    The first failure closes the sink for the rest of the sweep, so that a dead store costs one
    timeout and not one per cell. `problem` then holds the sentence to print at the end. The first
    call takes some seconds, for the import of MLflow and a new database.

    Args:
        outputs: the sweep's folder; its name is the experiment's.
        uri: the store, or None for SQLite under `root`.
        enabled: False makes every method do nothing.
        root: the folder of the default store and of artifacts; `./mlruns` where None.

    Raises:
        StoreUriError: `uri` is of no kind that MLflow keeps runs in.
    """

    def __init__(
        self, outputs: Outputs, uri: str | None, *, enabled: bool = True, root: Path | None = None
    ) -> None:
        self._outputs, self._root = outputs, root or default_root()
        self._uri = store_uri(uri, self._root)
        self._store: Store | None = None
        self.enabled = enabled
        self.problem: TrackingError | None = None

    def begin(self, start: StartRecord) -> None:
        """Make the start's parent run, with its question, plan and provenance."""
        self._guarded(lambda store: store.begin(start))

    def cell(self, record: CellRecord) -> None:
        """Log a cell as a child of the start that measured it, unless it is there already."""
        self._guarded(lambda store: store.cell(record))

    def judged(self, findings: Findings) -> None:
        """Add verdicts to the runs of cells, and which of them are advised."""
        advised = {
            (one.model, one.dataset, one.concurrency, one.use.method, one.use.k)
            for one in findings.advice
            if one.use is not None
        }
        for cell in findings.cells:
            at = cell.record.at
            place = (at.model, at.dataset, at.concurrency, at.method, at.k)
            self._guarded(partial(Store.judged, finding=cell, advised=place in advised))

    def finish(self, start: StartRecord, *, table: str = "", answer: str = "") -> None:
        """End the parent run with the time split, the table and the answer (both Markdown), and
        the newest with the report as it lies in the sweep's folder.
        """
        self._guarded(lambda store: store.finish(start, table, answer))

    def failed(self, error: Exception) -> TrackingError:
        """The sentence for what a store did."""
        return TrackingError(self._uri, error, self._outputs.folder)

    def _guarded(self, action: Callable[[Store], object]) -> None:
        if not self.enabled or self.problem is not None:
            return
        try:
            self._store = self._store or Store(self._uri, self._root, self._outputs)
            action(self._store)
        # Whatever a sink does, the measurement goes on: it is reported, and replayed from disk.
        except Exception as error:  # noqa: BLE001
            self.problem = self.failed(error)


def replay(outputs: Outputs, uri: str | None = None, root: Path | None = None) -> int:
    """Tell MLflow every record of a sweep; what it knows already is left as it is.

    Returns:
        The number of cells on disk.

    Raises:
        InputError: the record of a start is missing, though not set aside as damaged, or the
            address is no store.
        RecordError: a record on disk cannot be read.
        TrackingError: the store cannot be reached, or refuses.
    """
    starts, cells = outputs.starts(), outputs.cells()
    _check(outputs, starts, cells)
    tracker = Tracker(outputs, uri, root=root)
    plan = outputs.plan()
    asked = [cell.fingerprint for cell in plan.cells] if plan else None
    findings = find(gather(outputs, asked))
    for number, start in enumerate(starts, 1):
        so_far = {earlier.start_id for earlier in starts[:number]}
        tracker.begin(start)
        for cell in cells:
            if cell.start_id == start.start_id:
                tracker.cell(cell)
        tracker.finish(
            start,
            table=table_markdown([c for c in cells if c.start_id in so_far]),
            answer=answer_markdown(findings) if start is starts[-1] else "",
        )
    known = {start.start_id for start in starts}
    for cell in (c for c in cells if c.start_id not in known):
        tracker.cell(cell)
    tracker.judged(findings)
    if tracker.problem is not None:
        raise tracker.problem
    return len(cells)


def _check(outputs: Outputs, starts: Sequence[StartRecord], cells: Sequence[CellRecord]) -> None:
    if not starts and not cells:
        raise InputError(
            "no start of a sweep is recorded here",
            where=str(outputs.folder),
            remedy="give the folder of a sweep, such as outputs/spec_methods",
        )
    lost = {cell.start_id for cell in cells} - {start.start_id for start in starts}
    lost -= outputs.damaged_starts()
    if lost:
        raise InputError(
            f"cells were measured by the start {min(lost)}, whose record is missing",
            where=str(outputs.folder / "starts"),
            remedy="bring the file back",
        )
