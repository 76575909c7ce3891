"""How far nights lie apart: intervals that hold what they promise, on numbers made by rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.changes import steps
from jobs.levels import (
    Level,
    Spread,
    cell_spread,
    deviation,
    drift,
    nightly,
    own_spread,
    ratio,
    suite_spread,
)

PROMPTS = [f"p{i}" for i in range(12)]
SPREAD = Spread(0.0001, 0.0001, 20)


def nights(*values: float, noise: float = 0.0, seed: int = 0, measured: int = 1) -> list[Level]:
    """Nights whose prompts differ by tens of percent and whose means are given."""
    rng = np.random.default_rng(seed)
    found = []
    for number, value in enumerate(values):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        samples = tuple(
            {p: log(value) + 0.2 * i + rng.normal(0, noise) for i, p in enumerate(PROMPTS)}
            for _ in range(measured)
        )
        found.append(Level(f"{at:%Y%m%dT%H%M%S}", at.isoformat(), samples, good=True))
    return found


def test_prompts_that_differ_from_each_other_do_not_make_nights_differ() -> None:
    spread = own_spread(nights(1.0, 1.0, 1.0))
    assert spread.scatter == pytest.approx(0.0, abs=1e-20)
    assert spread.shift == pytest.approx(0.0, abs=1e-20)


def test_what_shifts_whole_nights_is_told_from_the_scatter_of_prompts() -> None:
    rng = np.random.default_rng(7)
    shifted = nights(*np.exp(rng.normal(0, 0.05, 400)), noise=0.1, seed=8)
    spread = own_spread(shifted)
    assert spread.shift == pytest.approx(0.05**2, rel=0.2)
    assert spread.scatter == pytest.approx(0.1**2 / len(PROMPTS), rel=0.1)


@pytest.mark.parametrize("measured", [1, 4])
def test_the_scatter_is_of_one_measurement_however_often_each_night_measures(measured: int) -> None:
    rng = np.random.default_rng(7)
    levels = nights(*np.exp(rng.normal(0, 0.05, 400)), noise=0.1, seed=8, measured=measured)
    spread = own_spread(levels)
    assert spread.scatter == pytest.approx(0.1**2 / len(PROMPTS), rel=0.1)
    assert spread.of(levels[0]) == pytest.approx(0.05**2 + spread.scatter / measured, rel=0.2)


def test_a_ratio_is_that_of_geometric_means_over_common_prompts() -> None:
    assert ratio(nights(1.2), nights(1.0, 1.0)) == pytest.approx(1.2)
    other = [Level("x", "x", ({"elsewhere": 0.0},), good=True)]
    assert ratio(other, nights(1.0)) is None


def test_one_prompt_that_a_night_lacks_is_left_out_on_both_sides() -> None:
    (tonight,) = nights(1.1)
    fewer = {p: v for p, v in tonight.samples[0].items() if p != "p11"}
    found = deviation([tonight._replace(samples=(fewer,))], nights(1.0, 1.0), SPREAD, 0.95)
    assert found is not None
    assert found.prompts == 11
    assert found.ratio == pytest.approx(1.1)


def test_measuring_again_narrows_the_interval_but_not_below_what_the_night_shares() -> None:
    baseline = nights(*[1.0] * 10)
    once, often = (deviation(nights(1.0, measured=n), baseline, SPREAD, 0.95) for n in (1, 10_000))
    assert once is not None
    assert often is not None
    narrowed = log(often.high) / log(once.high)
    # Of the night's two parts one is left; the baseline's share stands on both sides.
    assert narrowed == pytest.approx(((0.5 + 0.1) / (1 + 0.1)) ** 0.5, rel=0.01)


def test_a_night_of_fewer_starts_than_usual_is_as_unsure_as_its_starts_may_be() -> None:
    rng = np.random.default_rng(3)
    shifts = rng.normal(0, 0.03, (300, 3))
    usual = [
        one._replace(samples=tuple(moved(s, one) for s in night))
        for night, one in zip(shifts, nights(*[1.0] * 300), strict=True)
    ]
    spread = own_spread(usual)
    assert spread.usual == 3
    (once,) = nights(1.0)
    assert spread.of(usual[0]) == pytest.approx(0.03**2 / 3, rel=0.2)
    assert spread.of(once) == pytest.approx(0.03**2, rel=0.2)
    assert spread.of(once._replace(samples=once.samples * 6)) == pytest.approx(spread.shift)


def moved(shift: float, level: Level) -> dict[str, float]:
    return {prompt: value + shift for prompt, value in level.samples[0].items()}


def test_a_baseline_that_was_measured_more_often_is_surer() -> None:
    tonight = nights(1.0)
    wide, narrow = (
        deviation(tonight, nights(1.0, 1.0, measured=n), SPREAD, 0.95) for n in (1, 10_000)
    )
    assert wide is not None
    assert narrow is not None
    assert log(narrow.high) / log(wide.high) == pytest.approx((0.025 / 0.03) ** 0.5, rel=0.01)


def test_nights_that_differ_more_make_wider_intervals() -> None:
    calm, restless = Spread(0.0001, 0.0, 20), Spread(0.01, 0.0, 20)
    narrow, wide = (deviation(nights(1.0), nights(1.0, 1.0), s, 0.95) for s in (calm, restless))
    assert narrow is not None
    assert wide is not None
    assert wide.high > narrow.high > 1.0


def test_a_noisy_night_is_not_more_certain_than_its_own_prompts() -> None:
    quiet = Spread(1e-8, 1e-8, 20)
    (tonight,) = nights(1.05, noise=0.3, seed=3)
    found = deviation([tonight], nights(1.0, 1.0, 1.0), quiet, 0.95)
    assert found is not None
    assert found.high / found.low > 1.2


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 2.0), st.floats(0.0001, 0.01))
def test_the_interval_holds_the_ratio_and_turns_over_with_its_sides(
    factor: float, shift: float
) -> None:
    spread = Spread(shift, 0.0, 20)
    there = deviation(nights(factor), nights(1.0), spread, 0.95)
    back = deviation(nights(1.0), nights(factor), spread, 0.95)
    assert there is not None
    assert back is not None
    assert there.low <= there.ratio <= there.high
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


def test_a_suite_without_nights_has_the_spread_it_assumes() -> None:
    assert suite_spread([], 0.02, 8) == (pytest.approx(0.0004), 0.0, 8, 1)


def test_a_cell_is_never_taken_to_be_steadier_than_its_suite() -> None:
    suite = Spread(0.0004, 0.0001, 100)
    assert cell_spread(Spread(-0.0001, 0.0001, 27), suite).shift == suite.shift
    assert cell_spread(Spread(0.01, 0.0001, 27), suite).shift > suite.shift


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Two hundred cells with nothing changed: a 95 % interval misses 1 in about ten of them."""
    rng = np.random.default_rng(11)
    missed = 0
    cells = [nights(*np.exp(rng.normal(0, 0.01, 15)), noise=0.05, seed=100 + i) for i in range(200)]
    suite = suite_spread((own_spread(levels[:-1]) for levels in cells), 0.01, 8)
    for levels in cells:
        spread = cell_spread(own_spread(levels[:-1]), suite)
        found = deviation(levels[-1:], levels[:-1], spread, 0.95)
        assert found is not None
        missed += not found.low <= 1 <= found.high
    assert missed <= 20


def test_a_drift_is_the_change_from_the_first_night_to_the_last() -> None:
    values = [exp(-0.002 * n) for n in range(28)]
    levels = nights(*values, noise=0.01)
    found = drift(levels, list(range(28)), 0.95)
    assert found is not None
    assert found.ratio == pytest.approx(exp(-0.054), rel=0.01)
    assert found.high < 1


def test_steady_nights_do_not_drift() -> None:
    found = drift(nights(*[1.0] * 28, noise=0.05), list(range(28)), 0.95)
    assert found is not None
    assert not found.beyond(0.01)


# --- steps


def test_a_step_is_dated_to_the_first_night_of_the_new_level() -> None:
    levels = nights(*[1.0] * 10, *[0.9] * 5, noise=0.01)
    (step,) = steps(levels, Spread(1e-5, 1e-5, 20))
    assert step.night == levels[10].night
    assert step.date == "2026-01-11"
    assert step.ratio == pytest.approx(0.9, rel=0.02)


def test_a_step_in_the_last_night_is_seen_in_that_night() -> None:
    levels = nights(*[1.0] * 20, 0.9, noise=0.01)
    (step,) = steps(levels, Spread(1e-5, 1e-5, 20))
    assert step.night == levels[-1].night


def test_several_steps_are_told_apart() -> None:
    levels = nights(*[1.0] * 8, *[0.8] * 8, *[1.1] * 8, noise=0.02)
    assert [s.date for s in steps(levels, Spread(1e-5, 3e-5, 20))] == ["2026-01-09", "2026-01-17"]


def test_noise_has_no_steps() -> None:
    levels = nights(*[1.0] * 40, noise=0.05, seed=5)
    assert steps(levels, Spread(0.0, 0.05**2 / len(PROMPTS), 20)) == ()


def test_nights_that_are_all_the_same_have_no_steps() -> None:
    assert steps(nights(*[1.0] * 10), Spread(1e-4, 0.0, 20)) == ()


def test_a_nights_own_value_is_its_geometric_mean() -> None:
    assert nightly(nights(2.0))[0] == pytest.approx(2.0 * exp(0.2 * 5.5))
