"""Engine groups as Ray tasks, events back to the driver. The only module that imports Ray.

A task per engine group, never retried by Ray (that would hide a crash and spoil the timing), in a
worker process of its own, on the node that `pipeline.execution.dispatch` chose. Each asks for its
GPUs and for the `machine` resource, of which a node has one, so that two sweeps on one cluster do
not meet on a node; on a machine without GPUs both are logical.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

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

import psutil
import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    OutOfDiskError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
)
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

import pipeline
from pipeline.execution import leftovers
from pipeline.execution.events import Event, GroupJob, LeftoversEnded, StartDone
from pipeline.execution.guard import Guard, guarded
from pipeline.execution.nodes import call_this_node, names, safe
from pipeline.execution.reach import ClusterError as ClusterError
from pipeline.execution.reach import ClusterLostError, TaskLostError, reach
from pipeline.execution.runner import Lost, Measure, Node
from pipeline.spec import PlatformSpec, RayTarget

J = TypeVar("J")
R = TypeVar("R")
MACHINE = "machine"
# Records are small; a Spark's memory is the model's.
_OBJECT_STORE_BYTES = 200 * 1024**2
_NODE_ID = "ray.io/node-id"
# How often a Ray of one's own is started again while nothing is measured yet.
_RESTARTS = 3


class Cluster:
    """A connection to a cluster; one that was started here can be started again."""

    def __init__(self, target: RayTarget, platform: PlatformSpec, guard: Guard | None) -> None:
        self._target, self._platform, self._guard = target, platform, guard
        self._processes: list[psutil.Process] = []
        self._spread: dict[Any, Any] = {}
        self._names: dict[str, str] = {}
        self.connect()

    def connect(self) -> None:
        """Connect, or start Ray here.

        Raises:
            ClusterError: Ray cannot be reached or started.
        """
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._target.address is not None:
            options["address"] = self._target.address
            # Nodes run this driver's own code, whatever is installed there.
            options["runtime_env"] = {"py_modules": [str(Path(pipeline.__file__).parent)]}
        else:
            options |= {
                # Never one that somebody else has running here.
                "address": "local",
                "include_dashboard": False,
                "num_gpus": self._platform.logical_gpus,
                "resources": {MACHINE: 1},
                "object_store_memory": _OBJECT_STORE_BYTES,
            }
        for last in (False, True):
            try:
                reach(self._target.address)
                ray.init(**options)
                break
            except Exception as error:
                # Ray gives its own processes half a minute, which a busy machine may not manage at
                # first and does once files are read; and one that was killed is started again.
                if last or not self.local:
                    raise ClusterError(self._target.address, error) from error
                self._end()
        if self._guard is not None:
            self._guard.note()
        # A cluster that is only joined may well have nodes below this process, and may lose them.
        below = psutil.Process().children(recursive=True) if self.local else []
        self._processes = [p for p in below if leftovers.name_of(p) in ("raylet", "gcs_server")]

    def nodes(self) -> dict[str, Node]:
        """The nodes that are alive, by name; none where Ray's own processes here have ended."""
        if any(not leftovers.runs(p) for p in self._processes):
            return {}
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        self._names = names({id_: _own_name(node) for id_, node in alive.items()}, self._names)
        return {self._names[id_]: _offer(node) for id_, node in alive.items()}

    @property
    def local(self) -> bool:
        """Whether Ray was started here, for this sweep."""
        return self._target.address is None

    def start(self, measure: Measure, job: GroupJob, nodes: Sequence[Node]) -> Any:
        """Start a group's task on its nodes, the first of which drives the engine; its stream."""
        machine = {MACHINE: 1.0} if nodes[0].machine else {}
        if len(nodes) == 1:
            options: dict[str, Any] = {
                "num_gpus": float(max(1, job.group.resources.gpus)),
                "resources": machine,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(nodes[0].id, soft=False),
            }
        else:
            # The machines are held; their GPUs are left for vLLM, which places on them itself.
            spread = placement_group(
                [machine or {"CPU": 1.0} for _ in nodes],
                strategy="STRICT_SPREAD",
                bundle_label_selector=[{_NODE_ID: node.id} for node in nodes],
            )
            options = {"scheduling_strategy": PlacementGroupSchedulingStrategy(spread, 0)}
        task = ray.remote(max_retries=0, max_calls=1, num_cpus=0, num_returns="streaming")(on_node)
        stream = task.options(**options).remote(measure, job)
        if len(nodes) > 1:
            self._spread[stream] = spread
        return stream

    def anywhere(self, function: Callable[[J], R], jobs: Mapping[str, J]) -> tuple[R, ...]:
        """Run a short function for each job somewhere; nothing of it is timed.

        Raises:
            TaskLostError: it crashed twice, or its nodes were lost.
            ClusterLostError: Ray, started here, ended as often.
        """
        for _ in range(_RESTARTS):
            with suppress(ClusterLostError):
                return self._once(function, jobs)
            self.restart()
        return self._once(function, jobs)

    def _once(self, function: Callable[[J], R], jobs: Mapping[str, J]) -> tuple[R, ...]:
        task = ray.remote(max_retries=1, max_calls=1, num_cpus=0)(function)
        pending = {name: task.remote(job) for name, job in jobs.items()}
        return tuple(self._got(name, reference) for name, reference in pending.items())

    def _got(self, name: str, reference: Any) -> Any:
        """What a task returns; Ray alone would wait for ever after its own processes ended."""
        while not ray.wait([reference], timeout=1.0)[0]:
            if not self.nodes():
                raise ClusterLostError(name) if self.local else TaskLostError(name, "no node")
        try:
            return ray.get(reference)
        except RayError as error:
            if self.local and not self.nodes():
                raise ClusterLostError(name) from error
            raise TaskLostError(name, str(error)) from error

    def everywhere(self, function: Callable[[J], R], job: J) -> dict[str, R]:
        """Run a short function on every node; what it says, by node.

        Raises:
            TaskLostError: it crashed twice, or a node was lost.
        """
        task = ray.remote(max_retries=1, max_calls=1, num_cpus=0)(function)
        pending = {
            name: task.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)
            ).remote(job)
            for name, node in self.nodes().items()
        }
        return {name: self._got(f"node {name}", got) for name, got in pending.items()}

    def ready(self, streams: Sequence[Any], seconds: float) -> list[Any]:
        """Those of some streams that have an event, waiting for the first one at most so long."""
        found: list[Any] = ray.wait(list(streams), num_returns=1, timeout=seconds)[0]
        return found

    def event(self, stream: Any) -> Event | None:
        """The next event of a stream that is ready; None at its end.

        Raises:
            Lost: Ray lost the task.
        """
        try:
            event: Event = ray.get(next(stream))
        except StopIteration:
            return None
        except RayError as error:
            raise lost(error, local=self.local) from error
        if self._guard is not None and isinstance(event, StartDone):
            self._guard.note()
        return event

    def release(self, stream: Any) -> None:
        """Give back what a stream's task held on several nodes."""
        if (spread := self._spread.pop(stream, None)) is not None:
            remove_placement_group(spread)

    def restart(self) -> None:
        """Start Ray here again after its processes ended.

        Raises:
            ClusterError: it cannot be started.
        """
        self._end()
        self.connect()

    def _end(self) -> None:
        ray.shutdown()
        if self._guard is not None:
            self._guard.end()


@contextmanager
def cluster(target: RayTarget, platform: PlatformSpec) -> Iterator[Cluster]:
    """A connection to the cluster; one that was started here ends with all it started.

    Raises:
        ClusterError: Ray cannot be reached or started.
    """
    with guarded() if target.address is None else nullcontext() as guard:
        try:
            yield Cluster(target, platform, guard)
        finally:
            ray.shutdown()


def lost(error: RayError, *, local: bool) -> Lost:
    """What an error of Ray tells of a task; of one that raised, its own exception."""
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, RayTaskError):
        cause = error.cause
        # Ray puts an error of its own for an exception that does not travel; its traceback does.
        last = str(error).strip().splitlines()[-1]
        said = last if isinstance(cause, RayError) else f"{type(cause).__name__}: {cause}"
    match error:
        case NodeDiedError() | LocalRayletDiedError():
            kind = "RAYLET_LOST" if local else "NODE_LOST"
        case OutOfMemoryError():
            kind = "OOM_HOST"
        case OutOfDiskError():
            kind = "DISK_FULL"
        case _:
            kind = "WORKER_LOST"
    return Lost(kind, said[:300])


def _own_name(node: dict[str, Any]) -> str:
    """The name a node was given, else its host's."""
    given = node["NodeName"]
    return safe(node["NodeManagerHostname"] if given == node["NodeManagerAddress"] else given)


def _offer(node: dict[str, Any]) -> Node:
    offers = node["Resources"]
    return Node(node["NodeID"], offers.get("GPU", 0.0), bool(offers.get(MACHINE)))


def on_node(measure: Measure, job: GroupJob) -> Iterator[Event]:
    """The task: clear the node of leftovers, then measure."""
    leftovers.die_with_parent()
    call_this_node(job.place)
    if job.group.resources.nodes > 1:
        # vLLM places its workers on the cluster by itself, from the engine's own process.
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    if names := leftovers.clear():
        yield LeftoversEnded(node=job.place, processes=names)
    yield from measure(job)
