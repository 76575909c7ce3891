"""Engine groups as Ray tasks, events back to the driver. The only module that imports Ray.

A task per engine group, never retried by Ray (that would hide a crash and spoil the timing) and in
a worker process of its own. Each asks for its GPUs and for the `machine` resource, of which a node
has one, so that a node runs one engine at a time; on a machine without GPUs both are logical.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Ray's uv hook would build the environment again for every worker, which takes minutes; read by Ray
# when it is imported, so it stands before the import.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A local Ray must not kill the engine over memory that the model is meant to take.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
# Ray runs its workers at a lower priority than everything else on the machine, and the engine with
# them: whatever else runs would then be in the measurement.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.exceptions import RayError

from pipeline.errors import InfrastructureError
from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    Tokenised,
    TokeniseJob,
)
from pipeline.execution.measure import failed
from pipeline.execution.tokenise import tokenise
from pipeline.execution.worker import run_group
from pipeline.records import Failure
from pipeline.spec import PlatformSpec, RayTarget, Resources

MACHINE = "machine"
# Records are small; a Spark's memory is the model's.
_OBJECT_STORE_BYTES = 200 * 1024**2
_CONNECT_S = 5.0


class ClusterError(InfrastructureError):
    """Ray cannot be reached, or cannot start here."""

    def __init__(self, address: str | None, error: Exception) -> None:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        super().__init__(
            f"no Ray cluster ({first[:200]})",
            where=f"ray.address {address}" if address else "ray",
            remedy="start one with 'ray start --head', or leave ray.address null to have one here",
        )


class TaskLostError(InfrastructureError):
    """Ray lost a task that reads prompts."""

    def __init__(self, model: str, error: Exception) -> None:
        first = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        super().__init__(
            f"its prompts could not be turned into tokens ({first[:200]})", where=f"model {model}"
        )


class NoNodeError(InfrastructureError):
    """No node of the cluster can take a group."""

    def __init__(self, needs: dict[str, float], have: dict[str, float]) -> None:
        super().__init__(
            f"no node of the cluster offers {needs}",
            where="ray",
            allowed=f"{ {key: have.get(key, 0.0) for key in needs} } in all",
            remedy="add a node, or choose models that fit",
        )


@contextmanager
def cluster(target: RayTarget, platform: PlatformSpec) -> Iterator[None]:
    """A connection to the cluster; one that was started here ends with it.

    Raises:
        ClusterError: Ray cannot be reached or started.
    """
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if target.address is not None:
        options["address"] = target.address
    else:
        options |= {
            "include_dashboard": False,
            "num_gpus": platform.logical_gpus,
            "resources": {MACHINE: 1},
            "object_store_memory": _OBJECT_STORE_BYTES,
        }
    try:
        _reach(target.address)
        ray.init(**options)
    except Exception as error:
        # A node that is too slow to start is told as a bare Exception.
        raise ClusterError(target.address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str | None) -> None:
    """Find out within seconds that nothing listens at an address; Ray itself tries for minutes."""
    match = re.fullmatch(r"(?:ray://)?(\[[^]]+\]|[^/:]+):(\d+)", address or "")
    if match:
        host, port = match.group(1).strip("[]"), int(match.group(2))
        socket.create_connection((host, port), timeout=_CONNECT_S).close()


def tokenise_all(jobs: Sequence[TokeniseJob]) -> tuple[Tokenised, ...]:
    """Tokenise the prompts of each model, on a node of the cluster.

    Raises:
        TaskLostError: the task crashed or its node was lost.
    """
    task = ray.remote(max_retries=0, max_calls=1, num_cpus=0)(tokenise)
    pending = [(job.model.name, task.remote(job)) for job in jobs]
    return tuple(_tokens(model, reference) for model, reference in pending)


def _tokens(model: str, reference: Any) -> Tokenised:
    try:
        tokens: Tokenised = ray.get(reference)
    except RayError as error:
        raise TaskLostError(model, error) from error
    return tokens


def run_groups(jobs: Iterable[GroupJob], emit: Callable[[Event], None]) -> None:
    """Run every group and hand each event to `emit`, in the driver's thread.

    A task that Ray loses fails the cells it had not delivered; the other groups go on.

    Raises:
        NoNodeError: a group fits on no node.
    """
    # One task object for all: Ray starts tasks of one kind in the order they were submitted.
    task = ray.remote(max_retries=0, max_calls=1, num_cpus=0, num_returns="streaming")(run_group)
    running = {_submit(task, job): _Delivery(job) for job in jobs}
    while running:
        # A second at most, so that a signal to the driver is not kept waiting.
        ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
        for stream in ready:
            for event in running[stream].take(stream):
                emit(event)
            if running[stream].ended:
                del running[stream]


class _Delivery:
    """What a group's task has delivered so far, so that what it lost can be told."""

    def __init__(self, job: GroupJob) -> None:
        self._job = job
        self._missing = {cell.fingerprint: cell for cell in job.group.cells}
        self.ended = False

    def take(self, stream: Any) -> Iterator[Event]:
        """The next event of a stream that is ready."""
        try:
            event: Event = ray.get(next(stream))
        except StopIteration:
            self.ended = True
            return
        except RayError as error:
            self.ended = True
            yield from self._lost(error)
            return
        if isinstance(event, CellDone):
            self._missing.pop(event.record.fingerprint, None)
        yield event

    def _lost(self, error: RayError) -> Iterator[Event]:
        first = (str(error).strip().splitlines() or [""])[0]
        failure = Failure(kind="WORKER_LOST", message=f"{type(error).__name__}: {first[:300]}")
        for cell in self._missing.values():
            yield failed(self._job, cell, failure, None)
        yield GroupEnded(group=self._job.group.id, log=str(error))


def _submit(task: Any, job: GroupJob) -> Any:
    needs = _needs(job.group.resources)
    short = {"GPU" if key == "num_gpus" else key: value for key, value in needs.items()}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(n.get(key, 0.0) >= value for key, value in short.items()) for n in nodes):
        raise NoNodeError(short, ray.cluster_resources())
    gpus = needs.pop("num_gpus")
    return task.options(num_gpus=gpus, resources=needs).remote(job)


def _needs(resources: Resources) -> dict[str, float]:
    """A group's demand: its GPUs (one logical GPU on a machine without), and the whole machine."""
    needs: dict[str, float] = {"num_gpus": float(max(1, resources.gpus))}
    if ray.cluster_resources().get(MACHINE):
        needs[MACHINE] = 1.0
    return needs
