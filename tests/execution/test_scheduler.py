"""What is told when there is no cluster, or none that fits. Ray itself is real."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator

import pytest

from pipeline.errors import EXIT_NO_INFRASTRUCTURE
from pipeline.execution import scheduler
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import Event, GroupJob
from pipeline.execution.faults import diagnosed
from pipeline.execution.runner import Lost, NoNodeError, Runner
from pipeline.execution.scheduler import ClusterError, cluster, lost
from pipeline.execution.worker import run_group
from pipeline.records import Failure
from pipeline.spec import RayTarget, Resources, SweepConfig
from tests.execution.test_dispatch import group
from tests.execution.test_runner import job
from tests.factories import coordinates, plan

# By way of the module that sets Ray's environment before it imports it.
exceptions = scheduler.ray.exceptions


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


def raised(cause: Exception) -> Exception:
    """What Ray raises in the driver where a task raised."""
    trace = f'ray::on_node() (pid=7, ip=10.0.0.2)\n  File "w.py", line 3\n{cause!r}'
    made = exceptions.RayTaskError("on_node", trace, cause, "ray::on_node()", 7, "10.0.0.2")
    told: Exception = made.as_instanceof_cause()
    return told


@pytest.mark.parametrize(
    ("error", "kind", "found"),
    [
        (raised(OSError(errno.ENOSPC, "No space left on device")), "WORKER_LOST", "DISK_FULL"),
        (raised(MemoryError()), "WORKER_LOST", "OOM_HOST"),
        (raised(ValueError("no such thing")), "WORKER_LOST", "WORKER_LOST"),
        (exceptions.WorkerCrashedError(), "WORKER_LOST", "WORKER_LOST"),
        (exceptions.NodeDiedError("the node died"), "NODE_LOST", "NODE_LOST"),
        (exceptions.OutOfMemoryError("the node ran low on memory"), "OOM_HOST", "OOM_HOST"),
    ],
)
def test_a_lost_task_is_told_with_what_ended_it(error: Exception, kind: str, found: str) -> None:
    told = lost(error, local=False)
    assert told.kind == kind
    assert "ray::" not in str(told)
    assert diagnosed(Failure(kind=told.kind, message=str(told))).kind == found


def test_an_exception_that_does_not_travel_is_told_by_its_traceback() -> None:
    class LocalError(Exception):
        def __reduce__(self) -> str:
            raise TypeError("stays here")

    assert str(lost(raised(LocalError("no luck")), local=True)) == "LocalError('no luck')"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_task_that_finds_its_disk_full_is_lost_with_that_for_a_reason(sweep: SweepConfig) -> None:
    assignment = Assignment(group=group("a", "ngram", 2), role="cells", place=("here",))
    with cluster(RayTarget(), sweep.platform) as here:
        (node,) = here.nodes().values()
        stream = here.start(on_a_full_disk, job(assignment), [node])
        here.ready([stream], 60.0)
        with pytest.raises(Lost, match=r"^OSError: \[Errno 28\] No space left on device") as caught:
            here.event(stream)
    assert caught.value.kind == "WORKER_LOST"


def on_a_full_disk(job: GroupJob) -> Iterator[Event]:
    raise OSError(errno.ENOSPC, "No space left on device")
    yield


def no_job(assignment: Assignment) -> GroupJob:
    raise AssertionError("nothing may be started")


def ignore(job: GroupJob, event: Event) -> None: ...
