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
from pipeline.estimate import Estimate, estimate
from pipeline.evidence import gather
from pipeline.installed import installed_vllm
from pipeline.locks import held
from pipeline.outputs import DamagedError, Outputs, RecordError
from pipeline.plan import Plan, make_plan
from pipeline.prompts import PromptSet, load_prompts
from pipeline.provenance import new_start
from pipeline.records import CellRecord
from pipeline.sources import identity_for_show
from pipeline.spec import SweepConfig
from pipeline.staging import Staging
from pipeline.tracking import Tracker, store_uri
from pipeline.unfinished import Unfinished, unfinished

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
    damaged = _warn_damaged if config.dry_run else console.warn_set_aside
    outputs = Outputs(Path(config.output_dir), config.name, damaged)
    with nullcontext() if config.dry_run else _only_writer(outputs.folder, config.name):
        recorded = outputs.cells()
        skipped = skip(plan, prompts) if skip is not None else frozenset()
        asked = plan.without(skipped)
        lacking = _lacking(config, plan, outputs, recorded, skipped)
        done = _done(recorded, lacking, config) | skipped
        todo = plan.without(done)
        expected = _expected(config, plan, done, prompts, recorded)
        console.print_plan(
            asked,
            {name: len(s.prompts) for name, s in prompts.items()},
            expected,
            recorded=len(asked.cells) - len(todo.cells),
            unfinished=lacking.told("now" if config.retry == "failed" else "never"),
        )
        if config.dry_run:
            return EXIT_OK
        outputs.write_plan(plan)
        outputs.clear_after_kill()
        tracker = Tracker(outputs, uri, enabled=config.tracking.enabled)
        driver = Driver(config, outputs, new_start(config, argv), tracker, began)
        staging = Staging(plan, done, lambda: gather(outputs, {c.fingerprint for c in plan.cells}))
        unscored = lacking.unscored if config.retry == "failed" else {}
        if (due := staging.due()) or unscored:
            now = plan.model_copy(update={"groups": due})
            driver.measure(plan, now, prompts, expected.total_s, staging.due, unscored)
            recorded = outputs.cells()
            console.warn(*_lacking(config, plan, outputs, recorded, skipped).told("later"))
        return driver.finish(staging.settled().without(skipped), recorded)


def _expected(
    config: SweepConfig,
    plan: Plan,
    done: frozenset[str],
    prompts: Mapping[str, PromptSet],
    recorded: Sequence[CellRecord],
) -> Estimate:
    """The time for what is still to be measured, by what was measured here and beside it."""
    missing = plan.without(done).groups
    history = [*recorded, *_elsewhere(config)] if missing else []
    repeats, assume = config.measure.repeats, config.platform.assume
    return estimate(plan.at_most(done), plan.baselines, prompts, repeats, assume, history)


def _lacking(
    config: SweepConfig,
    plan: Plan,
    outputs: Outputs,
    recorded: Sequence[CellRecord],
    skipped: frozenset[str],
) -> Unfinished:
    asked = [record for record in recorded if record.fingerprint not in skipped]
    return unfinished(plan, asked, outputs, config.measure.sampling)


def _done(
    recorded: Sequence[CellRecord], lacking: Unfinished, config: SweepConfig
) -> frozenset[str]:
    """Fingerprints of what is not measured again."""
    if config.retry == "none":
        return frozenset(r.fingerprint for r in recorded)
    return frozenset(r.fingerprint for r in recorded if r.status == "OK") - lacking.unpaired


def _warn_damaged(damaged: DamagedError) -> None:
    console.warn(f"{damaged.where}: {damaged.problem}; taken as missing")


def _elsewhere(config: SweepConfig) -> list[CellRecord]:
    """Cells of other sweeps under the same output folder, which tell how long things take."""
    root = Path(config.output_dir)
    found: list[CellRecord] = []
    others = [f for f in sorted(root.glob("*/cells")) if f.parent.name != config.name]
    for folder in others:
        # Another sweep's damaged record is that sweep's trouble; here it only estimates less well.
        with suppress(RecordError):
            found += Outputs(root, folder.parent.name, lambda damaged: None).cells()
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
