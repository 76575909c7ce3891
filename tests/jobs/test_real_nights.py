"""The real nights that tests/benchmarks/nights.py ran, as committed."""

import pytest

from tests.benchmarks.nights import RESULTS, RealNight, RealNights

NIGHTS = {
    night.name: night
    for night in RealNights.model_validate_json((RESULTS / "nights.json").read_text()).nights
}


@pytest.mark.parametrize("night", NIGHTS.values(), ids=NIGHTS)
def test_every_night_ended_as_it_had_to(night: RealNight) -> None:
    assert night.as_expected


def test_three_nights_with_nothing_changed_were_quiet() -> None:
    quiet = [night for name, night in NIGHTS.items() if name.startswith("quiet")]
    assert len(quiet) == 3
    assert all("nothing changed" in night.title for night in quiet)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("half the CPU", "decode speed is 0.5"),
        ("random drafter", "is NOOP_NO_ACCEPT"),
        ("random drafter", "**drafter of mine eagle3**"),
        ("K changed", "the suite does not have it any more"),
        ("K changed", "eagle3 K=2 instead of eagle3 K=1"),
        ("prompts edited", "**prompts of own**"),
        ("checkpoint edited", "**checkpoint of mine**"),
        ("checkpoint edited", "the target answers 16 of 20 prompts otherwise"),
    ],
)
def test_a_provoked_night_names_what_was_done_to_it(name: str, sentence: str) -> None:
    assert sentence in NIGHTS[name].message
