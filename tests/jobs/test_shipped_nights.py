"""The real nights of the shipped suite, as tests/benchmarks/shipped_nights.py committed them."""

import pytest

from tests.benchmarks.nights import RealNight, RealNights
from tests.benchmarks.shipped_nights import NIGHTS, RESULTS

FOUND = RealNights.model_validate_json((RESULTS / "shipped_nights.json").read_text())


def test_every_night_is_there() -> None:
    assert [night.name for night in FOUND.nights] == list(NIGHTS)


@pytest.mark.parametrize("night", FOUND.nights, ids=lambda night: night.name)
def test_every_night_ended_as_it_had_to(night: RealNight) -> None:
    assert night.as_expected


def test_three_nights_with_nothing_changed_were_quiet() -> None:
    quiet = [night for night in FOUND.nights if night.name.startswith("quiet")]
    assert len(quiet) == 3
    assert all("nothing changed in 3 cells" in night.title for night in quiet)
