"""A sweep carried out: assignments to nodes, events to the driver, whatever is lost on the way.

It knows a cluster only by what it can do; `pipeline.execution.scheduler` makes one of Ray.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pipeline.errors import InfrastructureError
from pipeline.execution.delivery import Delivery
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import Event, GroupJob
from pipeline.execution.faults import spoils_node
from pipeline.plan import EngineGroup
from pipeline.records import Failure
from pipeline.spec import Resources

Measure = Callable[[GroupJob], Iterator[Event]]
# How long a node that lost a worker is kept out of it: a node that dies shows first by that, and
# the cluster is sure of it only after its health checks have failed, by Ray's defaults five of up
# to 13 s each.
_SUSPECT_S = 90.0
# How long a node that refused an engine is given nothing while others have work: another sweep, a
# hot GPU or a full disk are seldom gone within minutes.
_REFUSED_S = 600.0
# How long a sweep without a node that could go on waits for one to join, or to be trusted again.
_PATIENCE_S = _SUSPECT_S + 60.0


class Node(NamedTuple):
    """A node of the cluster: its id there, its GPUs, and whether it counts its machine."""

    id: str
    gpus: float
    machine: bool


class Lost(Exception):  # noqa: N818 - what happened to a task, not a mistake of anybody's
    """A task that the cluster lost: the kind of fault, and what the cluster says."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Cluster(Protocol):
    """What is asked of a cluster."""

    @property
    def local(self) -> bool:
        """Whether it was started here, for this sweep."""

    def nodes(self) -> dict[str, Node]:
        """The nodes that are alive, by name."""

    def restart(self) -> None:
        """Start it again; only where it is local."""

    def start(self, measure: Measure, job: GroupJob, nodes: Sequence[Node]) -> Any:
        """Start a group's task on its nodes, the first of which drives the engine; its stream."""

    def ready(self, streams: Sequence[Any], seconds: float) -> list[Any]:
        """Those of some streams that have an event, waiting for the first one at most so long."""

    def event(self, stream: Any) -> Event | None:
        """The next event of a stream that is ready; None at its end; raises Lost."""

    def release(self, stream: Any) -> None:
        """Give back what a stream's task held on several nodes."""


class NoNodeError(InfrastructureError):
    """No node of the cluster can take a group."""

    def __init__(self, needs: Resources, have: Mapping[str, Node]) -> None:
        super().__init__(
            f"no {needs.nodes} node(s) of the cluster offer GPU: {max(1, needs.gpus)} each",
            where="ray",
            allowed=", ".join(f"{name} GPU: {node.gpus:g}" for name, node in have.items())
            or "none",
            remedy="add a node, or choose models that fit",
        )


class _Running(NamedTuple):
    assignment: Assignment
    delivery: Delivery


class Runner:
    """A dispatch carried out on a cluster.

    Args:
        make_job: what the task of an assignment is given.
        emit: told of each event, in the driver's thread.
        measure: runs on a node.
        more: asked after each group which others have fallen due by what it measured.
        last: asked once nothing is left what falls due by that.
    """

    def __init__(
        self,
        cluster: Cluster,
        dispatch: Dispatch,
        make_job: Callable[[Assignment], GroupJob],
        emit: Callable[[GroupJob, Event], None],
        measure: Measure,
        more: Callable[[], Sequence[EngineGroup]] = tuple,
        last: Callable[[], Sequence[EngineGroup]] = tuple,
    ) -> None:
        self._more, self._last = more, last
        self._cluster, self._dispatch = cluster, dispatch
        self._make_job, self._emit, self._measure = make_job, emit, measure
        self._nodes: dict[str, Node] = {}
        # Until when, on the monotonic clock, a node is kept out that lost a worker, or refused one.
        self._suspects: dict[str, float] = {}
        self._refusers: dict[str, float] = {}
        self._streams: dict[Any, _Running] = {}
        self._earlier: dict[tuple[str, str], tuple[Failure, ...]] = {}

    def run(self) -> None:
        """Run everything; a group that is lost does not stop the others.

        Raises:
            NoNodeError: no node there is could take one of the groups.
            ClusterError: Ray ended here and could not be started again.
        """
        self._look()
        for group in self._dispatch.unplaceable():
            raise NoNodeError(group.resources, self._nodes)
        patience = time.monotonic() + _PATIENCE_S
        while True:
            while assignment := self._dispatch.next():
                self._start(assignment)
            if self._streams:
                patience = time.monotonic() + _PATIENCE_S
                self._deliver()
            elif self._dispatch.finished:
                if not (late := self._last()):
                    return
                self._dispatch.add(late)
            else:
                self._idle(patience)
            self._look()

    def _idle(self, patience: float) -> None:
        """Nothing runs, and nobody takes what waits."""
        now = time.monotonic()
        if self._refusers and max(self._suspects.values(), default=0.0) <= now:
            # Nobody else is left to do it, so they are asked again.
            self._refusers.clear()
            return
        if now > patience:
            self._give_up()
        time.sleep(1.0)

    def _look(self) -> None:
        """Tell the dispatch which nodes left and joined since."""
        now = self._cluster.nodes()
        if not now and self._cluster.local:
            self._left(self._nodes, "RAYLET_LOST", "Ray's own processes on this machine ended")
            self._cluster.restart()
            now = self._cluster.nodes()
        gone = [name for name, node in self._nodes.items() if now.get(name) != node]
        self._left(gone, "NODE_LOST", "the node left the cluster")
        for name in [name for name in now if name not in self._nodes]:
            self._dispatch.joined(name, now[name].gpus)
        self._nodes = now
        clock = time.monotonic()
        kept_out = (*self._suspects.items(), *self._refusers.items())
        self._dispatch.keep_out(name for name, until in kept_out if until > clock)

    def _left(self, names: Iterable[str], kind: str, message: str) -> None:
        for name in list(names):
            del self._nodes[name]
            for lost in self._dispatch.left(name):
                for stream, running in list(self._streams.items()):
                    if running.assignment is lost:
                        self._lose(stream, kind, f"{message} ({name})")

    def _start(self, assignment: Assignment) -> None:
        job = self._make_job(assignment)
        nodes = [self._nodes[name] for name in assignment.place]
        earlier = {f: why for (f, role), why in self._earlier.items() if role == assignment.role}
        stream = self._cluster.start(self._measure, job, nodes)
        delivery = Delivery(job, earlier, lambda: self._dispatch.elsewhere(assignment))
        self._streams[stream] = _Running(assignment, delivery)

    def _deliver(self) -> None:
        # A second at most, so that neither a signal nor a lost node is kept waiting.
        for stream in self._cluster.ready(list(self._streams), 1.0):
            delivery = self._streams[stream].delivery
            try:
                event = self._cluster.event(stream)
            except Lost as error:
                if not self._cluster.local:
                    places = self._streams[stream].assignment.place
                    self._suspects |= dict.fromkeys(places, time.monotonic() + _SUSPECT_S)
                self._lose(stream, error.kind, str(error))
                continue
            if event is None:
                self._end(stream)
            else:
                self._emit(delivery.job, delivery.take(event))

    def _lose(self, stream: Any, kind: str, message: str) -> None:
        delivery = self._streams[stream].delivery
        for event in delivery.lose(kind, message):
            self._emit(delivery.job, event)
        self._end(stream)

    def _end(self, stream: Any) -> None:
        assignment, delivery = self._streams.pop(stream)
        self._cluster.release(stream)
        for fingerprint, why in (*delivery.lost.items(), *delivery.refused.items()):
            key = (fingerprint, assignment.role)
            self._earlier[key] = (*self._earlier.get(key, ()), why)
        if any(spoils_node(why) for why in delivery.refused.values()):
            self._refusers[assignment.place[0]] = time.monotonic() + _REFUSED_S
        self._dispatch.ended(assignment, delivery.outcome)
        self._dispatch.add(self._more())

    def _give_up(self) -> None:
        for assignment in self._dispatch.give_up():
            job = self._make_job(assignment)
            earlier = {f: why for (f, _), why in self._earlier.items()}
            delivery = Delivery(job, earlier, lambda: False)
            for event in delivery.lose("NO_NODE", "no node is left for it"):
                self._emit(job, event)
