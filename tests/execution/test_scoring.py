"""What a group's engines score of other cells: with cells of its own, or for that alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.execution import worker
from pipeline.execution.engine_process import CrashError
from pipeline.execution.events import (
    CellDone,
    GroupEnded,
    GroupJob,
    Rescored,
    RescoreJob,
    StartDone,
    Tokenised,
)
from pipeline.execution.messages import Output, PassJob, PromptJob
from pipeline.plan import EngineConfig
from pipeline.records import PassRecord, RescoredOutput
from pipeline.spec import SweepConfig
from tests.execution.simulated import put_in_place
from tests.factories import coordinates, one_pass, plan

PROMPT = PromptJob(prompt_id="echo-1", category="edit", token_ids=(1,), max_tokens=3)
OTHER = RescoreJob(
    name="other",
    outputs=(Output(prompt_id="echo-1", repeat=0, prompt_token_ids=(1,), output_token_ids=(1, 2)),),
)


class ScoringEngine:
    """Stands in for an engine; `scored` says which configuration scored how many outputs."""

    vllm_version = "scripted"
    preloaded = ()
    dies = False
    scored: list[tuple[str, int]]

    def __init__(self, config: EngineConfig, log: Path) -> None:
        self._name = config.checkpoint
        log.write_text("the engine's own words\n")

    def run(self, job: PassJob) -> PassRecord:
        return one_pass().model_copy(update={"repeat": job.repeat})

    def score(self, outputs: tuple[Output, ...]) -> tuple[RescoredOutput, ...]:
        self.scored.append((self._name, len(outputs)))
        if self.dies:
            raise CrashError(-9, starting=False)
        return tuple(
            RescoredOutput(prompt_id=one.prompt_id, repeat=one.repeat, gaps=(0.0,), logprobs=(0.0,))
            for one in outputs
        )

    def note(self, folder: Path) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[ScoringEngine]:
    class Fresh(ScoringEngine):
        pass

    Fresh.scored = []
    put_in_place(monkeypatch, Fresh)
    return Fresh


@pytest.fixture
def job(sweep: SweepConfig) -> GroupJob:
    """A baseline's engine without cells of its own."""
    (group,) = plan(coordinates("none", 0)).groups
    return GroupJob(
        sweep="demo",
        start_id="1",
        group=group.model_copy(update={"cells": ()}),
        tokens=Tokenised(model="tiny", datasets={"echo": (PROMPT,)}, warmup=(PROMPT,)),
        measure=sweep.measure.model_copy(update={"repeats": 1}),
        take_machine=False,
        rescore=(OTHER,),
    )


def test_a_group_without_cells_starts_one_engine_scores_and_ends(
    engine: type[ScoringEngine], job: GroupJob
) -> None:
    kinds = [type(event) for event in worker.run_group(job)][1:]
    assert kinds == [StartDone, Rescored, GroupEnded]
    assert engine.scored == [("tiny", 1)]


def test_an_engine_that_dies_scoring_is_not_started_again_for_it(
    engine: type[ScoringEngine], job: GroupJob
) -> None:
    engine.dies = True
    kinds = [type(event) for event in worker.run_group(job)][1:]
    assert kinds == [StartDone, GroupEnded]


def test_beside_a_method_it_is_the_baselines_engine_that_scores_what_others_left(
    engine: type[ScoringEngine], job: GroupJob
) -> None:
    (method,) = plan(coordinates()).groups
    baseline = job.group.engine.model_copy(update={"checkpoint": "plain"})
    beside = job.model_copy(update={"group": method, "companion": baseline})
    events = list(worker.run_group(beside))
    (done,) = [event for event in events if isinstance(event, CellDone)]
    assert [e.name for e in events if isinstance(e, Rescored)][-1] == "other"
    assert done.record.failure is None
    assert {name for name, _ in engine.scored} == {"plain"}
