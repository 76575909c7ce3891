"""One engine group on one node: start the engine, measure its cells, leave nothing behind.

A plain generator; `pipeline.execution.scheduler` makes a Ray task of it. It streams events and
writes nothing but the engine's log, to a temporary file whose end travels back with the last event.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple

from pipeline.analysis.engagement import Judgement
from pipeline.errors import InfrastructureError, PipelineError
from pipeline.execution import gate
from pipeline.execution.alternate import Engines
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import (
    CellDone,
    Doubted,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    StartDone,
)
from pipeline.execution.host import machine_lock
from pipeline.execution.leftovers import temporary_folder
from pipeline.execution.measure import Bench, failed, idle, measure, warm_up
from pipeline.execution.nodes import node_name
from pipeline.execution.rescore import rescore, rescore_cell
from pipeline.host.telemetry import Telemetry
from pipeline.plan import Cell, EngineConfig
from pipeline.preflight import before_start
from pipeline.preflight.findings import Finding, stopped
from pipeline.records import EngineContext, Failure
from pipeline.serve import serve_command
from pipeline.sources import resolve

_LOG_BYTES = 400_000


class PreflightError(InfrastructureError):
    """The node would not let an engine start, or would make its figures lie."""

    kind = "PREFLIGHT"

    def __init__(self, findings: Sequence[Finding]) -> None:
        first = findings[0]
        super().__init__(
            "; ".join(f"{finding.what}: {finding.why}" for finding in findings),
            where=f"preflight check {first.check}",
            remedy=first.cure,
        )


_TAIL_LINES = 25
# Findings that pass by themselves: the memory of an engine that was killed comes back after it.
_PASSING = ("memory", "gpu_processes")
_LOOKS, _LOOK_AGAIN_S = 6, 5.0


def run_group(job: GroupJob) -> Iterator[Event]:
    """Measure the cells of a group in order and stream an event for each step.

    An engine that dies, or anything unforeseen, fails the cell that was measured, and an engine is
    started anew for the next; one that does not start fails every cell that is left. A cell that
    was delivered is never told again.
    """
    yield GroupStarting(group=job.group.id, node=node_name())
    left = list(job.group.cells)
    with temporary_folder() as folder:
        log = Path(folder) / "engine.log"
        trouble = ""
        try:
            with (
                machine_lock(f"sweep {job.sweep}") if job.take_machine else nullcontext(),
                Telemetry() as telemetry,
            ):
                yield from _cells(job, left, log, telemetry)
        except Exception as error:  # noqa: BLE001 - no cell may end the others
            # The checkpoint is not here, the machine is taken, an engine could not be ended, or
            # what nobody foresaw: a cell is to fail by its name, not by the end of this process.
            trouble = "\n" + "\n".join(_in_lines(error)) + "\n"
            for cell in left:
                yield failed(job, cell, _failure(error, log), None)
        yield GroupEnded(group=job.group.id, log=_end_of(log) + trouble)


def _cells(job: GroupJob, left: list[Cell], log: Path, telemetry: Telemetry) -> Iterator[Event]:
    """Start engines until no cell is left; `left` is always what was not delivered."""
    configs = [on_this_node(c) for c in (job.group.engine, job.companion) if c is not None]
    if left and (refusal := gate.before_start(left[0].at.kind, configs[0])) is not None:
        yield from _idle(job, left, refusal, None)
    # Without cells of its own, a group starts its engine once to score what others put out.
    scoring = not job.group.cells
    while left or scoring:
        scoring = False
        if doubts := _look_first(configs[0], job, log):
            yield Doubted(node=node_name(), findings=doubts)
        engines = list[EngineProcess]()
        with ExitStack() as stops:
            try:
                started = _start(configs, log, engines, stops)
            except Exception as error:  # noqa: BLE001 - as above
                yield _start_done(job, log, engines=len(engines) + 1, ready=False)
                while left:
                    yield failed(job, left.pop(0), _failure(error, log), None)
                return
            yield _start_done(job, log, engines=len(engines), ready=True)
            bench = Bench(Engines(*engines), started.context, telemetry)
            yield from _on_engines(job, bench, started.said, left, log)


def _look_first(config: EngineConfig, job: GroupJob, log: Path) -> tuple[Finding, ...]:
    """Refuse a start that the node would spoil; what may disappoint, which stands in the log too.

    Raises:
        PreflightError: the node would not let the engine start, or would make its figures lie.
    """
    for left in reversed(range(_LOOKS)):
        found = before_start(config, job.group.resources, config.drop_caches)
        bad = stopped(found)
        if not bad:
            break
        if not left or any(one.check not in _PASSING for one in bad):
            raise PreflightError(bad)
        time.sleep(_LOOK_AGAIN_S)
    doubts = tuple(one for one in found if one.severity == "warn")
    with log.open("a", encoding="utf-8") as file:
        file.writelines(f"preflight: {one.sentence}\n" for one in doubts)
    return doubts


class _Started(NamedTuple):
    """With what the measured engine started, and what it logged meanwhile."""

    context: EngineContext
    said: str


def _start(
    configs: Sequence[EngineConfig], log: Path, engines: list[EngineProcess], stops: ExitStack
) -> _Started:
    """Start an engine after the other, the measured one first; each is stopped by `stops`."""
    said, seconds = [], []
    for config in configs:
        began = time.monotonic()
        engines.append(EngineProcess(config, log))
        stops.callback(engines[-1].stop)
        seconds.append(time.monotonic() - began)
        said.append(_end_of(log))
    return _Started(_context(configs[0], engines[0], seconds[0]), said[0])


def _start_done(job: GroupJob, log: Path, *, engines: int, ready: bool) -> StartDone:
    return StartDone(group=job.group.id, engines=engines, ready=ready, log=_end_of(log))


def _on_engines(
    job: GroupJob, bench: Bench, said: str, left: list[Cell], log: Path
) -> Iterator[Event]:
    """Measure cells, taking each off `left`, until none is left or an engine is lost."""
    engines, delivered = bench.engines, False
    try:
        if left and (idling := _idling(job, engines, left[0], said)) is not None:
            yield from _idle(job, left, idling, bench.context)
        while left:
            delivered = False
            done = measure(bench, job, left[0])
            left.pop(0)
            delivered = True
            yield done
            yield from _rescored(job, engines, done)
        yield from _rescored_others(job, engines)
    except Exception as error:  # noqa: BLE001 - as above
        # Lost while it scored, an engine takes no cell along: what was measured is delivered.
        # After anything else than its own errors it may be in the middle of an answer: it goes too.
        if not delivered and left:
            yield failed(job, left.pop(0), _failure(error, log), bench.context)


def _idling(job: GroupJob, engines: Engines, first: Cell, said: str) -> Judgement | None:
    """Why the drafter does nothing, where the log or the warm-up shows that it does not."""
    warm = warm_up(engines, job)
    return gate.after_start(first.at.kind, first.at.k, warm.measured, said)


def _idle(
    job: GroupJob, left: list[Cell], judgement: Judgement, context: EngineContext | None
) -> Iterator[CellDone]:
    while left:
        yield idle(job, left.pop(0), judgement, context)


def _rescored(job: GroupJob, engines: Engines, done: CellDone) -> Iterator[Event]:
    """Score a cell's outputs where a plain engine is at hand: its companion, or it is the plain one
    that closes a bracket."""
    plain = engines.measured if job.role == "closing" else engines.companion
    if plain is not None and done.record.status == "OK":
        yield from rescore_cell(plain, job, done)


def _rescored_others(job: GroupJob, engines: Engines) -> Iterator[Event]:
    plain = engines.companion or engines.measured
    for other in job.rescore:
        yield rescore(plain, other.name, other.outputs)


def on_this_node(config: EngineConfig) -> EngineConfig:
    """The same configuration with this node's paths; what the zoo holds is made if it is not here.

    Raises:
        CheckpointReferenceError: a checkpoint is not on this node.
    """
    speculative = dict(config.speculative) if config.speculative is not None else None
    if speculative is not None and isinstance(speculative.get("model"), str):
        speculative["model"] = resolve(str(speculative["model"]))
    return config.model_copy(
        update={"checkpoint": resolve(config.checkpoint), "speculative": speculative}
    )


def _context(config: EngineConfig, engine: EngineProcess, seconds: float) -> EngineContext:
    drafter = (config.speculative or {}).get("model")
    return EngineContext(
        node=node_name(),
        vllm_version=engine.vllm_version,
        engine_start_s=round(seconds, 2),
        checkpoint=config.checkpoint,
        drafter=str(drafter) if drafter is not None else None,
        preloaded=engine.preloaded,
        serve_command=serve_command(config, engine.preloaded),
    )


def _failure(error: Exception, log: Path) -> Failure:
    kind, message, lines = type(error).__name__, str(error), _end_of(log).splitlines()
    if isinstance(error, PipelineError):
        kind = getattr(error, "kind", kind)
    else:
        message = f"{kind}: {message}"
        lines += _in_lines(error)
    return Failure(kind=kind, message=message, log_tail=tuple(lines[-_TAIL_LINES:]))


def _in_lines(error: Exception) -> list[str]:
    """An error as a log tells it: a sentence where it is one of ours, else where it came from."""
    if isinstance(error, PipelineError):
        return [str(error)]
    return "".join(traceback.format_exception(error)).splitlines()


def _end_of(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        return file.read().decode(errors="replace")
