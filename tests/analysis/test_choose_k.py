import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.choose_k import (
    MeasuredK,
    StepTime,
    choose,
    mean_step_s,
    predict,
    starts_saved,
    tokens_per_step,
    worth_measuring,
)
from pipeline.analysis.counts import count, decode_steps
from pipeline.records import Counts, PassRecord
from tests.analysis.passes import Step, one_pass, passes, request

# 100 drafts of 4 tokens: 80, 60, 30 and 10 accepted at the four positions.
COUNTS = Counts(
    requests=10,
    output_tokens=10 + 100 + 180,
    drafts=100,
    drafted=400,
    accepted=180,
    accepted_per_position=(80, 60, 30, 10),
    truncated=0,
)


def times(*pairs: tuple[int, float]) -> list[StepTime]:
    return [StepTime(k=k, step_s=step_s) for k, step_s in pairs]


def measured(*rows: tuple[int, float, float, float]) -> list[MeasuredK]:
    return [MeasuredK(k=k, value=v, low=low, high=high) for k, v, low, high in rows]


def test_tokens_per_step_of_smaller_k_follow_from_the_largest() -> None:
    assert [tokens_per_step(COUNTS, k) for k in range(5)] == pytest.approx([1, 1.8, 2.4, 2.7, 2.8])


def test_steps_without_a_draft_count_as_one_token() -> None:
    half = COUNTS.model_copy(update={"output_tokens": COUNTS.output_tokens + 100})
    assert tokens_per_step(half, 4) == pytest.approx(1 + 1.8 / 2)


def test_the_cost_line_goes_through_two_k_and_leaves_the_baseline_out() -> None:
    found = predict(COUNTS, times((0, 0.020), (2, 0.026), (4, 0.030)))
    assert (found.base_s, found.per_token_s) == pytest.approx((0.022, 0.002))
    assert found.fitted == (2, 4)
    assert [one.step_s for one in found.predicted] == pytest.approx([0.024, 0.026, 0.028, 0.030])
    assert found.predicted[1].tok_s == pytest.approx(2.4 / 0.026)
    assert found.predicted[1].speedup == pytest.approx(2.4 / 0.026 * 0.020)


def test_with_one_k_the_line_goes_through_the_baseline() -> None:
    found = predict(COUNTS, times((0, 0.020), (4, 0.028)))
    assert (found.base_s, found.per_token_s) == pytest.approx((0.020, 0.002))
    assert found.fitted == (0, 4)


def test_neighbouring_k_alone_make_no_line_that_reaches_down_to_1() -> None:
    found = predict(COUNTS, times((0, 0.020), (3, 0.026), (4, 0.034)))
    assert found.fitted == (0, 3, 4)
    assert found.predicted[0].step_s > 0.020


def test_a_slope_that_noise_made_negative_is_flat() -> None:
    found = predict(COUNTS, times((0, 0.020), (2, 0.032), (4, 0.030)))
    assert (found.base_s, found.per_token_s) == pytest.approx((0.031, 0))


def test_the_two_predicted_fastest_are_worth_measuring() -> None:
    found = predict(COUNTS, times((0, 0.020), (2, 0.026), (4, 0.030)))
    assert worth_measuring(found) == (3, 4)
    dear = predict(COUNTS, times((0, 0.020), (2, 0.040), (4, 0.060)))
    assert worth_measuring(dear) == (1, 2)


def test_a_clear_winner_is_chosen() -> None:
    found = choose(measured((2, 1.5, 1.4, 1.6), (4, 2.0, 1.9, 2.1)))
    assert (found.k, found.fastest, found.tied) == (4, 4, (4,))
    assert found.sentence == "K=4 measured 2 (1.9 to 2.1), the fastest"


def test_overlapping_intervals_go_to_the_smaller_k() -> None:
    found = choose(measured((5, 2.05, 1.95, 2.15), (3, 2.0, 1.9, 2.1), (1, 1.2, 1.1, 1.3)))
    assert (found.k, found.fastest, found.tied) == (3, 5, (3, 5))
    assert "K=5 measured 2.05 (1.95 to 2.15), which cannot be told from it" in found.sentence


def test_a_drafter_that_is_not_measurably_faster_loses_to_plain_decoding() -> None:
    assert choose(measured((0, 1, 1, 1), (2, 1.01, 0.98, 1.04))).k == 0


def test_the_only_k_measured_is_chosen_and_named_so() -> None:
    assert choose(measured((3, 1.0, 0.9, 1.1))).sentence.endswith("the only one measured")


def test_starts_saved_are_those_of_the_grid_that_were_not_needed() -> None:
    assert starts_saved(range(1, 9), [8, 2, 3]) == 5
    assert starts_saved([1, 2, 3, 5, 8], [8, 1, 3, 4]) == 2


def test_the_mean_step_leaves_prefill_out() -> None:
    made = one_pass(request([Step(3, 2), Step(3, 3)], cut=2), request([Step(3, 0)], step_s=0.08))
    assert mean_step_s([made], 3) == pytest.approx((2 * 0.05 + 0.08) / 3)
    assert mean_step_s([one_pass(request([]))], 3) is None


@given(passes(3))
def test_more_drafted_tokens_never_mean_fewer_tokens_per_step(made: list[PassRecord]) -> None:
    counts = count(made, 3)
    if counts.drafts == 0:
        return
    expected = [tokens_per_step(counts, k) for k in range(4)]
    assert expected == sorted(expected)
    steps = expected[-1]
    emitted = counts.output_tokens - counts.requests + counts.truncated
    assert steps * decode_steps(counts) == pytest.approx(emitted)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.1, 5)), min_size=1))
def test_the_chosen_k_is_among_the_tied_and_never_larger_than_the_fastest(
    rows: list[tuple[int, float]],
) -> None:
    found = choose(measured(*((k, v, v * 0.95, v * 1.05) for k, v in rows)))
    assert found.k == min(found.tied) <= found.fastest
    assert found.fastest in found.tied


def test_a_step_that_drafts_is_never_predicted_shorter_than_a_plain_one() -> None:
    counts = Counts(
        requests=0,
        output_tokens=150,
        drafts=100,
        drafted=1200,
        accepted=50,
        accepted_per_position=(30, 20, *(0,) * 10),
        truncated=0,
    )
    # Steps that grow faster than K: the line through them reaches below zero at K = 1.
    times = [StepTime(k=k, step_s=s) for k, s in ((0, 1.0), (6, 1.6), (12, 4.0))]
    found = predict(counts, times)
    assert all(one.step_s >= 1.0 for one in found.predicted)
    assert max(one.speedup for one in found.predicted) <= 1.5
