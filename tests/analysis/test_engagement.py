import pytest
from hypothesis import given

from pipeline.analysis.engagement import judge
from pipeline.records import CounterDelta, PassRecord
from tests.analysis.passes import (
    Step,
    counters,
    counters_only,
    one_pass,
    passes,
    request,
    with_counters,
)

K = 3
GOOD = [Step(3, 2), Step(3, 0), Step(3, 3)]
IDLE = [Step(0, 0)] * 6


def only_counters(found: CounterDelta | None, steps: list[Step]) -> PassRecord:
    return one_pass(request(steps, counted=False)).model_copy(update={"counters": found})


def test_a_drafter_that_drafts_and_is_accepted_is_ok() -> None:
    assert judge("eagle3", K, [with_counters(one_pass(request(GOOD)), K)]) == ("OK", "")


def test_plain_decoding_without_counters_is_ok() -> None:
    assert judge("none", 0, [only_counters(None, IDLE)]) == ("OK", "")


def test_plain_decoding_with_counters_is_suspect() -> None:
    status, reason = judge("none", 0, [only_counters(counters(0, 0), IDLE)])
    assert status == "SUSPECT"
    assert "configure a drafter" in reason


def test_plain_decoding_with_drafted_requests_is_suspect() -> None:
    assert judge("none", 0, [one_pass(request(GOOD))])[0] == "SUSPECT"


@pytest.mark.parametrize("kind", ["eagle3", "ngram"])
def test_a_method_without_counters_was_not_configured(kind: str) -> None:
    status, reason = judge(kind, K, [only_counters(None, IDLE)])
    assert status == "NOOP_NOT_CONFIGURED"
    assert f"started without {kind}" in reason


def test_a_drafter_that_never_drafts_is_a_noop() -> None:
    status, reason = judge("mtp", K, [only_counters(counters(0, 0, 0, 0, 0), IDLE)])
    assert status == "NOOP_NO_DRAFTS"
    assert "nothing in 6 steps" in reason


def test_ngram_that_finds_nothing_is_ok_and_says_so() -> None:
    status, reason = judge("ngram", K, [only_counters(counters(0, 0, 0, 0, 0), IDLE)])
    assert status == "OK"
    assert "coverage is 0" in reason


def test_a_drafter_that_is_never_accepted_is_a_noop_with_its_numbers() -> None:
    rejected = [Step(3, 0)] * 39 + [Step(3, 1)]
    status, reason = judge("mtp", K, [one_pass(request(rejected))])
    assert status == "NOOP_NO_ACCEPT"
    assert "1 tokens were accepted in 40 drafts (0.025 per draft" in reason


def test_ngram_that_is_never_accepted_is_ok() -> None:
    assert judge("ngram", K, [one_pass(request([Step(3, 0)] * 40))])[0] == "OK"


def test_acceptance_at_the_floor_is_enough() -> None:
    at_floor = [Step(3, 0)] * 19 + [Step(3, 1)]
    assert judge("mtp", K, [one_pass(request(at_floor))])[0] == "OK"


def test_a_drafter_that_drafts_sometimes_is_suspect() -> None:
    status, reason = judge("eagle3", K, [one_pass(request([*[Step(3, 1)] * 8, *IDLE[:2]]))])
    assert status == "SUSPECT"
    assert "8 of 10 steps (coverage 0.80" in reason


def test_truncated_ends_do_not_lower_coverage() -> None:
    cut = request([Step(3, 3)], cut=3)
    assert judge("eagle3", K, [one_pass(*[cut] * 20)])[0] == "OK"


def test_answers_of_one_token_leave_nothing_to_judge() -> None:
    status, reason = judge("eagle3", K, [one_pass(request([]))])
    assert status == "SUSPECT"
    assert "raise the token cap" in reason


def test_no_output_at_all_is_suspect() -> None:
    assert judge("none", 0, [])[0] == "SUSPECT"


def test_sources_may_differ_by_k_per_request_and_no_more() -> None:
    one = one_pass(request([Step(3, 3)] * 5))
    near = with_counters(one, K, drafts=6, drafted=18, accepted=18, accepted_per_position=(6, 6, 6))
    far = with_counters(one, K, drafts=7, drafted=21, accepted=21, accepted_per_position=(7, 7, 7))
    assert judge("eagle3", K, [near])[0] == "OK"
    status, reason = judge("eagle3", K, [far])
    assert status == "SUSPECT"
    assert "requests' records say 15 drafted and the engine's counters 21" in reason


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (counters(5, 15, 2, 3, 1), "more often than the one before it"),
        (counters(5, 15, 6, 3, 1), "5 drafts, then 6, 3, 1"),
        (counters(5, 15, 3, 2, 1, 1), "do not add up to 7"),
        (counters(5, 4, 3, 2, 1), "6 accepted, 4 drafted"),
        (counters(5, 16, 3, 2, 1), "16 drafted and 5 drafts of at most 3"),
    ],
    ids=["joint rises", "more than drafts", "positions beyond K", "over drafted", "over K"],
)
def test_counts_that_cannot_be_are_suspect(broken: CounterDelta, words: str) -> None:
    status, reason = judge("eagle3", K, [only_counters(broken, GOOD)])
    assert status == "SUSPECT"
    assert words in reason


def test_more_accepted_than_truncation_explains_is_suspect() -> None:
    status, reason = judge("eagle3", K, [only_counters(counters(6, 18, 6, 6, 6), IDLE)])
    assert status == "SUSPECT"
    assert "18 more than came out" in reason


def test_one_broken_repeat_makes_the_cell_suspect() -> None:
    good = counters_only(one_pass(request(GOOD)), K)
    bad = only_counters(counters(3, 9, 1, 2, 1), GOOD).model_copy(update={"repeat": 1})
    status, reason = judge("eagle3", K, [good, bad])
    assert status == "SUSPECT"
    assert reason.startswith("repeat 1:")


@given(passes(K))
def test_whatever_a_sound_engine_does_ngrams_counts_are_never_suspect(
    made: list[PassRecord],
) -> None:
    assert judge("ngram", K, [with_counters(one, K) for one in made])[0] == "OK"
