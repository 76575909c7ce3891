"""A cluster in this process, and groups that measure nothing: simulated, and named so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pipeline.execution import worker
from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    Rescored,
    StartDone,
)
from pipeline.execution.measure import failed
from pipeline.execution.runner import Lost, Measure, Node
from pipeline.records import CellRecord, EngineContext, Failure, RescoredOutput
from tests.factories import cell_record, one_pass

SCORED = RescoredOutput(prompt_id="echo-1", repeat=0, gaps=(0.0,) * 3, logprobs=(-0.1,) * 3)


def simulated_cell(job: GroupJob, index: int) -> CellDone:
    """A record whose numbers were made up; its version says so."""
    cell = job.group.cells[index]
    made = cell_record(cell.at, start_id=job.start_id)
    context = EngineContext.model_validate(
        {**(made.context or cell_record().context).model_dump(), "vllm_version": "simulated"}
    )
    update: dict[str, Any] = {
        "fingerprint": cell.fingerprint,
        "group": job.group.id,
        "role": "cell" if job.role == "cells" else job.role,
        "node": job.place,
        "attempt": job.attempt,
        "context": context.model_copy(update={"node": job.place}),
    }
    record: CellRecord = made.model_copy(update=update)
    return CellDone(record=record, passes=(one_pass(),))


def simulated_group(job: GroupJob) -> Iterator[Event]:
    """Every cell of a group, at once."""
    yield GroupStarting(group=job.group.id, node=job.place)
    yield StartDone(group=job.group.id, engines=1, ready=True, log="simulated\n")
    for index in range(len(job.group.cells)):
        yield simulated_cell(job, index)
    yield from simulated_scores(job)
    yield GroupEnded(group=job.group.id, log="simulated\n")


def simulated_scores(job: GroupJob) -> Iterator[Rescored]:
    """What a group was given to score."""
    for other in job.rescore:
        yield Rescored(name=other.name, outputs=(SCORED,))


def simulated_refusal(
    kind: str, refuses: Callable[[GroupJob], bool], measure: Measure = simulated_group
) -> Measure:
    """A group that is measured, but where a node refuses all of it with a kind of fault."""

    def run(job: GroupJob) -> Iterator[Event]:
        if not refuses(job):
            yield from measure(job)
            return
        yield GroupStarting(group=job.group.id, node=job.place)
        failure = Failure(kind=kind, message=f"simulated on {job.place}")
        for cell in job.group.cells:
            yield failed(job, cell, failure, None, job.place)
        yield GroupEnded(group=job.group.id, log="simulated\n")

    return run


def simulated_fault(kind: str) -> Measure:
    """A group whose first cell fails with a kind of fault; the others are measured."""

    def run(job: GroupJob) -> Iterator[Event]:
        yield GroupStarting(group=job.group.id, node=job.place)
        failure = Failure(kind=kind, message="simulated")
        for cell in job.group.cells[:1]:
            yield failed(job, cell, failure, None, job.place)
        for index in range(1, len(job.group.cells)):
            yield simulated_cell(job, index)
        yield from simulated_scores(job)
        yield GroupEnded(group=job.group.id, log="simulated\n")

    return run


class SimulatedCluster:
    """Runs each group in this process, an event a turn; `script` says what happens before a turn.

    Args:
        script: called before each look at the nodes, to add or remove some.

    Attributes:
        loses: whether a worker is lost before it tells an event, with what the cluster says of it.
    """

    def __init__(
        self, *names: str, local: bool = False, script: Callable[[SimulatedCluster], None]
    ) -> None:
        self._names = names
        self.alive = {name: Node(name, 1.0, True) for name in names}
        self.local, self.script = local, script
        self.jobs: list[GroupJob] = []
        self.restarts = 0
        self.loses: Callable[[GroupJob, Event], bool] = lambda job, event: False
        self.says = "simulated"

    def nodes(self) -> dict[str, Node]:
        self.script(self)
        return dict(self.alive)

    def restart(self) -> None:
        self.restarts += 1
        self.alive = {name: Node(f"{name}.{self.restarts}", 1.0, True) for name in self._names}

    def start(self, measure: Measure, job: GroupJob, nodes: Sequence[Node]) -> Any:
        self.jobs.append(job)
        return iter(self._events(measure, job))

    def _events(self, measure: Measure, job: GroupJob) -> Iterator[Event]:
        for event in measure(job):
            if self.loses(job, event):
                raise Lost("WORKER_LOST", self.says)
            yield event

    def ready(self, streams: Sequence[Any], seconds: float) -> list[Any]:
        return list(streams)

    def event(self, stream: Any) -> Event | None:
        return next(stream, None)

    def release(self, stream: Any) -> None: ...


def put_in_place(monkeypatch: pytest.MonkeyPatch, engine: type[Any]) -> None:
    """Have a worker use a stand-in for its engines, on a node where nothing is in the way."""
    monkeypatch.setattr(worker, "EngineProcess", engine)
    monkeypatch.setattr(worker, "on_this_node", lambda config: config)
    monkeypatch.setattr(worker, "before_start", lambda engine, resources, hook: ())
