"""A sweep from its configuration to its end: plan, what is missing, have it measured, exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from pipeline import console
from pipeline.arguments import check_arguments
from pipeline.driver import Driver
from pipeline.elsewhere import identify_for
from pipeline.errors import EXIT_OK, InfrastructureError, InputError
from pipeline.estimate import estimate
from pipeline.evidence import gather
from pipeline.installed import installed_vllm
from pipeline.locks import held
from pipeline.outputs import Outputs, RecordError
from pipeline.plan import Plan, make_plan
from pipeline.prompts import PromptSet, load_prompts
from pipeline.provenance import new_start
from pipeline.records import CellRecord
from pipeline.sources import identity_for_show
from pipeline.spec import SweepConfig
from pipeline.staging import Staging
from pipeline.tracking import Tracker, store_uri

Skip = Callable[[Plan, Mapping[str, PromptSet]], frozenset[str]]


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


def run(config: SweepConfig, argv: Sequence[str], skip: Skip | None = None) -> int:
    """Run a sweep to its end and return the exit code.

    Args:
        skip: asked once the plan is made, for fingerprints that this start is to leave out.

    Raises:
        PipelineError: nothing could be started; what is measured by then is on disk.
        KeyboardInterrupt, Terminated: a signal; everything that was started is gone.
    """
    began = time.monotonic()
    uri = store_uri(config.tracking.uri)
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    vllm = installed_vllm()
    check_arguments(config, vllm)
    plan = make_plan(
        config, prompts, identity_for_show if config.dry_run else identify_for(config), vllm
    )
    outputs = Outputs(Path(config.output_dir), config.name)
    with nullcontext() if config.dry_run else _only_writer(outputs.folder, config.name):
        recorded = _recorded(outputs, config)
        kept = (r for r in recorded if r.status == "OK" or config.retry == "none")
        skipped = skip(plan, prompts) if skip is not None else frozenset()
        done = frozenset(r.fingerprint for r in kept) | skipped
        todo = plan.without(done)
        repeats, assume = config.measure.repeats, config.platform.assume
        history = [*recorded, *_elsewhere(config)] if todo.groups else []
        expected = estimate(plan.at_most(done), plan.baselines, prompts, repeats, assume, history)
        asked = plan.without(skipped)
        console.print_plan(
            asked,
            {name: len(s.prompts) for name, s in prompts.items()},
            expected,
            recorded=len(asked.cells) - len(todo.cells),
        )
        if config.dry_run:
            return EXIT_OK
        outputs.write_plan(plan)
        outputs.clear_after_kill()
        tracker = Tracker(outputs, uri, enabled=config.tracking.enabled)
        driver = Driver(config, outputs, new_start(config, argv), tracker, began)
        wanted = frozenset(cell.fingerprint for cell in plan.cells)
        staging = Staging(plan, done, lambda: gather(outputs, wanted))
        if due := staging.due():
            now = plan.model_copy(update={"groups": due})
            driver.measure(plan, now, prompts, expected.total_s, staging.due)
            recorded = outputs.cells()
        return driver.finish(staging.settled().without(skipped), recorded)


def _recorded(outputs: Outputs, config: SweepConfig) -> tuple[CellRecord, ...]:
    """What is measured already; a damaged record is set aside, and its cell measured again."""
    sound, damaged = outputs.sound_cells()
    for error in damaged:
        if config.dry_run:
            console.warn(f"{error.where}: {error.problem}; its cell is measured again")
        else:
            aside = outputs.set_aside(error)
            console.warn(f"{error.problem}; kept as {aside}, and its cell is measured again")
    return sound


def _elsewhere(config: SweepConfig) -> list[CellRecord]:
    """Cells of other sweeps under the same output folder, which tell how long things take."""
    root = Path(config.output_dir)
    found: list[CellRecord] = []
    others = [f for f in sorted(root.glob("*/cells")) if f.parent.name != config.name]
    for folder in others:
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
