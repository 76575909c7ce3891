"""Groups whose cells are paired and scored, as a worker's are; what they measure is simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.execution.events import (
    CellDone,
    Event,
    GroupEnded,
    GroupJob,
    GroupStarting,
    Rescored,
    StartDone,
)
from pipeline.execution.runner import Measure
from pipeline.methods import BASELINE
from pipeline.outputs import cell_name, companion_name
from pipeline.records import Companion, PromptCost
from tests.execution.simulated import SCORED, simulated_cell, simulated_scores
from tests.factories import one_pass


def costs(decode_s: float) -> tuple[PromptCost, ...]:
    """No two prompts cost the same, nor the same in proportion."""
    return tuple(
        PromptCost(
            prompt_id=f"echo-{n}", repeat=repeat, decode_s=decode_s * (1 + n * decode_s), steps=0.5
        )
        for n in range(6)
        for repeat in range(2)
    )


def paired_cell(job: GroupJob, index: int, baseline_s: float = 0.03) -> CellDone:
    """A cell of a baseline, or of a method with what its job gives it to be compared with."""
    done = simulated_cell(job, index)
    if done.record.at.kind == BASELINE:
        record = done.record.model_copy(update={"costs": costs(baseline_s)})
        return done.model_copy(update={"record": record})
    record = done.record.model_copy(update={"costs": costs(0.02)})
    if job.companion is None:
        record = record.model_copy(update={"pairing": "bracketed"})
        return done.model_copy(update={"record": record})
    assert record.counts is not None
    companion = Companion(status="OK", counts=record.counts, metrics={}, costs=costs(baseline_s))
    update = {"pairing": "interleaved", "companion": companion}
    return done.model_copy(
        update={"record": record.model_copy(update=update), "companion": (one_pass(),)}
    )


def paired_group(job: GroupJob) -> Iterator[Event]:
    """Every cell of a group, each scored where a plain engine is at hand, and what else is asked.

    Simulated: no engine starts, and nothing is measured.
    """
    yield GroupStarting(group=job.group.id, node=job.place)
    yield StartDone(group=job.group.id, engines=1, ready=True, log="simulated\n")
    for index in range(len(job.group.cells)):
        done = paired_cell(job, index)
        yield done
        if job.companion is not None or job.role == "closing":
            yield Rescored(name=cell_name(done.record), outputs=(SCORED,))
        if job.companion is not None:
            yield Rescored(name=companion_name(done.record), outputs=(SCORED,))
    yield from simulated_scores(job)
    yield GroupEnded(group=job.group.id, log="simulated\n")


def stopped_before(condition: Callable[[GroupJob, Event], bool]) -> Measure:
    """Groups in which a signal comes before the first event that meets a condition."""

    def measure(job: GroupJob) -> Iterator[Event]:
        for event in paired_group(job):
            if condition(job, event):
                raise KeyboardInterrupt
            yield event

    return measure


def without_scores(job: GroupJob) -> Iterator[Event]:
    """Groups whose engines are lost whenever they score."""
    yield from (event for event in paired_group(job) if not isinstance(event, Rescored))


def noting(jobs: list[GroupJob], measure: Measure = paired_group) -> Measure:
    """The same groups, their jobs written down."""

    def noted(job: GroupJob) -> Iterator[Event]:
        jobs.append(job)
        yield from measure(job)

    return noted
