"""One cell: its passes on ready engines, and the record made of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pipeline.analysis.energy import with_energy
from pipeline.analysis.engagement import Judgement, judge
from pipeline.analysis.metrics import summarise
from pipeline.analysis.speed import prompt_costs
from pipeline.execution.alternate import Engines, Sides, Span, run_pass
from pipeline.execution.events import CellDone, GroupJob
from pipeline.execution.nodes import node_name
from pipeline.host.telemetry import Telemetry
from pipeline.methods import BASELINE
from pipeline.plan import Cell
from pipeline.platforms import Pairing
from pipeline.records import CellRecord, Companion, EngineContext, Failure, PassRecord


class Bench(NamedTuple):
    """Engines that are ready, where and with what, and the host that is watched meanwhile."""

    engines: Engines
    context: EngineContext
    telemetry: Telemetry


def warm_up(engines: Engines, job: GroupJob) -> Sides:
    """Run the warm-up prompts on every engine; the gate looks at it, no record keeps it."""
    return run_pass(engines, job.tokens.warmup, 1, 0, job.measure.sampling)


def measure(bench: Bench, job: GroupJob, cell: Cell) -> CellDone:
    """Measure a cell; once more, after the machine cooled down, where it ran slower than it can.

    Raises:
        EngineError: an engine died, hung or raised.
    """
    done = _measure_once(bench, job, cell)
    if done.record.status == "THROTTLED":
        bench.telemetry.cool_down()
        done = _measure_once(bench, job, cell)
    return done


def _measure_once(bench: Bench, job: GroupJob, cell: Cell) -> CellDone:
    """Every repeat is one pass over all prompts."""
    started = datetime.now(UTC)
    clock = time.monotonic()
    prompts = job.tokens.datasets[cell.at.dataset]
    sampling = job.measure.sampling
    repeats = [
        run_pass(bench.engines, prompts, cell.at.concurrency, repeat, sampling)
        for repeat in range(job.measure.repeats)
    ]
    passes = tuple(sides.measured for sides in repeats)
    companion = tuple(sides.companion for sides in repeats if sides.companion is not None)
    ended = time.monotonic()
    # Of an engine on several nodes this one's power is a part, and a part of a cost is none.
    alone = job.group.resources.nodes == 1
    energies = [_energy_j(bench.telemetry, s.spans) if alone else None for s in repeats]
    record = _record(job, cell, bench.context, passes, energies).model_copy(
        update={
            "started_at": started.isoformat(timespec="seconds"),
            "measured_s": round(ended - clock, 3),
            "companion": _companion(companion) if companion else None,
        }
    )
    return CellDone(
        record=_watched(record, bench.telemetry, clock, ended),
        passes=passes,
        companion=companion,
        series=bench.telemetry.series(clock, ended),
    )


def _energy_j(telemetry: Telemetry, spans: Sequence[Span]) -> float | None:
    """Joules of an engine's turns; None where the power was not known in all of them."""
    parts = [telemetry.between(*span).energy_j for span in spans]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _watched(record: CellRecord, telemetry: Telemetry, began: float, ended: float) -> CellRecord:
    """The record with what the host did; THROTTLED where that spoils an otherwise sound cell."""
    summary = telemetry.between(began, ended)
    found: dict[str, object] = {"telemetry": summary}
    if record.status == "OK":
        if (reason := telemetry.throttled(summary)) is not None:
            found |= {"status": "THROTTLED", "status_reason": reason}
        else:
            telemetry.remember(summary)
    return record.model_copy(update=found)


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
    return CellDone(record=record, passes=())


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
        node=node_name(),
        attempt=job.attempt,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        context=context,
        pairing=_pairing(job, cell),
    )


def _record(
    job: GroupJob,
    cell: Cell,
    context: EngineContext,
    passes: tuple[PassRecord, ...],
    energies_j: Sequence[float | None],
) -> CellRecord:
    summary = with_energy(summarise(passes, cell.at.k), passes, energies_j)
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
