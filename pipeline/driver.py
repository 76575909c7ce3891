"""One start of a sweep in the driver: what was measured, where its time went, who is told.

The driver is the only writer. Each cell is durable before anything is shown or tracked; MLflow is
told between groups, while the next engine loads, because on few cores its work would be felt by a
measurement.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Literal

from pipeline import console
from pipeline.analysis.timing import split
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_OK, InputError
from pipeline.execution import host
from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    Rescored,
    StartDone,
    Tokenised,
    TokeniseJob,
)
from pipeline.outputs import Outputs, write_atomically
from pipeline.plan import Plan
from pipeline.progress import Progress
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, StartRecord
from pipeline.spec import SweepConfig
from pipeline.tracking import Tracker

Outcome = Literal["finished", "interrupted", "failed"]


class Terminated(BaseException):
    """SIGTERM: everything is cleaned up on the way out, as after Ctrl-C."""


class PromptError(InputError):
    """Prompts that a model cannot be given."""


class Driver:
    """The state of one start: where its time went, and what is still to be tracked.

    Args:
        began: wall-clock time from which everything counts as this start's.
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
        self._tracker, self._began = tracker, began
        self._starts: list[tuple[float, float]] = []
        self._generation: list[tuple[float, float]] = []
        self._engines = 0
        self._untracked: list[CellRecord] = []
        self._taken_up = False

    def measure(self, todo: Plan, prompts: dict[str, PromptSet], expected_s: float) -> None:
        """Run what is missing on the cluster.

        Raises:
            PipelineError: the cluster cannot be reached, or a model cannot be given its prompts.
            KeyboardInterrupt, Terminated: a signal; everything that was started is gone.
        """
        from pipeline.execution import scheduler  # Ray takes a second that a dry run need not pay

        with (
            self._machine(),
            scheduler.cluster(self._config.ray, self._config.platform),
            _sigterm_interrupts(),
            self._recorded(),
        ):
            jobs = self._jobs(todo, scheduler.tokenise_all(self._tokenise_jobs(todo, prompts)))
            with console.progress(len(todo.cells), len(todo.groups), expected_s) as shown:
                scheduler.run_groups(jobs, lambda event: self._take(event, shown))

    def _machine(self) -> AbstractContextManager[None]:
        """This machine, for the whole sweep, where all of it is measured here."""
        here = self._config.ray.address is None
        return host.machine_lock(f"sweep {self._config.name}", 0.0) if here else nullcontext()

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

    def finish(self, plan: Plan) -> int:
        """Show and track the whole sweep; the exit code says whether every cell is OK."""
        fingerprints = {cell.fingerprint for cell in plan.cells}
        records = [r for r in self._outputs.cells() if r.fingerprint in fingerprints]
        console.print_results(records, self._start.split)
        if self._taken_up:
            self._tell_mlflow(records)
        bad = [r for r in records if r.status != "OK"]
        return EXIT_CELLS_FAILED if bad or len(records) < len(fingerprints) else EXIT_OK

    def _tokenise_jobs(self, todo: Plan, prompts: dict[str, PromptSet]) -> list[TokeniseJob]:
        names = {group.model for group in todo.groups}
        return [
            TokeniseJob(model=m, prompt_sets=tuple(prompts.values()), measure=self._config.measure)
            for m in self._config.models
            if m.name in names
        ]

    def _jobs(self, todo: Plan, tokenised: tuple[Tokenised, ...]) -> list[GroupJob]:
        by_model = {tokens.model: tokens for tokens in tokenised}
        for tokens in tokenised:
            if tokens.error is not None:
                raise PromptError(tokens.error)
            for dataset, jobs in tokens.datasets.items():
                path = self._outputs.folder / "prompts" / f"{tokens.model}--{dataset}.jsonl"
                write_atomically(path, "".join(job.model_dump_json() + "\n" for job in jobs))
        return [
            GroupJob(
                sweep=self._config.name,
                start_id=self._start.start_id,
                group=group,
                tokens=by_model[group.model],
                measure=self._config.measure,
                take_machine=self._config.ray.address is not None,
            )
            for group in todo.groups
        ]

    def _take(self, event: Event, shown: Progress) -> None:
        if isinstance(event, GroupStarting):
            shown.starting(event.group, event.node)
            # What MLflow has to be told takes seconds, which the engine start hides.
            self._track()
        elif isinstance(event, StartDone):
            self._starts.append(event.interval)
            self._engines += event.engines
            # Written again, whole, when the group ends; this is what an interrupted one leaves.
            write_atomically(self._outputs.log_path(event.group), event.log)
            if event.ready:
                shown.ready(event.group, event.interval[1] - event.interval[0])
        elif isinstance(event, CellDone):
            self._outputs.write_cell(event.record, event.passes, event.companion)
            self._generation.append(event.interval)
            self._untracked.append(event.record)
            shown.cell(event.record)
        elif isinstance(event, Rescored):
            self._outputs.write_rescored(event.name, event.outputs)
            self._generation.append(event.interval)
        elif isinstance(event, GroupEnded):
            write_atomically(self._outputs.log_path(event.group), event.log)

    def _tell_mlflow(self, records: Sequence[CellRecord]) -> None:
        """Complete what MLflow has of the sweep, what earlier starts could not tell included."""
        for record in records:
            self._tracker.cell(record)
        for earlier in self._outputs.starts()[:-1]:
            self._tracker.finish(earlier)
        self._tracker.finish(self._start, table=console.table_markdown(records))
        if self._tracker.problem is not None:
            console.warn(str(self._tracker.problem))

    def _track(self) -> None:
        if not self._taken_up:
            self._tracker.begin(self._start)
            self._taken_up = True
        for record in self._untracked:
            self._tracker.cell(record)
        self._untracked.clear()

    def _close(self, outcome: Outcome) -> None:
        times = split((self._began, time.time()), self._starts, self._generation)
        self._start = self._start.model_copy(
            update={
                "outcome": outcome,
                "engine_starts": self._engines,
                "split": times,
                "driver_peak_bytes": host.peak_memory_bytes(),
            }
        )
        self._outputs.write_start(self._start)


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end the sweep as Ctrl-C does.

    Set once Ray has started, since Ray puts a handler of its own; and raised as an interrupt,
    since Ray's waiting calls turn whatever a handler raises into one.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
