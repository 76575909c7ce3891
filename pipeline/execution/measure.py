"""One cell: its passes on a ready engine, and the record made of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.analysis.engagement import judge
from pipeline.analysis.metrics import summarise
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import CellDone, GroupJob
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.plan import Cell
from pipeline.records import CellRecord, EngineContext, Failure, PassRecord


def warm_up(engine: EngineProcess, job: GroupJob) -> None:
    """Run the warm-up prompts; nothing of it is recorded."""
    _pass(engine, job, job.tokens.warmup, 1, 0)


def measure(
    engine: EngineProcess, job: GroupJob, cell: Cell, context: EngineContext, began: float
) -> CellDone:
    """Measure a cell: every repeat is one pass over all its prompts.

    Args:
        began: wall-clock time from which generation for this cell counts (its warm-up's start).

    Raises:
        EngineError: the engine died, hung or raised.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    prompts = job.tokens.datasets[cell.at.dataset]
    passes = tuple(
        _pass(engine, job, prompts, cell.at.concurrency, repeat)
        for repeat in range(job.measure.repeats)
    )
    seconds = time.monotonic() - clock
    record = _record(job, cell, context, started, passes, seconds)
    return CellDone(record=record, passes=passes, interval=(began, time.time()))


def failed(job: GroupJob, cell: Cell, failure: Failure, context: EngineContext | None) -> CellDone:
    """The record of a cell that could not be measured."""
    record = CellRecord(
        fingerprint=cell.fingerprint,
        at=cell.at,
        status="FAILED",
        status_reason=failure.message,
        start_id=job.start_id,
        group=job.group.id,
        attempt=job.attempt,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        context=context,
        failure=failure,
    )
    now = time.time()
    return CellDone(record=record, passes=(), interval=(now, now))


def _pass(
    engine: EngineProcess,
    job: GroupJob,
    prompts: Sequence[PromptJob],
    concurrency: int,
    repeat: int,
) -> PassRecord:
    return engine.run(
        PassJob(
            repeat=repeat,
            prompts=tuple(prompts),
            concurrency=concurrency,
            sampling=job.measure.sampling,
        )
    )


def _record(
    job: GroupJob,
    cell: Cell,
    context: EngineContext,
    started: datetime,
    passes: tuple[PassRecord, ...],
    seconds: float,
) -> CellRecord:
    summary = summarise(passes, cell.at.k)
    status, reason = judge(cell.at.kind, cell.at.k, passes)
    return CellRecord(
        fingerprint=cell.fingerprint,
        at=cell.at,
        status=status,
        status_reason=reason,
        start_id=job.start_id,
        group=job.group.id,
        attempt=job.attempt,
        started_at=started.isoformat(timespec="seconds"),
        measured_s=round(seconds, 3),
        context=context,
        counts=summary.counts,
        metrics=summary.metrics,
        per_repeat=summary.per_repeat,
    )
