import random
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.statistics import Rule, estimate, holm, mean_interval, mean_ratio, midpoint

QUICK = Rule(resamples=499)
Sides = dict[str, dict[int, float]]

costs = st.floats(1e-3, 10)
sides = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.dictionaries(st.integers(0, 3), costs, min_size=1),
    min_size=1,
    max_size=9,
)
p_values = st.lists(st.floats(0, 1), max_size=8)


def constant(cost: float, prompts: int = 6, repeats: int = 2) -> Sides:
    return {f"p{i}": dict.fromkeys(range(repeats), cost) for i in range(prompts)}


def test_the_ratio_is_the_geometric_mean_of_the_prompts_ratios() -> None:
    reference = {f"p{i}": {0: 0.02} for i in range(6)}
    measured = {f"p{i}": {0: 0.01 if i % 2 else 0.04} for i in range(6)}
    found = estimate(reference, measured, QUICK)
    assert found is not None
    assert found.ratio == pytest.approx(1)
    assert (found.prompts, found.repeats, found.dropped) == (6, 1, 0)


def test_a_prompt_measured_more_often_weighs_no_more() -> None:
    reference = {"often": dict.fromkeys(range(9), 1.0), "once": {0: 1.0}}
    measured = {"often": dict.fromkeys(range(9), 0.5), "once": {0: 2.0}}
    assert mean_ratio(reference, measured) == pytest.approx(1)


def test_repeats_are_matched_so_that_drift_cancels() -> None:
    reference = {f"p{i}": {0: 1.0, 1: 1.4} for i in range(6)}
    measured = {f"p{i}": {0: 0.5, 1: 0.7} for i in range(6)}
    found = estimate(reference, measured, QUICK)
    assert found is not None
    assert (found.ratio, found.low, found.high) == pytest.approx((2, 2, 2))
    assert found.relative_mad == pytest.approx(0)


def test_what_only_one_side_measured_is_dropped_and_counted() -> None:
    reference = constant(1.0) | {"extra": {0: 1.0}}
    measured = constant(1.0, repeats=1) | {"other": {0: 1.0}}
    found = estimate(reference, measured, QUICK)
    assert found is not None
    assert (found.prompts, found.repeats, found.dropped) == (6, 1, 2)
    assert found.relative_mad is None


def test_sides_without_a_common_prompt_have_no_estimate() -> None:
    assert estimate({"a": {0: 1.0}}, {"b": {0: 1.0}}, QUICK) is None
    assert estimate({"a": {0: 1.0}}, {"a": {1: 1.0}}, QUICK) is None


def test_too_few_prompts_have_a_ratio_and_no_interval() -> None:
    found = estimate(constant(2.0, prompts=4), constant(1.0, prompts=4), QUICK)
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert (found.low, found.high, found.p) == (None, None, None)


def test_the_noise_of_repeats_is_relative_to_their_ratio() -> None:
    noisy = {f"p{i}": {0: 1.0, 1: exp(0.2), 2: exp(-0.2)} for i in range(6)}
    found = estimate(constant(5.0, repeats=3), noisy, QUICK)
    assert found is not None
    assert found.relative_mad == pytest.approx(exp(0.2) - 1)


def test_values_that_do_not_vary_leave_nothing_uncertain() -> None:
    found = mean_interval([0.1] * 7, QUICK)
    assert (found.low, found.high, found.p) == pytest.approx((0.1, 0.1, 0))
    assert mean_interval([0.0] * 7, QUICK).p == 1


def test_one_prompt_that_differs_among_equals_has_a_finite_interval_around_nothing() -> None:
    found = mean_interval([0.0] * 19 + [0.2], QUICK)
    assert -0.2 < found.low < 0 < found.high < 0.2


def test_the_interval_of_normal_values_is_close_to_students() -> None:
    values = np.random.default_rng(3).normal(0.1, 0.2, 20)
    found = mean_interval(list(values), Rule())
    students = 2.093 * values.std(ddof=1) / sqrt(20)
    assert found.high - found.mean == pytest.approx(students, rel=0.1)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = [0.1, -0.2, 0.3, 0.25, -0.05, 0.4]
    assert mean_interval(values, QUICK) == mean_interval(values, QUICK)
    assert mean_interval(values, QUICK) != mean_interval(values, Rule(resamples=499, seed=1))


def test_the_midpoint_is_half_way_of_a_steady_drift() -> None:
    assert midpoint({"a": {0: 1.0, 1: 3.0}}, {"a": {0: 1.21}, "b": {0: 1.0}}) == {
        "a": {0: pytest.approx(1.1)}
    }


def test_holm_of_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))


@given(sides, sides, st.randoms(use_true_random=False))
def test_the_order_of_prompts_and_repeats_changes_nothing(
    reference: Sides, measured: Sides, order: random.Random
) -> None:
    def shuffled(side: Sides) -> Sides:
        return {
            prompt: dict(order.sample(sorted(side[prompt].items()), len(side[prompt])))
            for prompt in order.sample(sorted(side), len(side))
        }

    before = estimate(reference, measured, QUICK)
    assert estimate(shuffled(reference), shuffled(measured), QUICK) == before


@given(sides, sides, st.sampled_from([0.25, 2.0, 1024.0]))
def test_a_scaled_clock_changes_no_ratio(reference: Sides, measured: Sides, factor: float) -> None:
    def scaled(side: Sides) -> Sides:
        return {p: {r: cost * factor for r, cost in own.items()} for p, own in side.items()}

    before = estimate(reference, measured, QUICK)
    assert estimate(scaled(reference), scaled(measured), QUICK) == before


@given(sides, sides)
def test_swapping_the_sides_turns_the_ratio_round(reference: Sides, measured: Sides) -> None:
    there, back = estimate(reference, measured, QUICK), estimate(measured, reference, QUICK)
    if there is None or back is None:
        assert there == back
        return
    assert there.ratio * back.ratio == pytest.approx(1)
    if there.low is not None and back.high is not None:
        assert log(there.low) == pytest.approx(-log(back.high), abs=1e-6)


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=30))
def test_the_p_value_is_small_just_where_the_interval_excludes_zero(values: list[float]) -> None:
    found = mean_interval(values, QUICK)
    assert found.low <= found.mean <= found.high
    assert (found.p <= 1 - QUICK.confidence) == (not found.low <= 0 <= found.high)


@given(p_values)
def test_holm_never_lowers_a_p_value_nor_changes_their_order(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(p <= a <= 1 for p, a in zip(values, adjusted, strict=True))
    by_p = [a for _, a in sorted(zip(values, adjusted, strict=True))]
    assert by_p == sorted(by_p)
