"""Baselines of several nodes as they come to lie on disk: one that is bad spoils no good one.

Everything is real but the cluster and its groups, which are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.evidence import Brackets
from pipeline.execution import scheduler
from pipeline.execution.events import CellDone, Event, GroupJob, GroupStarting
from pipeline.execution.measure import failed
from pipeline.execution.runner import Lost
from pipeline.outputs import Outputs
from pipeline.records import CellRecord, Failure
from tests.paired import paired_group
from tests.sweeps import SimulatedSweep, TokenisingCluster

BRACKETED = ("platform.pairing=bracketed", "sweep.axes.k=[2,3,4,5]")
THROTTLED = {"status": "THROTTLED", "status_reason": "simulated"}


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedSweep:
    made = SimulatedSweep(monkeypatch, tmp_path / "outputs", "tracking=off")

    @contextmanager
    def two_nodes(*_: Any) -> Iterator[TokenisingCluster]:
        yield TokenisingCluster("n0", "n1", script=lambda cluster: None)

    monkeypatch.setattr(scheduler, "cluster", two_nodes)
    return made


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "outputs", "smoke")


def refused(job: GroupJob, event: CellDone) -> Event:
    cell = next(c for c in job.group.cells if c.fingerprint == event.record.fingerprint)
    return failed(job, cell, Failure(kind="REFUSED", message="simulated"), None, job.place)


def throttled(job: GroupJob, event: CellDone) -> Event:
    return event.model_copy(update={"record": event.record.model_copy(update=THROTTLED)})


@pytest.mark.parametrize("spoil", [refused, throttled])
def test_a_bad_opening_on_one_node_hides_no_good_one_from_another(
    sweep: SimulatedSweep, outputs: Outputs, spoil: Any
) -> None:
    def measure(job: GroupJob) -> Iterator[Event]:
        for event in paired_group(job):
            bad = isinstance(event, CellDone) and (job.role, job.place) == ("opening", "n0")
            yield spoil(job, event) if bad else event

    sweep.run(*BRACKETED, measure=measure)
    cells = [r for r in outputs.cells() if r.at.method == "none"]
    assert {(r.status, r.node) for r in cells} == {("OK", "n1")}
    assert {(r.role, r.node, r.status) for r in outputs.references()} >= {("opening", "n1", "OK")}


def test_a_closing_that_fails_spoils_none_that_was_good(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    """What n1 loses comes to n0 when that has closed, and its second closing fails."""
    closings: list[GroupJob] = []

    def measure(job: GroupJob) -> Iterator[Event]:
        if job.place == "n1" and job.role == "cells":
            for _ in range(40):
                yield GroupStarting(group=job.group.id, node=job.place)
            raise Lost("WORKER_LOST", "simulated")
        if job.place == "n0" and job.role == "closing":
            closings.append(job)
        for event in paired_group(job):
            again = isinstance(event, CellDone) and job.role == "closing" and len(closings) > 1
            yield refused(job, event) if again else event

    sweep.run(*BRACKETED, measure=measure)
    assert len(closings) == 2
    closed = [r for r in outputs.references() if (r.role, r.node) == ("closing", "n0")]
    assert {r.status for r in closed} == {"OK"}


def test_a_closing_says_nothing_of_what_its_place_was_given_later(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    sweep.run(*BRACKETED, measure=paired_group)
    brackets = Brackets(outputs.references())
    cell = next(r for r in outputs.cells() if r.at.method != "none")
    assert brackets.around(cell).closing is not None
    assert brackets.around(moved(cell, 1)).closing is None
    assert brackets.around(moved(cell, 1)).opening is not None


def moved(record: CellRecord, seconds: int) -> CellRecord:
    later = datetime.fromisoformat(record.started_at) + timedelta(seconds=seconds)
    return record.model_copy(update={"started_at": later.isoformat()})
