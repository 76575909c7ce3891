"""One cell: its passes on ready engines, and the record made of them."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime

from pipeline.analysis.engagement import Judgement, judge
from pipeline.analysis.metrics import summarise
from pipeline.analysis.speed import prompt_costs
from pipeline.execution.alternate import Engines, Sides, run_pass
from pipeline.execution.events import CellDone, GroupJob
from pipeline.methods import BASELINE
from pipeline.plan import Cell
from pipeline.platforms import Pairing
from pipeline.records import CellRecord, Companion, EngineContext, Failure, PassRecord


def warm_up(engines: Engines, job: GroupJob) -> Sides:
    """Run the warm-up prompts on every engine; the gate looks at it, no record keeps it."""
    return run_pass(engines, job.tokens.warmup, 1, 0, job.measure.sampling)


def measure(
    engines: Engines, job: GroupJob, cell: Cell, context: EngineContext, began: float
) -> CellDone:
    """Measure a cell: every repeat is one pass over all its prompts.

    Args:
        began: wall-clock time from which generation for this cell counts (its warm-up's start).

    Raises:
        EngineError: an engine died, hung or raised.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    prompts = job.tokens.datasets[cell.at.dataset]
    sampling = job.measure.sampling
    repeats = [
        run_pass(engines, prompts, cell.at.concurrency, repeat, sampling)
        for repeat in range(job.measure.repeats)
    ]
    passes = tuple(sides.measured for sides in repeats)
    companion = tuple(sides.companion for sides in repeats if sides.companion is not None)
    record = _record(job, cell, context, passes).model_copy(
        update={
            "started_at": started.isoformat(timespec="seconds"),
            "measured_s": round(time.monotonic() - clock, 3),
            "companion": _companion(companion) if companion else None,
        }
    )
    return CellDone(
        record=record, passes=passes, companion=companion, interval=(began, time.time())
    )


def failed(
    job: GroupJob,
    cell: Cell,
    failure: Failure,
    context: EngineContext | None,
    node: str | None = None,
) -> CellDone:
    """The record of a cell that could not be measured.

    Args:
        node: where it was tried; this one where None.
    """
    record = _blank(job, cell, ("FAILED", failure.message), context)
    return _unmeasured(record.model_copy(update={"failure": failure, "node": node or record.node}))


def idle(
    job: GroupJob, cell: Cell, judgement: Judgement, context: EngineContext | None
) -> CellDone:
    """The record of a cell that was not measured because its drafter would do nothing."""
    return _unmeasured(_blank(job, cell, judgement, context))


def _unmeasured(record: CellRecord) -> CellDone:
    now = time.time()
    return CellDone(record=record, passes=(), interval=(now, now))


def _blank(
    job: GroupJob, cell: Cell, judgement: Judgement, context: EngineContext | None
) -> CellRecord:
    status, reason = judgement
    return CellRecord(
        fingerprint=cell.fingerprint,
        at=cell.at,
        status=status,
        status_reason=reason,
        start_id=job.start_id,
        group=job.group.id,
        role="cell" if job.role == "cells" else job.role,
        node=socket.gethostname(),
        attempt=job.attempt,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        context=context,
        pairing=_pairing(job, cell),
    )


def _record(
    job: GroupJob, cell: Cell, context: EngineContext, passes: tuple[PassRecord, ...]
) -> CellRecord:
    summary = summarise(passes, cell.at.k)
    judgement = judge(cell.at.kind, cell.at.k, passes)
    return _blank(job, cell, judgement, context).model_copy(
        update={
            "counts": summary.counts,
            "metrics": summary.metrics,
            "per_repeat": summary.per_repeat,
            "costs": prompt_costs(passes),
        }
    )


def _pairing(job: GroupJob, cell: Cell) -> Pairing | None:
    if cell.at.kind == BASELINE:
        return None
    return "bracketed" if job.companion is None else "interleaved"


def _companion(passes: tuple[PassRecord, ...]) -> Companion:
    summary = summarise(passes, 0)
    status, reason = judge(BASELINE, 0, passes)
    return Companion(
        status=status,
        status_reason=reason,
        counts=summary.counts,
        metrics=summary.metrics,
        costs=prompt_costs(passes),
    )
