"""One engine group on one node: start the engine, measure its cells, leave nothing behind.

A plain generator; `pipeline.execution.scheduler` makes a Ray task of it. It streams events and
writes nothing but the engine's log, to a temporary file whose end travels back with the last event.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.execution.engine_process import EngineError, EngineProcess
from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    StartDone,
)
from pipeline.execution.host import machine_lock
from pipeline.execution.measure import failed, measure, warm_up
from pipeline.plan import Cell, EngineConfig
from pipeline.records import EngineContext, Failure
from pipeline.serve import serve_command
from pipeline.sources import resolve

_LOG_BYTES = 400_000
_TAIL_LINES = 25


def run_group(job: GroupJob) -> Iterator[Event]:
    """Measure the cells of a group in order and stream an event for each step.

    An engine that dies fails the cell it was measuring and is started again for the next; one that
    does not start fails every cell that is left. A cell that was delivered is never told again.
    """
    yield GroupStarting(group=job.group.id, node=socket.gethostname())
    left = list(job.group.cells)
    with tempfile.TemporaryDirectory(prefix="spec-decode-") as folder:
        log = Path(folder) / "engine.log"
        trouble = ""
        try:
            with machine_lock(f"sweep {job.sweep}") if job.take_machine else nullcontext():
                yield from _cells(job, left, log)
        except PipelineError as error:
            # The checkpoint is not here, the machine is taken, or an engine could not be ended.
            trouble = f"\n{error}\n"
            for cell in left:
                yield failed(job, cell, _failure(error, log), None)
        yield GroupEnded(group=job.group.id, log=_end_of(log) + trouble)


def _cells(job: GroupJob, left: list[Cell], log: Path) -> Iterator[Event]:
    """Start engines until no cell is left; `left` is always what was not delivered."""
    config = on_this_node(job.group.engine)
    while left:
        began = time.time()
        try:
            engine = EngineProcess(config, log)
        except EngineError as error:
            yield _start_done(job, began, log, ready=False)
            while left:
                yield failed(job, left.pop(0), _failure(error, log), None)
            return
        try:
            done = _start_done(job, began, log, ready=True)
            yield done
            context = _context(config, engine, done.interval[1] - began)
            yield from _on_engine(job, engine, context, left, log)
        finally:
            engine.stop()


def _start_done(job: GroupJob, began: float, log: Path, *, ready: bool) -> StartDone:
    return StartDone(
        group=job.group.id, interval=(began, time.time()), ready=ready, log=_end_of(log)
    )


def _on_engine(
    job: GroupJob, engine: EngineProcess, context: EngineContext, left: list[Cell], log: Path
) -> Iterator[CellDone]:
    """Measure cells, taking each off `left`, until none is left or the engine is lost."""
    began = time.time()
    try:
        warm_up(engine, job)
        while left:
            done = measure(engine, job, left[0], context, began)
            left.pop(0)
            yield done
            began = time.time()
    except EngineError as error:
        yield failed(job, left.pop(0), _failure(error, log), context)


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
        node=socket.gethostname(),
        vllm_version=engine.vllm_version,
        engine_start_s=round(seconds, 2),
        checkpoint=config.checkpoint,
        drafter=str(drafter) if drafter is not None else None,
        preloaded=engine.preloaded,
        serve_command=serve_command(config, engine.preloaded),
    )


def _failure(error: PipelineError, log: Path) -> Failure:
    tail = _end_of(log).splitlines()[-_TAIL_LINES:]
    return Failure(
        kind=getattr(error, "kind", type(error).__name__), message=str(error), log_tail=tuple(tail)
    )


def _end_of(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        return file.read().decode(errors="replace")
