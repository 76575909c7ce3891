"""The chaos runs that tests/benchmarks/chaos.py made, as committed."""

import json
from collections import Counter

import pytest

from tests.benchmarks.chaos import CELLS, RESULT, VICTIMS

RUNS = json.loads(RESULT.read_text())
NONE_OF = (
    "cells_lost",
    "measured_again",
    "left_after_kill",
    "left_after_end",
    "shared_memory_left",
    "tracebacks",
    "other_identities",
)


def test_a_hundred_kills_were_made_in_all() -> None:
    kills = sum((Counter(run["kills"]) for run in RUNS.values()), Counter())
    assert kills.total() >= 100
    assert min(kills.values()) >= 0.8 * kills.total() / len(VICTIMS)


@pytest.mark.parametrize("run", RUNS)
def test_kills_were_spread_over_every_kind_of_process_and_over_whole_sweeps(run: str) -> None:
    figures = RUNS[run]
    assert set(figures["kills"]) == set(VICTIMS)
    assert figures["cells_of_a_sweep"] == CELLS
    assert figures["sweeps"] >= 1


@pytest.mark.parametrize("run", [run for run in RUNS if "at_stake" in RUNS[run]])
def test_moments_were_chosen_by_the_clock_and_by_the_cells_and_cells_were_at_stake(
    run: str,
) -> None:
    figures = RUNS[run]
    assert set(figures["moments"]) == {"clock", "cells"}
    assert figures["at_stake"] > sum(figures["kills"].values())


@pytest.mark.parametrize(
    ("run", "count"), [(run, count) for run in RUNS for count in NONE_OF if count in RUNS[run]]
)
def test_no_kill_lost_repeated_or_left_anything(run: str, count: str) -> None:
    assert RUNS[run][count] == 0
