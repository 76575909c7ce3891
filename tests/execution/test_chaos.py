"""The chaos run that tests/benchmarks/chaos.py made, as committed."""

import json

import pytest

from tests.benchmarks.chaos import CELLS, RESULT, VICTIMS

FIGURES = json.loads(RESULT.read_text())


def test_a_hundred_kills_were_spread_over_every_kind_of_process() -> None:
    assert FIGURES["kills"] == dict.fromkeys(VICTIMS, 20)
    assert FIGURES["cells_of_a_sweep"] == CELLS
    assert FIGURES["sweeps"] > 1


@pytest.mark.parametrize(
    "count",
    ["cells_lost", "measured_again", "left_after_kill", "left_after_end", "other_identities"],
)
def test_no_kill_lost_repeated_or_left_anything(count: str) -> None:
    assert FIGURES[count] == 0
