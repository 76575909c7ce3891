"""One open MLflow experiment. The only module that imports MLflow, and only when a store is opened,
since the import takes seconds. It raises whatever MLflow raises.

A run is found by its tags before it is made, one that was made twice is made one again, and every
point carries the moment that its record carries, so that telling MLflow the same record twice
changes nothing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.analysis.findings import CellFinding
from pipeline.outputs import Outputs, cell_name
from pipeline.records import CellRecord, StartRecord
from pipeline.tracking import lookup, runs
from pipeline.tracking.address import probe
from pipeline.tracking.documents import Document, Entry
from pipeline.tracking.lookup import OPEN

# What MLflow would otherwise do on its own: report usage, log its migrations, draw a bar for every
# file, print an address for every run, and wait for a dead server for minutes while a sweep waits.
# Read when it is imported; a user's own settings stand.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # Of libpq, which waits for ever for a server that accepts and says nothing.
    "PGCONNECT_TIMEOUT": "10",
}
# MLflow takes 1000 entities in one call.
_BATCH = 500
# Kept of an engine's log: its end, since one that fails in a loop writes without bound.
_LOG_BYTES = 1_000_000
# A start that still says it runs, and is not the newest, was killed.
_ENDED = {"finished": "FINISHED", "failed": "FAILED"}


_Key = tuple[str, str]


class _Children(NamedTuple):
    """The cells of a start that have a run, by fingerprint and moment; `whole` are all told."""

    run_ids: dict[_Key, str]
    whole: set[_Key]


class Store:
    """The experiment of one sweep in one store.

    Args:
        uri: the store's address.
        root: where a database keeps the artifacts of a new experiment; a server knows by itself.
        outputs: the sweep's folder; its name names the experiment.
    """

    def __init__(self, uri: str, root: Path, outputs: Outputs) -> None:
        self._client = _connected(uri)
        self._outputs = outputs
        self._experiment = lookup.experiment(self._client, uri, root, outputs.folder.name)
        self._parents: dict[str, str] = {}
        self._whole: set[str] = set()
        self._children: dict[str, _Children] = {}

    def begin(self, start: StartRecord) -> str:
        """Find or make the parent run of a start; returns its run id."""
        run = self._start_run(start.start_id)
        if run is not None:
            run_id = str(run.info.run_id)
            self._whole |= set() if run.info.status == OPEN else {run_id}
        else:
            run_id = self._create(start.started_at, runs.start_tags(start))
        self._parents[start.start_id] = run_id
        # plan.json is the plan last run: it belongs to the newest start alone.
        if self._is_newest(start):
            self._attach(run_id, self._outputs.folder / "plan.json", "plan.json")
        return run_id

    def cell(self, record: CellRecord) -> None:
        """Log a cell under the start that measured it, unless it is there already."""
        known = self._known(record.start_id)
        key = record.fingerprint, record.started_at
        if key in known.whole:
            return
        # A run still open is one that a crash left half told: telling it again completes it.
        if key not in known.run_ids:
            tags = runs.cell_tags(record, self._parent(record))
            known.run_ids[key] = self._create(record.started_at, tags)
        run_id = known.run_ids[key]
        series = runs.series_points(self._outputs.series(cell_name(record)))
        points = chain(runs.cell_points(record), series)
        self._log(run_id, record.started_at, points, runs.cell_params(record))
        self._attach_files(run_id, record)
        status = "FINISHED" if record.status == "OK" else "FAILED"
        self._end(run_id, status, runs.milliseconds(record.started_at, record.measured_s))
        known.whole.add(key)

    def judged(self, finding: CellFinding, advised: bool) -> None:
        """Add a cell's verdicts to its run; they are told anew, as they depend on other cells."""
        from mlflow.entities import Metric, RunTag

        record = finding.record
        run_id = self._known(record.start_id).run_ids[record.fingerprint, record.started_at]
        when = runs.milliseconds(record.started_at)
        self._client.log_batch(
            run_id,
            metrics=[Metric(p.name, p.value, when, p.step) for p in runs.verdict_points(finding)],
            tags=[RunTag(k, v) for k, v in runs.verdict_tags(finding, advised).items()],
        )

    def finish(self, start: StartRecord, table: str, answer: str) -> None:
        """End a start's run with the table and the answer; one that may still run stays open.

        The report is that of all starts, so the newest carries it, also where it was written after
        the start had ended.
        """
        run_id = self._parents.get(start.start_id) or self.begin(start)
        if answer:
            self._client.set_tag(run_id, runs.NOTE, runs.note(start, answer))
        if self._is_newest(start):
            self._attach_report(run_id)
        if run_id in self._whole:
            return
        if table:
            self._client.log_text(run_id, table, "table.md")
        start_file = self._outputs.folder / "starts" / f"{start.start_id}.json"
        self._attach(run_id, start_file, "start.json")
        self._client.set_tag(run_id, "outcome", start.outcome)
        if start.outcome == "running" and self._is_newest(start):
            return
        self._log(run_id, start.started_at, runs.start_points(start), {})
        status = _ENDED.get(start.outcome, "KILLED")
        wall_s = start.split.wall_s if start.split else 0.0
        self._end(run_id, status, runs.milliseconds(start.started_at, wall_s))
        # What was made twice just now is found once the store is asked again.
        self._start_run(start.start_id)
        self._children.pop(start.start_id, None)
        self._known(start.start_id)

    def _start_run(self, start_id: str) -> Any | None:
        """The run of a start, which has all cells of that start for children; None without one."""
        found = self._search(f"tags.role = 'start' and tags.start_id = '{start_id}'")
        if len(found) > 1:
            kept = min(found, key=lookup.rank)
            for child in self._cell_runs(start_id):
                self._client.set_tag(child.info.run_id, runs.PARENT, kept.info.run_id)
        return lookup.one(self._client, found) if found else None

    def _cell_runs(self, start_id: str) -> list[Any]:
        return self._search(f"tags.role = 'cell' and tags.start_id = '{start_id}'")

    def _is_newest(self, start: StartRecord) -> bool:
        starts = self._outputs.starts()
        return not starts or starts[-1].start_id == start.start_id

    def _parent(self, record: CellRecord) -> str:
        start_id = record.start_id
        if start_id not in self._parents:
            starts = {s.start_id: s for s in self._outputs.starts()}
            lost = runs.lost_start(record, self._outputs.folder.name)
            run_id = self.begin(starts.get(start_id, lost))
            if start_id not in starts and run_id not in self._whole:
                self._client.set_tag(run_id, runs.NOTE, "The record of this start is damaged.")
                self._end(run_id, "KILLED", runs.milliseconds(record.started_at))
        return self._parents[start_id]

    def _known(self, start_id: str) -> _Children:
        if start_id not in self._children:
            by_key: dict[_Key, list[Any]] = defaultdict(list)
            for run in self._cell_runs(start_id):
                by_key[run.data.tags[runs.FINGERPRINT], run.data.tags[runs.STARTED]].append(run)
            kept = {key: lookup.one(self._client, found) for key, found in by_key.items()}
            self._children[start_id] = _Children(
                {key: run.info.run_id for key, run in kept.items()},
                {key for key, run in kept.items() if run.info.status != OPEN},
            )
        return self._children[start_id]

    def _search(self, query: str) -> list[Any]:
        return list(lookup.found(self._client, self._experiment, query))

    def _create(self, started_at: str, tags: dict[str, str]) -> str:
        moment = runs.milliseconds(started_at)
        run = self._client.create_run(self._experiment, start_time=moment, tags=tags)
        return str(run.info.run_id)

    def _log(
        self, run_id: str, moment: str, points: Iterator[runs.Point], params: dict[str, str]
    ) -> None:
        from mlflow.entities import Metric, Param

        when = runs.milliseconds(moment)
        metrics = [Metric(p.name, p.value, when, p.step) for p in points]
        self._client.log_batch(run_id, params=[Param(k, v) for k, v in params.items()])
        for first in range(0, len(metrics), _BATCH):
            self._client.log_batch(run_id, metrics=metrics[first : first + _BATCH])

    def _attach_files(self, run_id: str, record: CellRecord) -> None:
        folder, name = self._outputs.folder, cell_name(record)
        self._attach(run_id, folder / "cells" / f"{name}.json", "cell.json")
        self._attach(run_id, folder / "requests" / f"{name}.jsonl", "requests.jsonl")
        self._attach(run_id, folder / "telemetry" / f"{name}.jsonl", "telemetry.jsonl")
        log = self._outputs.log_path(record.log or record.group)
        if record.status == "FAILED" and log.is_file():
            self._client.log_text(run_id, _end_of(log), "engine.log")

    def _attach_report(self, run_id: str) -> None:
        folder = self._outputs.folder
        for path in (folder / "report.md", folder / "report.html", *folder.glob("figures/*.svg")):
            self._attach(run_id, path, path.relative_to(folder).as_posix())

    def _attach(self, run_id: str, path: Path, name: str) -> None:
        """Under the same name in every run, so that MLflow can show them side by side."""
        if path.is_file():
            self._client.log_text(run_id, path.read_text(encoding="utf-8"), name)

    def _end(self, run_id: str, status: str, moment: int) -> None:
        self._client.set_terminated(run_id, status=status, end_time=moment)


class Ledger:
    """Documents kept for good beside the runs of an experiment, each a small run of its own."""

    def __init__(self, uri: str, root: Path, experiment: str) -> None:
        self._client = _connected(uri)
        self._experiment = lookup.experiment(self._client, uri, root, experiment)

    def write(self, entry: Entry) -> None:
        """Keep an entry; one of the same role and key is replaced."""
        key = f"tags.role = '{entry.role}' and tags.key = '{entry.key}'"
        earlier = list(lookup.found(self._client, self._experiment, key))
        moment = runs.milliseconds(entry.at)
        if earlier:
            run_id = str(lookup.one(self._client, earlier).info.run_id)
        else:
            tags = {runs.NAME: entry.title, "role": entry.role, "key": entry.key}
            run = self._client.create_run(self._experiment, start_time=moment, tags=tags)
            run_id = str(run.info.run_id)
        for name, value in {**entry.tags, runs.NAME: entry.title}.items():
            self._client.set_tag(run_id, name, value)
        for name, text in entry.texts.items():
            self._client.log_text(run_id, text, name)
        self._client.set_terminated(run_id, end_time=moment)

    def read(self, role: str, tags: dict[str, str], name: str, newest: int) -> Iterator[Document]:
        """One text of each entry that carries the tags, the newest first."""
        wanted = {"role": role, **tags}
        query = " and ".join(f"tags.{tag} = '{value}'" for tag, value in wanted.items())
        order = ["attributes.start_time DESC"]
        for run in islice(lookup.found(self._client, self._experiment, query, order), newest):
            if run.info.status != OPEN:
                yield lookup.document(self._client, run, name)


def _connected(uri: str) -> Any:
    """MLflow's client on a store that is there."""
    probe(uri)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    return MlflowClient(uri)


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        return file.read().decode("utf-8", errors="replace")
