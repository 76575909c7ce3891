"""One start of a sweep in the driver: plan, what is missing, run it, write it down, show it.

The driver is the only writer. Each cell is durable before anything is shown or tracked; MLflow is
told between groups, while the next engine loads, because on few cores its work would be felt by a
measurement.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Literal

from pipeline import console
from pipeline.analysis.timing import split
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_OK, InfrastructureError, InputError
from pipeline.estimate import estimate
from pipeline.execution import host
from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    GroupReady,
    GroupStarting,
    Tokenised,
    TokeniseJob,
)
from pipeline.locks import held
from pipeline.plan import Plan, make_plan
from pipeline.prompts import PromptSet, load_prompts
from pipeline.provenance import new_start
from pipeline.records import CellRecord, Outputs, RecordError, StartRecord, write_atomically
from pipeline.sources import identity, identity_for_show
from pipeline.spec import SweepConfig
from pipeline.tracking import Tracker


class Terminated(BaseException):
    """SIGTERM: everything is cleaned up on the way out, as after Ctrl-C."""


class OutputsBusyError(InfrastructureError):
    """Another process runs this sweep into the same folder."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(
            f"another run writes here ({owner})",
            where=str(folder),
            remedy="wait for it, or give this one an output_dir of its own",
        )


class UnwritableOutputsError(InputError):
    """The folder for results cannot be made or written to."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"results cannot be written here ({error.strerror})",
            where=str(folder),
            remedy="choose another place with output_dir=FOLDER",
        )


class PromptError(InputError):
    """Prompts that a model cannot be given."""


def run(config: SweepConfig, argv: Sequence[str]) -> int:
    """Run a sweep to its end and return the exit code.

    Raises:
        PipelineError: nothing could be started; what is measured by then is on disk.
        KeyboardInterrupt, Terminated: a signal; everything that was started is gone.
    """
    began = time.time()
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    plan = make_plan(config, prompts, identity_for_show if config.dry_run else identity)
    outputs = Outputs(Path(config.output_dir), config.name)
    with nullcontext() if config.dry_run else _only_writer(outputs.folder, config.name):
        done = frozenset(r.fingerprint for r in outputs.cells() if r.status == "OK")
        todo = plan.without(done)
        repeats, assume = config.measure.repeats, config.platform.assume
        expected = estimate(todo, prompts, repeats, assume, _history(config))
        console.print_plan(
            plan,
            {name: len(s.prompts) for name, s in prompts.items()},
            expected,
            recorded=len(plan.cells) - len(todo.cells),
        )
        if config.dry_run:
            return EXIT_OK
        outputs.write_plan(plan)
        driver = Driver(config, outputs, new_start(config, argv), began, expected.total_s)
        if todo.groups:
            driver.measure(todo, prompts)
        return driver.finish(plan)


class Driver:
    """The state of one start: where its time went, and what is still to be tracked."""

    def __init__(
        self,
        config: SweepConfig,
        outputs: Outputs,
        start: StartRecord,
        began: float,
        expected_s: float,
    ) -> None:
        self._config, self._outputs, self._start = config, outputs, start
        self._began, self._expected_s = began, expected_s
        self._starts: list[tuple[float, float]] = []
        self._generation: list[tuple[float, float]] = []
        self._untracked: list[CellRecord] = []
        self._tracker = Tracker(outputs, config.tracking.uri, enabled=config.tracking.enabled)

    def measure(self, todo: Plan, prompts: dict[str, PromptSet]) -> None:
        """Run what is missing on the cluster."""
        from pipeline.execution import scheduler  # Ray takes a second that a dry run need not pay

        self._outputs.write_start(self._start)
        interrupted = True
        try:
            with scheduler.cluster(self._config.ray, self._config.platform), _sigterm_interrupts():
                jobs = self._jobs(todo, scheduler.tokenise_all(self._tokenise_jobs(todo, prompts)))
                with console.progress(len(todo.cells), len(todo.groups), self._expected_s) as shown:
                    self._progress = shown
                    scheduler.run_groups(jobs, self._take)
            interrupted = False
        finally:
            self._close("interrupted" if interrupted else "finished")

    def finish(self, plan: Plan) -> int:
        """Show and track the whole sweep; the exit code says whether every cell is OK."""
        fingerprints = {cell.fingerprint for cell in plan.cells}
        records = [r for r in self._outputs.cells() if r.fingerprint in fingerprints]
        console.print_results(records, self._start.split)
        if self._starts:
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
            )
            for group in todo.groups
        ]

    def _take(self, event: Event) -> None:
        if isinstance(event, GroupStarting):
            self._progress.starting(event.group, event.node)
            if not self._starts:
                # Opening MLflow takes seconds, which the first engine start hides.
                self._tracker.begin(self._start)
        elif isinstance(event, GroupReady):
            self._starts.append(event.interval)
            # Written again, whole, when the group ends; this is what an interrupted one leaves.
            write_atomically(self._outputs.log_path(event.group), event.log)
            self._progress.ready(event.group, event.interval[1] - event.interval[0])
            self._track()
        elif isinstance(event, CellDone):
            self._outputs.write_cell(event.record, event.passes)
            self._generation.append(event.interval)
            self._untracked.append(event.record)
            self._progress.cell(event.record)
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
        for record in self._untracked:
            self._tracker.cell(record)
        self._untracked.clear()

    def _close(self, outcome: Literal["finished", "interrupted"]) -> None:
        times = split((self._began, time.time()), self._starts, self._generation)
        self._start = self._start.model_copy(
            update={
                "outcome": outcome,
                "engine_starts": len(self._starts),
                "split": times,
                "driver_peak_bytes": host.peak_memory_bytes(),
            }
        )
        self._outputs.write_start(self._start)


def _history(config: SweepConfig) -> list[CellRecord]:
    """Cells of every sweep under the same output folder, which tell how long things take."""
    root = Path(config.output_dir)
    found: list[CellRecord] = []
    for folder in sorted(root.glob("*/cells")):
        # Another sweep's damaged record is that sweep's trouble; here it only estimates less well.
        with suppress(RecordError):
            found += Outputs(root, folder.parent.name).cells()
    return found


def _only_writer(folder: Path, sweep: str) -> AbstractContextManager[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".lock").touch()
    except OSError as error:
        raise UnwritableOutputsError(folder, error) from error
    return held(
        folder / ".lock", f"sweep {sweep}", 0.0, lambda owner: OutputsBusyError(folder, owner)
    )


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
