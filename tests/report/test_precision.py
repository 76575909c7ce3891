"""No number is told with more digits than its interval justifies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import Counts, Summary
from pipeline.report import precision


def counts(drafts: int, *positions: int) -> Counts:
    return Counts(
        requests=20,
        output_tokens=2000,
        drafts=drafts,
        drafted=drafts * len(positions),
        accepted=sum(positions),
        accepted_per_position=positions,
        truncated=0,
    )


@pytest.mark.parametrize(
    ("value", "spread", "n", "text"),
    [
        (38.44, 0.3, 100, "38.4 ± 0.3"),
        (38.44, 6.0, 20, "38 ± 6"),
        (138.44, 9.0, 20, "138 ± 9"),
        (38.44, 0.0, 1, "38.4 ± 0.0"),
    ],
)
def test_a_median_is_told_as_well_as_it_is_known(
    value: float, spread: float, n: int, text: str
) -> None:
    assert precision.median_text(Summary(value=value, spread=spread, n=n)) == text


def test_few_drafts_are_told_with_fewer_digits_than_many() -> None:
    few, many = counts(12, 7, 4), counts(4000, 2400, 1500)
    assert (precision.length_text(few), precision.length_text(many)) == ("1.9", "1.98")
    assert (precision.rate_text(few), precision.rate_text(many)) == ("0.5", "0.49")
    assert precision.positions_text(few) == "0.6 0.3"
    assert precision.positions_text(many) == "0.60 0.38"


def test_what_was_not_drafted_has_no_number() -> None:
    none = counts(0, 0, 0)
    texts = {precision.length_text(none), precision.rate_text(none), precision.positions_text(none)}
    assert texts == {"-"}


def test_a_share_of_few_that_all_failed_is_not_told_as_certain() -> None:
    assert precision.share_text(0, 20) == "0.0"
    assert precision.percent_text(0, 0) == "-"
    assert precision.percent_text(3, 525) == "0.6 %"


@given(st.integers(1, 500), st.data())
def test_a_share_is_never_off_by_more_than_a_third_of_its_interval(
    whole: int, data: st.DataObject
) -> None:
    part = data.draw(st.integers(0, whole))
    told = float(precision.share_text(part, whole))
    half = 1.96 * (0.25 / (whole + 4)) ** 0.5
    assert abs(told - part / whole) <= max(half, 0.005)
