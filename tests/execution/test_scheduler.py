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
from pipeline.execution.reach import ClusterLostError, TaskLostError
from pipeline.execution.runner import Lost, Node, NoNodeError, Runner
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


class Ending(scheduler.Cluster):
    """A Ray of one's own that ends so many times before it does what it is asked."""

    def __init__(self, times: int) -> None:
        self._target = RayTarget()
        self.times, self.restarts = times, 0

    def nodes(self) -> dict[str, Node]:
        return {} if self.restarts < self.times else {"here": Node("1", 1.0, True)}

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What Ray answers for each task in turn; an exception is raised."""
    given: list[object] = []

    def got(_: object) -> object:
        answer = given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(scheduler.ray, "wait", lambda waiting, timeout: (given, []))
    monkeypatch.setattr(scheduler.ray, "get", got)
    monkeypatch.setattr(scheduler.ray, "remote", lambda **_: lambda function: Task())
    return given


class Task:
    def remote(self, job: object) -> object:
        return job


def test_a_ray_that_ends_while_prompts_are_read_is_started_again_each_time(
    answers: list[object],
) -> None:
    ending = Ending(2)
    answers += [exceptions.LocalRayletDiedError(), exceptions.LocalRayletDiedError(), "read"]
    assert ending.anywhere(str, {"model": 1}) == ("read",)
    assert ending.restarts == 2


def test_a_ray_that_ends_again_and_again_is_told_in_a_sentence(answers: list[object]) -> None:
    answers += [exceptions.LocalRayletDiedError()] * 9
    with pytest.raises(ClusterLostError, match="end again and again") as caught:
        Ending(9).anywhere(str, {"model": 1})
    assert caught.value.exit_code == EXIT_NO_INFRASTRUCTURE


def test_a_task_that_fails_while_ray_runs_is_told_as_such(answers: list[object]) -> None:
    answers.append(exceptions.WorkerCrashedError())
    with pytest.raises(TaskLostError, match="no node could look at it"):
        Ending(0).anywhere(str, {"model": 1})


def test_a_ray_of_one_s_own_that_does_not_start_is_tried_twice_and_told_for_what_it_is(
    sweep: SweepConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[object] = []

    def init(**options: object) -> None:
        tries.append(options)
        raise RuntimeError("the raylet died")

    monkeypatch.setattr(scheduler.ray, "init", init)
    with (
        pytest.raises(ClusterError, match=r"the raylet died.*less busy") as caught,
        cluster(RayTarget(), sweep.platform),
    ):
        pass
    assert len(tries) == 2
    assert "ray start" not in str(caught.value)


def on_a_full_disk(job: GroupJob) -> Iterator[Event]:
    raise OSError(errno.ENOSPC, "No space left on device")
    yield


def no_job(assignment: Assignment) -> GroupJob:
    raise AssertionError("nothing may be started")


def ignore(job: GroupJob, event: Event) -> None: ...
