"""A sweep carried out on a simulated cluster: what is lost, what is tried again, what is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.execution import runner
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import (
    CellDone,
    CellLost,
    Event,
    GroupJob,
    StartDone,
    Tokenised,
)
from pipeline.execution.runner import Measure, NoNodeError, Runner
from pipeline.plan import EngineGroup
from pipeline.records import CellRecord
from pipeline.spec import MeasureSpec
from tests.execution.simulated import (
    SimulatedCluster,
    simulated_fault,
    simulated_group,
)
from tests.execution.test_dispatch import grid, group

MEASURE = MeasureSpec.model_validate(
    {"repeats": 1, "warmup": ["one", "two"], "warmup_tokens": 4, "sampling": {}}
)


def job(assignment: Assignment) -> GroupJob:
    return GroupJob(
        sweep="demo",
        start_id="1",
        group=assignment.group,
        tokens=Tokenised(model=assignment.group.model, datasets={}, warmup=()),
        measure=MEASURE,
        place="+".join(assignment.place),
        attempt=assignment.attempt,
        role=assignment.role,
    )


def carried_out(
    cluster: SimulatedCluster,
    groups: list[EngineGroup],
    measure: Measure = simulated_group,
    *,
    bracketed: bool = False,
) -> list[Event]:
    events: list[Event] = []
    baselines = {g.model: g for g in groups if g.method == "none"}
    dispatch = Dispatch(groups, baselines, bracketed=bracketed)
    Runner(cluster, dispatch, job, lambda _, event: events.append(event), measure).run()
    return events


def records(events: list[Event]) -> list[CellRecord]:
    return [event.record for event in events if isinstance(event, CellDone)]


def once(action: Callable[[SimulatedCluster], None]) -> Callable[[SimulatedCluster], None]:
    """A script that acts when the first group has been under way for a turn."""
    turns = iter(range(100))
    return lambda cluster: action(cluster) if next(turns, 0) == 2 else None


def quiet(cluster: SimulatedCluster) -> None: ...


def test_every_cell_is_told_once_with_the_node_it_was_measured_on() -> None:
    told = records(carried_out(SimulatedCluster("n0", "n1", script=quiet), grid({"a": 1}, 3)))
    assert len(told) == len({r.fingerprint for r in told}) == 8
    assert {r.node for r in told} == {"n0", "n1"}


def test_references_come_back_with_their_role() -> None:
    told = records(
        carried_out(SimulatedCluster("n0", script=quiet), grid({"a": 1}, 1), bracketed=True)
    )
    assert [r.role for r in told] == [role for role in ("opening", "cell", "closing") for _ in "ab"]


@pytest.mark.parametrize("kind", ["HANG", "START_TIMEOUT", "CRASH"])
def test_a_cell_that_infrastructure_lost_is_told_after_its_second_try_with_the_first(
    kind: str,
) -> None:
    cluster = SimulatedCluster("n0", script=quiet)
    events = carried_out(cluster, [group("a", "ngram", 2)], simulated_fault(kind))
    assert [(j.attempt, len(j.group.cells)) for j in cluster.jobs] == [(1, 2), (2, 1)]
    assert len([e for e in events if isinstance(e, CellLost)]) == 1
    good, bad = records(events)
    assert (good.status, good.attempt) == ("OK", 1)
    assert (bad.status, bad.attempt) == ("FAILED", 2)
    assert [failure.kind for failure in bad.earlier] == [kind]


def test_a_mistake_is_told_at_once_and_the_other_cells_are_measured() -> None:
    cluster = SimulatedCluster("n0", script=quiet)
    told = records(carried_out(cluster, [group("a", "ngram", 2)], simulated_fault("REFUSED")))
    assert [(r.status, r.attempt) for r in told] == [("FAILED", 1), ("OK", 1)]
    assert len(cluster.jobs) == 1


def test_a_worker_that_is_lost_is_replaced_and_delivers_what_was_missing() -> None:
    cluster = SimulatedCluster("n0", local=True, script=quiet)
    cluster.loses = lambda job, event: isinstance(event, CellDone) and job.attempt == 1
    events = carried_out(cluster, [group("a", "ngram", 2)])
    assert [e.record.failure.kind for e in events if isinstance(e, CellLost) and e.record.failure]
    assert [(r.status, r.attempt) for r in records(events)] == [("OK", 2), ("OK", 2)]


def deadly(cell: str) -> Callable[[GroupJob, Event], bool]:
    """A cell that takes its worker along whenever it is measured."""
    return lambda _, event: isinstance(event, CellDone) and event.record.fingerprint == cell


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_a_cell_that_always_takes_its_worker_along_fails_alone(
    monkeypatch: pytest.MonkeyPatch, index: int, local: bool
) -> None:
    monkeypatch.setattr(runner, "_SUSPECT_S", 0.1)
    groups = grid({"a": 1}, 1)
    culprit = groups[1].cells[index].fingerprint
    cluster = SimulatedCluster("n0", local=local, script=quiet)
    cluster.loses = deadly(culprit)
    told = {r.fingerprint: r for r in records(carried_out(cluster, groups))}
    bad = told.pop(culprit)
    assert [(r.status, r.attempt) for r in told.values()] == [("OK", 1)] * 3
    assert (bad.status, bad.attempt) == ("FAILED", 2)
    assert bad.failure is not None
    assert [f.kind for f in (bad.failure, *bad.earlier)] == ["WORKER_LOST"] * 2


def test_a_start_that_always_takes_its_worker_along_is_made_twice_and_not_for_each_cell() -> None:
    cluster = SimulatedCluster("n0", local=True, script=quiet)
    cluster.loses = lambda job, event: isinstance(event, StartDone) and job.group.method != "none"
    told = records(carried_out(cluster, grid({"a": 1}, 1)))
    assert [(job.group.method, job.attempt) for job in cluster.jobs] == [
        ("none", 1),
        ("ngram", 1),
        ("ngram", 2),
    ]
    assert [(r.status, r.attempt) for r in told] == [("OK", 1)] * 2 + [("FAILED", 2)] * 2


@pytest.mark.parametrize("role", ["opening", "closing"])
def test_a_reference_lost_with_its_raylet_is_measured_once_more(role: str) -> None:
    ended: list[str] = []

    def end_raylet(cluster: SimulatedCluster) -> None:
        if not ended and cluster.jobs and cluster.jobs[-1].role == role:
            ended.append(role)
            cluster.alive.clear()

    cluster = SimulatedCluster("n0", local=True, script=end_raylet)
    told = records(carried_out(cluster, grid({"a": 1}, 1), bracketed=True))
    assert cluster.restarts == 1
    assert [(r.role, r.status) for r in told] == [
        (name, "OK") for name in ("opening", "cell", "closing") for _ in "ab"
    ]
    again = [r for r in told if r.attempt == 2]
    assert {(r.role, *(f.kind for f in r.earlier)) for r in again} == {(role, "RAYLET_LOST")}


@pytest.mark.parametrize("role", ["opening", "closing"])
def test_a_reference_lost_with_its_worker_is_measured_when_the_node_is_trusted_again(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    monkeypatch.setattr(runner, "_SUSPECT_S", 0.5)
    cluster = SimulatedCluster("n0", script=quiet)
    cluster.loses = lambda job, event: (
        isinstance(event, CellDone) and (job.role, job.attempt) == (role, 1)
    )
    told = records(carried_out(cluster, grid({"a": 1}, 1), bracketed=True))
    assert {(r.role, r.status) for r in told} == {
        (name, "OK") for name in ("opening", "cell", "closing")
    }
    assert {r.attempt for r in told if r.role == role} == {2}


def test_a_node_that_lost_a_worker_is_kept_out_of_it_for_a_while() -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    cluster.loses = lambda job, event: isinstance(event, CellDone) and job.place == "n0"
    told = records(carried_out(cluster, grid({"a": 1}, 3)))
    assert {r.status for r in told} == {"OK"}
    assert {r.node for r in told} == {"n1"}
    assert [job.place for job in cluster.jobs].count("n0") == 1


def test_the_only_node_is_waited_for_and_used_again_when_it_lost_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert runner._PATIENCE_S > runner._SUSPECT_S
    monkeypatch.setattr(runner, "_SUSPECT_S", 0.5)
    cluster = SimulatedCluster("n0", script=quiet)
    cluster.loses = lambda job, event: isinstance(event, CellDone) and job.attempt == 1
    told = records(carried_out(cluster, [group("a", "ngram", 2)]))
    assert [(r.status, r.attempt) for r in told] == [("OK", 2), ("OK", 2)]


def test_a_node_that_is_lost_gives_its_group_to_one_that_is_left() -> None:
    cluster = SimulatedCluster("n0", "n1", script=once(lambda c: c.alive.pop("n0")))
    told = records(carried_out(cluster, grid({"a": 1}, 2)))
    assert len(told) == 6
    assert all(r.status == "OK" for r in told)
    assert {r.node for r in told if r.attempt == 2} == {"n1"}


def test_a_node_that_joins_is_used() -> None:
    late = runner.Node("n1", 1.0, True)
    cluster = SimulatedCluster("n0", script=once(lambda c: c.alive.update(n1=late)))
    told = records(carried_out(cluster, grid({"a": 1}, 4)))
    assert {r.node for r in told} == {"n0", "n1"}


def test_a_ray_of_its_own_that_ended_is_started_again() -> None:
    cluster = SimulatedCluster("n0", local=True, script=once(lambda c: c.alive.clear()))
    told = records(carried_out(cluster, grid({"a": 1}, 1)))
    assert cluster.restarts == 1
    assert all(r.status == "OK" for r in told)
    (lost,) = {f.kind for r in told for f in r.earlier}
    assert lost == "RAYLET_LOST"


def test_a_sweep_without_a_node_that_could_go_on_fails_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE_S", 0.0)
    cluster = SimulatedCluster("n0", script=once(lambda c: c.alive.clear()))
    told = records(carried_out(cluster, grid({"a": 1}, 1)))
    assert len(told) == 4
    assert {r.failure.kind for r in told if r.failure} == {"NO_NODE"}


def test_a_group_that_fits_on_no_node_is_refused_before_anything_runs() -> None:
    cluster = SimulatedCluster("n0", script=quiet)
    with pytest.raises(NoNodeError, match=r"no 1 node.*GPU: 8 each.*n0 GPU: 1"):
        carried_out(cluster, [group("a", "none", 0), group("big", "none", 0, gpus=8)])
    assert cluster.jobs == []
