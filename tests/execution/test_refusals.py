"""Nodes that cannot take what they are given, on a simulated cluster: others are asked."""

from __future__ import annotations

import pytest

from tests.execution.simulated import SimulatedCluster, simulated_refusal
from tests.execution.test_dispatch import grid, group
from tests.execution.test_runner import carried_out, quiet, records


@pytest.mark.parametrize("kind", ["PREFLIGHT", "MachineBusyError", "CheckpointReferenceError"])
def test_what_one_node_refuses_is_measured_by_another(kind: str) -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    sick = simulated_refusal(kind, lambda job: job.place == "n0")
    told = records(carried_out(cluster, grid({"a": 1}, 3), sick))
    assert [(r.status, r.attempt, r.node) for r in told] == [("OK", 1, "n1")] * 8
    assert {f.message for r in told for f in r.earlier} == {"simulated on n0"}


def test_a_sick_node_is_given_nothing_else_while_others_have_work() -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    sick = simulated_refusal("PREFLIGHT", lambda job: job.place == "n0")
    carried_out(cluster, grid({"a": 1}, 5), sick)
    assert [job.place for job in cluster.jobs].count("n0") == 1


def test_a_node_that_lacks_one_models_checkpoint_measures_the_others() -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    lacks = simulated_refusal(
        "CheckpointReferenceError", lambda job: (job.place, job.group.model) == ("n0", "a")
    )
    told = records(carried_out(cluster, grid({"a": 1, "b": 1}, 3), lacks))
    assert {r.status for r in told} == {"OK"}
    assert {r.at.model for r in told if r.node == "n0"} == {"b"}


def test_what_every_node_refuses_fails_and_is_told_with_each_refusal() -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    told = records(
        carried_out(cluster, grid({"a": 1}, 1), simulated_refusal("PREFLIGHT", lambda job: True))
    )
    assert [r.status for r in told] == ["FAILED"] * 4
    for record in told:
        assert record.failure is not None
        nodes = {f.message for f in (record.failure, *record.earlier)}
        assert nodes == {"simulated on n0", "simulated on n1"}


def test_what_the_only_node_refuses_is_told_at_once() -> None:
    cluster = SimulatedCluster("n0", local=True, script=quiet)
    told = records(
        carried_out(cluster, grid({"a": 1}, 1), simulated_refusal("PREFLIGHT", lambda job: True))
    )
    assert [(r.status, r.attempt, r.earlier) for r in told] == [("FAILED", 1, ())] * 4
    assert len(cluster.jobs) == 2


def test_a_worker_lost_to_a_full_disk_counts_as_its_nodes_refusal() -> None:
    cluster = SimulatedCluster("n0", "n1", script=quiet)
    cluster.says = "OSError: [Errno 28] No space left on device"
    cluster.loses = lambda job, _: job.place == "n0"
    told = records(carried_out(cluster, [group("a", "ngram", 2)]))
    assert [(r.status, r.attempt, r.node) for r in told] == [("OK", 1, "n1")] * 2
    (cause,) = {f for r in told for f in r.earlier}
    assert cause.kind == "DISK_FULL"
    assert "make room" in cause.cause
