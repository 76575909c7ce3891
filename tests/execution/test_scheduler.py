"""What is told when there is no cluster, or none that fits. Ray itself is real."""

from __future__ import annotations

import socket
import time

import pytest

from pipeline.errors import EXIT_NO_INFRASTRUCTURE
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import Event, GroupJob
from pipeline.execution.runner import NoNodeError, Runner
from pipeline.execution.scheduler import ClusterError, cluster
from pipeline.execution.worker import run_group
from pipeline.spec import RayTarget, Resources, SweepConfig
from tests.factories import coordinates, plan


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_told_within_seconds(
    sweep: SweepConfig, scheme: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with (
        pytest.raises(ClusterError, match=r"no Ray cluster.*ray start --head") as caught,
        cluster(RayTarget(address=address), sweep.platform),
    ):
        pass
    assert time.monotonic() - began < 10
    assert caught.value.exit_code == EXIT_NO_INFRASTRUCTURE


def test_a_cluster_that_asks_for_a_token_is_told_from_one_that_is_not_there() -> None:
    error = ConnectionError("Failed to connect to Ray cluster at spark0:6379")
    error.__cause__ = RuntimeError("InvalidAuthToken: Authentication token is missing")
    told = str(ClusterError("spark0:6379", error))
    assert "RAY_AUTH_MODE=token" in told
    assert "ray start" not in told


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_group_that_fits_on_no_node_is_refused_before_anything_runs(
    sweep: SweepConfig,
) -> None:
    (group,) = plan(coordinates()).groups
    big = group.model_copy(update={"resources": Resources(gpus=8)})
    with (
        cluster(RayTarget(), sweep.platform) as here,
        pytest.raises(NoNodeError, match=r"no 1 node.*GPU: 8 each.*GPU: 1"),
    ):
        Runner(here, Dispatch([big], {}, bracketed=False), no_job, ignore, run_group).run()


def no_job(assignment: Assignment) -> GroupJob:
    raise AssertionError("nothing may be started")


def ignore(job: GroupJob, event: Event) -> None: ...
