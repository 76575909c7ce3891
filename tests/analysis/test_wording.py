"""Numbers in sentences say what they are: rounding never takes a verdict's reason away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.statistics import Estimate
from pipeline.analysis.wording import percent, span


def interval(low: float, high: float) -> Estimate:
    return Estimate(
        ratio=(low * high) ** 0.5,
        low=low,
        high=high,
        p=0.01,
        prompts=20,
        dropped=0,
        repeats=2,
        relative_mad=0.01,
    )


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (1.03, 2.9, "1.73 (1.03 to 2.90)"),
        (1.45, 8.4, "3.5 (1.4 to 8.4)"),
        (1.004, 1.3, "1.142 (1.004 to 1.300)"),
        (0.5, 0.997, "0.706 (0.500 to 0.997)"),
        (0.9, 1.2, "1.04 (0.90 to 1.20)"),
    ],
)
def test_an_interval_that_excludes_1_is_told_with_the_digits_that_show_it(
    low: float, high: float, told: str
) -> None:
    assert span(interval(low, high)) == told


@given(st.floats(0.1, 10), st.floats(0.001, 3))
def test_an_interval_is_told_on_the_side_of_1_that_it_is_on(low: float, width: float) -> None:
    found = interval(low, low + width)
    one, other = (float(end) for end in span(found).partition("(")[2].rstrip(")").split(" to "))
    if low > 1.0001:
        assert one > 1
    elif low + width < 0.9999:
        assert other < 1
    else:
        assert one <= 1.0001
        assert other >= 0.9999


@pytest.mark.parametrize(
    ("confidence", "told"), [(0.95, "95%"), (0.999, "99.9%"), (1 - 0.05 / 35, "99.86%")]
)
def test_a_confidence_is_never_told_as_certainty(confidence: float, told: str) -> None:
    assert percent(confidence) == told
