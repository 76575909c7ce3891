"""A real engine with n-gram drafts: what one pass reports has to agree with itself."""

from __future__ import annotations

import pytest

from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import Tokenised
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.records import PassRecord
from pipeline.spec import Sampling

pytestmark = pytest.mark.engine


def a_pass(engine: EngineProcess, prompts: tuple[PromptJob, ...], **options: object) -> PassRecord:
    job = {"repeat": 0, "concurrency": 1, "sampling": Sampling(), "prompts": prompts, **options}
    return engine.run(PassJob.model_validate(job))


@pytest.fixture(scope="module")
def one(ngram_engine: EngineProcess, tokens: Tokenised) -> PassRecord:
    return a_pass(ngram_engine, tokens.datasets["echo"])


def test_every_prompt_is_answered_once_in_the_order_given(
    one: PassRecord, tokens: Tokenised
) -> None:
    assert [r.prompt_id for r in one.requests] == [p.prompt_id for p in tokens.datasets["echo"]]


def test_no_answer_is_longer_than_its_cap(one: PassRecord, tokens: Tokenised) -> None:
    caps = {p.prompt_id: p.max_tokens for p in tokens.datasets["echo"]}
    for request in one.requests:
        assert 1 <= len(request.output_token_ids) <= caps[request.prompt_id]


def test_chunks_hold_every_token_and_come_in_order_after_the_request_was_sent(
    one: PassRecord,
) -> None:
    for request in one.requests:
        assert sum(request.chunk_tokens) == len(request.output_token_ids)
        assert len(request.chunk_s) == len(request.chunk_tokens)
        assert list(request.chunk_s) == sorted(request.chunk_s)
        assert request.sent_s < request.chunk_s[0]
        assert request.chunk_s[-1] <= one.wall_s


def test_the_engines_counters_equal_the_sum_over_its_requests(one: PassRecord) -> None:
    assert one.counters is not None
    accepted = [a for r in one.requests for a in r.accepted or ()]
    assert one.counters.drafts == len(accepted) > 0
    assert one.counters.accepted == sum(accepted)
    assert one.counters.drafted == sum(d for r in one.requests for d in r.drafted or ())
    per_position = [sum(a > i for a in accepted) for i in range(4)]
    assert list(one.counters.accepted_per_position) == per_position


def test_each_chunk_holds_the_accepted_tokens_of_its_step_and_one_more(one: PassRecord) -> None:
    for request in one.requests:
        extra = sum(n - 1 for n in request.chunk_tokens)
        accepted = sum(request.accepted or ())
        # The last step may accept tokens that the cap or the end of text cuts off.
        assert accepted - 4 <= extra <= accepted


def test_greedy_answers_repeat_exactly(
    ngram_engine: EngineProcess, tokens: Tokenised, one: PassRecord
) -> None:
    again = a_pass(ngram_engine, tokens.datasets["echo"], repeat=1)
    assert [r.output_token_ids for r in again.requests] == [
        r.output_token_ids for r in one.requests
    ]


def test_two_requests_at_once_overlap_in_time(
    ngram_engine: EngineProcess, tokens: Tokenised
) -> None:
    both = a_pass(ngram_engine, tokens.datasets["echo"][:2], concurrency=2)
    first, second = both.requests
    assert second.sent_s < first.chunk_s[-1]
    assert first.chunk_s[0] < second.chunk_s[-1]


def test_sampling_with_another_seed_gives_another_answer(
    ngram_engine: EngineProcess, tokens: Tokenised
) -> None:
    answers = {
        a_pass(
            ngram_engine,
            tokens.datasets["echo"][:1],
            sampling=Sampling(temperature=1.5, seed=seed),
        )
        .requests[0]
        .output_token_ids
        for seed in (1, 2, 3)
    }
    assert len(answers) > 1
