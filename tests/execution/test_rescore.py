"""Outputs scored by the plain engine: real methods pass, a wrong verification does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pipeline.analysis.losslessness import check_greedy
from pipeline.analysis.statistics import Rule
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import Tokenised
from pipeline.execution.messages import Output, PassJob
from pipeline.execution.rescore import to_score
from pipeline.plan import EngineConfig
from pipeline.records import RescoredOutput
from pipeline.spec import Sampling
from tests.factories import one_pass

GREEDY = Sampling()
RULE = Rule()


def test_of_greedy_repeats_one_is_scored_and_of_sampled_ones_all(tokens: Tokenised) -> None:
    (prompt,) = tokens.datasets["echo"][:1]
    (request,) = one_pass().requests
    requests = [
        request.model_copy(update={"prompt_id": prompt.prompt_id, "repeat": n}) for n in range(2)
    ]
    greedy = to_score(requests, [prompt], GREEDY)
    sampled = to_score(requests, [prompt], Sampling(temperature=0.7))
    assert [one.repeat for one in greedy] == [0]
    assert [one.repeat for one in sampled] == [0, 1]
    assert greedy[0].prompt_token_ids == prompt.token_ids


def answers(
    engine: EngineProcess, tokens: Tokenised, sampling: Sampling = GREEDY
) -> tuple[Output, ...]:
    prompts = tokens.datasets["echo"]
    passed = engine.run(PassJob(repeat=0, prompts=prompts, concurrency=1, sampling=sampling))
    return to_score(passed.requests, prompts, GREEDY)


@pytest.fixture(scope="module")
def plain(
    ngram_config: EngineConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineProcess]:
    config = ngram_config.model_copy(update={"speculative": None})
    engine = EngineProcess(config, tmp_path_factory.mktemp("plain") / "engine.log")
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def floor(plain: EngineProcess, tokens: Tokenised) -> tuple[RescoredOutput, ...]:
    return plain.score(answers(plain, tokens))


@pytest.mark.engine
def test_plain_decoding_chose_what_it_scores_highest_but_for_rounding(
    floor: Sequence[RescoredOutput],
) -> None:
    gaps = [gap for one in floor for gap in one.gaps]
    assert len(gaps) > 90
    assert max(gaps) < 0.5
    assert sum(gap > 0.1 for gap in gaps) <= len(gaps) * 0.03
    assert all(logprob <= 0 for one in floor for logprob in one.logprobs)


@pytest.mark.engine
def test_a_method_s_real_output_is_lossless(
    plain: EngineProcess,
    ngram_engine: EngineProcess,
    floor: Sequence[RescoredOutput],
    tokens: Tokenised,
) -> None:
    found = plain.score(answers(ngram_engine, tokens))
    assert check_greedy(found, floor, RULE).verdict == "lossless"


@pytest.mark.engine
def test_swapped_tokens_are_found_at_their_place(
    plain: EngineProcess, floor: Sequence[RescoredOutput], tokens: Tokenised
) -> None:
    first, *others = answers(plain, tokens)
    ids = list(first.output_token_ids)
    ids[5], ids[6] = ids[6], ids[5]
    swapped = first.model_copy(update={"output_token_ids": tuple(ids)})
    check = check_greedy(plain.score([swapped, *others]), floor, RULE)
    assert check.verdict == "not lossless"
    assert check.widest is not None
    assert check.widest.prompt_id == first.prompt_id
    assert check.widest.position in (5, 6, 7)


@pytest.mark.engine
def test_an_option_that_changes_what_is_drawn_is_found(
    plain: EngineProcess,
    ngram_engine: EngineProcess,
    floor: Sequence[RescoredOutput],
    tokens: Tokenised,
) -> None:
    penalised = Sampling(repetition_penalty=1.3)
    wrong = plain.score(answers(ngram_engine, tokens, penalised))
    assert check_greedy(wrong, floor, RULE).verdict == "not lossless"
