"""Three real raylets with addresses of their own; groups are simulated where nothing else is said.

One node is lost in the middle, one is added; a group spans two nodes; one sweep is real.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.execution.dispatch import Dispatch
from pipeline.execution.events import CellDone, CellLost, Event, GroupJob
from pipeline.execution.runner import Measure, Runner
from pipeline.execution.scheduler import cluster
from pipeline.plan import EngineGroup
from pipeline.records import CellRecord
from pipeline.spec import RayTarget, SweepConfig
from tests.execution.machines import ADDRESS, Machines, why_not
from tests.execution.simulated import simulated_cell, simulated_group
from tests.execution.test_dispatch import grid
from tests.execution.test_runner import job
from tests.test_main import Sweep

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]
CELL_S = 1.5


def slow_simulated_group(job: GroupJob) -> Iterator[Event]:
    """A simulated group that takes its time."""
    for event in simulated_group(job):
        if isinstance(event, CellDone):
            time.sleep(CELL_S)
        yield event


def what_is_held(job: GroupJob) -> Iterator[Event]:
    """A simulated cell whose reason says what its group held of the cluster."""
    import ray

    held = ray.util.get_current_placement_group()
    said = str(held.bundle_specs if held else None)
    done = simulated_cell(job, 0)
    yield done.model_copy(update={"record": done.record.model_copy(update={"status_reason": said})})


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("nodes"))
    try:
        machines.add(1)
        machines.add(2)
        yield machines
    finally:
        machines.stop()


def carried_out(
    sweep: SweepConfig,
    groups: list[EngineGroup],
    measure: Measure,
    watch: Callable[[Event], None] = lambda event: None,
) -> list[Event]:
    events: list[Event] = []

    def emit(_: GroupJob, event: Event) -> None:
        events.append(event)
        watch(event)

    with cluster(RayTarget(address=ADDRESS), sweep.platform) as here:
        Runner(here, Dispatch(groups, {}, bracketed=False), job, emit, measure).run()
    return events


def records(events: list[Event]) -> list[CellRecord]:
    return [event.record for event in events if isinstance(event, CellDone)]


def test_each_node_takes_groups(machines: Machines, sweep: SweepConfig) -> None:
    told = records(carried_out(sweep, grid({"a": 1, "b": 1, "c": 1}, 1), simulated_group))
    assert {r.node for r in told} == {"spark0", "spark1", "spark2"}


def test_a_group_over_two_nodes_holds_a_machine_of_each(
    machines: Machines, sweep: SweepConfig
) -> None:
    (told,) = records(carried_out(sweep, grid({"wide": 2}, 0), what_is_held))
    first, second = (told.node or "").split("+")
    assert first != second
    assert told.status_reason.count("machine") == 2


def test_a_node_lost_in_the_middle_costs_no_cell_and_one_that_is_added_is_used(
    machines: Machines, sweep: SweepConfig
) -> None:
    changes: list[threading.Thread] = []

    def watch(event: Event) -> None:
        if not changes and isinstance(event, CellDone) and event.record.node == "spark1":
            changes.append(threading.Thread(target=machines.kill, args=(1,)))
            changes.append(threading.Thread(target=machines.add, args=(3,)))
            for change in changes:
                change.start()

    groups = grid({"a": 1, "b": 1, "c": 1}, 5)
    events = carried_out(sweep, groups, slow_simulated_group, watch)
    for change in changes:
        change.join()
    told = records(events)
    assert len(told) == len({r.fingerprint for r in told}) == 2 * len(groups)
    assert [(r.at.label, r.node, r.status_reason) for r in told if r.status != "OK"] == []
    assert "spark3" in {r.node for r in told}
    lost = {e.record.fingerprint: e.record for e in events if isinstance(e, CellLost)}
    again = {r.fingerprint: r for r in told if r.attempt == 2}
    assert lost.keys() == again.keys() != set()
    assert {r.node for r in lost.values()} == {"spark1"}
    assert "spark1" not in {r.node for r in again.values()}
    assert {f.kind for r in again.values() for f in r.earlier} <= {"NODE_LOST", "WORKER_LOST"}


@pytest.mark.engine
def test_a_real_sweep_of_a_real_engine_runs_on_a_node_of_the_cluster(
    machines: Machines, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path)
    code, said = sweep.run("dataset=echo", "method=ngram", "tracking=off", f"ray.address={ADDRESS}")
    assert code == 0, said
    (record,) = sweep.cells().values()
    assert record.node in {"spark0", "spark2", "spark3"}
    assert record.counts is not None
    assert record.counts.drafts > 0
    assert sweep.processes() == []
