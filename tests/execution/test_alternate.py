"""Prompts alternate between two engines, one at a time, and each side's pass is whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from pipeline.execution.alternate import Engines, run_pass
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.records import CounterDelta, PassRecord, RequestRecord
from pipeline.spec import Sampling

PROMPTS = tuple(
    PromptJob(prompt_id=name, category="c", token_ids=(1, 2), max_tokens=4) for name in "abcd"
)
Turn = tuple[str, str]


@dataclass
class LoggedEngine:
    """Writes down whose turn it is, and answers each prompt in one second of two chunks."""

    name: str
    turns: list[Turn]

    def run(self, job: PassJob) -> PassRecord:
        ids = "".join(prompt.prompt_id for prompt in job.prompts)
        self.turns.append((self.name, ids))
        return PassRecord(
            repeat=job.repeat,
            wall_s=float(len(job.prompts)),
            requests=tuple(answer(p, job.repeat, i) for i, p in enumerate(job.prompts)),
            counters=CounterDelta(drafts=1, drafted=2, accepted=1, accepted_per_position=(1, 0)),
        )


def answer(prompt: PromptJob, repeat: int, at: float) -> RequestRecord:
    return RequestRecord(
        prompt_id=prompt.prompt_id,
        category=prompt.category,
        repeat=repeat,
        prompt_tokens=2,
        output_token_ids=(1, 2, 3),
        text="",
        finish_reason="length",
        sent_s=at,
        chunk_s=(at + 0.5, at + 1.0),
        chunk_tokens=(1, 2),
        drafted=(2,),
        accepted=(1,),
    )


@pytest.fixture
def turns() -> list[Turn]:
    return []


@pytest.fixture
def engines(turns: list[Turn]) -> Engines:
    method, baseline = LoggedEngine("method", turns), LoggedEngine("baseline", turns)
    return Engines(cast(EngineProcess, method), cast(EngineProcess, baseline))


def test_prompts_alternate_and_so_does_which_engine_goes_first(
    engines: Engines, turns: list[Turn]
) -> None:
    run_pass(engines, PROMPTS, 1, 0, Sampling())
    assert [prompt for _, prompt in turns] == list("aabbccdd")
    firsts = [turns[i][0] for i in range(0, 8, 2)]
    assert firsts == ["method", "baseline", "method", "baseline"]


def test_another_repeat_begins_with_the_other_engine(engines: Engines, turns: list[Turn]) -> None:
    run_pass(engines, PROMPTS, 1, 1, Sampling())
    assert turns[0] == ("baseline", "a")


def test_a_side_s_pass_is_set_end_to_end_without_the_other_side_s_turns(engines: Engines) -> None:
    sides = run_pass(engines, PROMPTS, 1, 0, Sampling())
    assert sides.companion is not None
    for side in (sides.measured, sides.companion):
        assert [r.prompt_id for r in side.requests] == list("abcd")
        assert side.wall_s == 4.0
        assert [r.sent_s for r in side.requests] == [0.0, 1.0, 2.0, 3.0]
        assert [r.chunk_s for r in side.requests][-1] == (3.5, 4.0)
        assert side.counters == CounterDelta(
            drafts=4, drafted=8, accepted=4, accepted_per_position=(4, 0)
        )


def test_requests_in_flight_together_are_not_cut_apart(engines: Engines, turns: list[Turn]) -> None:
    run_pass(engines, PROMPTS, 2, 0, Sampling())
    assert turns == [("method", "abcd"), ("baseline", "abcd")]


def test_a_lone_engine_runs_a_pass_in_one_piece(turns: list[Turn]) -> None:
    alone = Engines(cast(EngineProcess, LoggedEngine("baseline", turns)))
    sides = run_pass(alone, PROMPTS, 1, 0, Sampling())
    assert turns == [("baseline", "abcd")]
    assert sides.companion is None


def test_only_the_measured_engine_s_turns_are_told_for_its_energy(engines: Engines) -> None:
    sides = run_pass(engines, PROMPTS, 1, 0, Sampling())
    assert len(sides.spans) == len(PROMPTS)
    assert all(begin <= end for begin, end in sides.spans)
    assert list(sides.spans) == sorted(sides.spans)
