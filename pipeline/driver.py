"""One start of a sweep in the driver: what was measured, where its time went, who is told.

The driver is the only writer. Each cell is durable before anything is shown or tracked; MLflow is
told from the moment an engine loads, because on few cores its work would be felt by a measurement,
and in a thread of its own, because it may be slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal

from pipeline import console
from pipeline.analysis.timing import Interval, split
from pipeline.assignments import Assignments
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_OK, PipelineError
from pipeline.execution import host, leftovers
from pipeline.execution.dispatch import starts
from pipeline.execution.events import (
    CellDone,
    CellLost,
    Doubted,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    LeftoversEnded,
    Rescored,
    StartDone,
)
from pipeline.execution.tokenise import tokenise
from pipeline.execution.worker import run_group
from pipeline.interrupts import sigterm_interrupts
from pipeline.outputs import Outputs, write_atomically
from pipeline.plan import EngineGroup, Plan
from pipeline.progress import Progress
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, StartRecord
from pipeline.report import HTML, MARKDOWN, Report, write_report
from pipeline.spec import SweepConfig
from pipeline.tracking import Tracker
from pipeline.tracking.background import Background
from pipeline.unfinished import Unscored

Outcome = Literal["finished", "interrupted", "failed"]
More = Callable[[], Sequence[EngineGroup]]


class Driver:
    """The state of one start: where its time went, and what is still to be tracked.

    Args:
        began: the monotonic clock's time from which everything counts as this start's. Its own
            clock times everything, since clocks differ between nodes and may jump.
    """

    def __init__(
        self,
        config: SweepConfig,
        outputs: Outputs,
        start: StartRecord,
        tracker: Tracker,
        began: float,
    ) -> None:
        self._config, self._outputs, self._start = config, outputs, start
        self._mlflow, self._began = Background(tracker), began
        self._starts: list[Interval] = []
        self._generation: list[Interval] = []
        # By place, when what it is at work on began.
        self._since: dict[str, float] = {}
        self._engines = 0
        self._missing: set[str] = set()
        self._untracked: list[CellRecord] = []
        self._taken_up = self._reported_on = False

    def measure(
        self,
        plan: Plan,
        todo: Plan,
        prompts: dict[str, PromptSet],
        expected_s: float,
        more: More,
        unscored: Unscored,
    ) -> None:
        """Run what is missing of a plan on the cluster.

        Args:
            todo: what is due now.
            more: what falls due by what was measured.
            unscored: what earlier starts measured and did not come to score.

        Raises:
            PipelineError: the cluster cannot be reached, or a model cannot be given its prompts.
            KeyboardInterrupt, Terminated: a signal; everything that was started is gone.
        """
        from pipeline.execution import scheduler  # Ray takes a second that a dry run need not pay
        from pipeline.execution.runner import Runner

        start_id = self._start.start_id
        work = Assignments(self._config, plan, todo, self._outputs, start_id, unscored)
        self._missing = {cell.fingerprint for cell in todo.cells}
        engines = starts(work.groups, work.dispatch())
        with (
            self._machine(),
            scheduler.cluster(self._config.ray, self._config.platform) as cluster,
            sigterm_interrupts(),
            self._recorded(),
        ):
            work.take(cluster.anywhere(tokenise, work.to_tokenise(prompts)))
            with console.progress(len(todo.cells), engines, expected_s) as shown:

                def due(found: More = more) -> Sequence[EngineGroup]:
                    groups = found()
                    shown.add(sum(len(group.cells) for group in groups), len(groups))
                    return groups

                take, last = partial(self._take, work, shown), partial(due, work.left_to_score)
                Runner(cluster, work.dispatch(), work.job, take, run_group, due, last).run()

    @contextmanager
    def _machine(self) -> Iterator[None]:
        """This machine, for the whole sweep and free of leftovers, where all is measured here."""
        if self._config.ray.address is not None:
            yield
            return
        with host.machine_lock(f"sweep {self._config.name}", 0.0):
            for name in leftovers.clear():
                console.warn(f"left over from an earlier run, and ended: {name}")
            yield

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Keep the start's record from its beginning to its end, however that comes."""
        self._outputs.write_start(self._start)
        outcome: Outcome = "failed"
        try:
            yield
            outcome = "finished"
        except KeyboardInterrupt:
            outcome = "interrupted"
            raise
        finally:
            self._close(outcome)

    def finish(self, plan: Plan, recorded: Sequence[CellRecord]) -> int:
        """Show, report and track the whole sweep; the exit code says whether every cell is OK."""
        fingerprints = [cell.fingerprint for cell in plan.cells]
        wanted = frozenset(fingerprints)
        records = [r for r in recorded if r.fingerprint in wanted]
        console.print_results(records, self._start.split)
        report = self._report(fingerprints)
        if report is not None:
            console.print_answer(report.answer, report.html)
        if self._taken_up or report is not None:
            self._tell_mlflow(records, report)
        bad = [r for r in records if r.status != "OK"]
        return EXIT_CELLS_FAILED if bad or len(records) < len(fingerprints) else EXIT_OK

    def _report(self, fingerprints: Sequence[str]) -> Report | None:
        """Write the report where something is new to be told; None where there is none."""
        folder = self._outputs.folder
        if not self._taken_up and all((folder / name).is_file() for name in (HTML, MARKDOWN)):
            return None
        try:
            return write_report(self._outputs, fingerprints)
        except PipelineError as error:
            # The records are whole, and the report can be made of them any time.
            console.warn(f"no report was written: {error}")
            return None

    def _take(self, work: Assignments, shown: Progress, job: GroupJob, event: Event) -> None:
        if isinstance(event, GroupStarting):
            self._since[job.place] = time.monotonic()
            shown.add(0, int(job.attempt > 1))
            shown.starting(_shown(job), event.node)
            # What MLflow has to be told takes seconds, which the engine start hides.
            self._track()
        elif isinstance(event, StartDone):
            took = self._took(job, self._starts)
            self._engines += event.engines
            # Written again, whole, when the group ends; this is what an interrupted one leaves.
            self._keep_log(job, event.log)
            if event.ready:
                work.trying(job)
                shown.ready(_shown(job), took)
        elif isinstance(event, CellDone):
            self._took(job, self._generation)
            kept = self._keep(job, event)
            work.measured(job, kept)
            shown.cell(kept)
        elif isinstance(event, CellLost):
            shown.lost(event.record)
        elif isinstance(event, Rescored):
            self._report_is_old()
            self._outputs.write_rescored(event.name, event.outputs)
            work.scored(event.name)
            self._took(job, self._generation)
        elif isinstance(event, GroupEnded):
            self._keep_log(job, event.log)
        elif isinstance(event, Doubted):
            for one in event.findings:
                shown.doubted(event.node, one.check, one.sentence)
        elif isinstance(event, LeftoversEnded):
            for name in event.processes:
                console.warn(f"left over on {event.node}, and ended: {name}")

    def _took(self, job: GroupJob, intervals: list[Interval]) -> float:
        """Count the time since the last event of a place among some intervals; its seconds."""
        now = time.monotonic()
        since = self._since.get(job.place, now)
        intervals.append((since, now))
        self._since[job.place] = now
        return now - since

    def _keep(self, job: GroupJob, event: CellDone) -> CellRecord:
        """Make a cell or a reference durable; an opening also stands for the cell it measured."""
        record = event.record.model_copy(update={"log": job.log_name})
        kept = self._written(record, event)
        if record.role == "opening" and record.fingerprint in self._missing:
            record = record.model_copy(update={"role": "cell"})
            kept = self._written(record, event)
        if record.role == "cell":
            # An opening that is not OK may yet be followed by one at another place that is.
            if record.status == "OK":
                self._missing.discard(record.fingerprint)
            if kept:
                self._untracked.append(record)
        return record

    def _written(self, record: CellRecord, event: CellDone) -> bool:
        """Put a record in its place, unless it is not OK and one that is lies there.

        A cell without its baseline is measured again, and what that loses must not cost what was
        measured before.
        """
        if record.status != "OK" and self._outputs.is_ok(record):
            return False
        self._report_is_old()
        self._outputs.write_cell(record, event.passes, event.companion, event.series)
        return True

    def _report_is_old(self) -> None:
        """Take away the part of a report that is written last: it is as if there were none.

        A start that is killed before it reports leaves this for the next one to see.
        """
        if not self._reported_on:
            self._outputs.remove(MARKDOWN)
            self._reported_on = True

    def _keep_log(self, job: GroupJob, log: str) -> None:
        write_atomically(self._outputs.log_path(job.log_name), log)

    def _tell_mlflow(self, records: Sequence[CellRecord], report: Report | None) -> None:
        """Complete what MLflow has of the sweep, what earlier starts could not tell included."""
        starts = self._outputs.starts()
        # A start that measured nothing has no record, and reports for the last one that did.
        own = self._start if self._taken_up or not starts else starts[-1]
        earlier = [start for start in starts if start.start_id != own.start_id]
        table, answer = console.table_markdown(records), report.answer if report else ""

        for record in records:
            self._mlflow.tell(partial(Tracker.cell, record=record))
        for start in earlier:
            self._mlflow.tell(partial(Tracker.finish, start=start))
        if report is not None:
            self._mlflow.tell(partial(Tracker.judged, findings=report.findings))
        self._mlflow.tell(partial(Tracker.finish, start=own, table=table, answer=answer))
        if (problem := self._mlflow.settle()) is not None:
            console.warn(str(problem))

    def _track(self) -> None:
        start, records = self._start, tuple(self._untracked)
        if not self._taken_up:
            self._mlflow.tell(lambda tracker: tracker.begin(start))
            self._taken_up = True
        for record in records:
            self._mlflow.tell(partial(Tracker.cell, record=record))
        self._untracked.clear()

    def _close(self, outcome: Outcome) -> None:
        times = split((self._began, time.monotonic()), self._starts, self._generation)
        self._start = self._start.model_copy(
            update={
                "outcome": outcome,
                "engine_starts": self._engines,
                "split": times,
                "driver_peak_bytes": host.peak_memory_bytes(),
            }
        )
        self._outputs.write_start(self._start)


def _shown(job: GroupJob) -> str:
    """What a group is called on the way: its role where it is no plain one, and its attempt."""
    role = "" if job.role == "cells" else f" ({job.role})"
    return f"{job.group.id}{role}" + (f", attempt {job.attempt}" if job.attempt > 1 else "")
