import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.timing import Interval, split

seconds = st.floats(0, 100)
intervals = st.lists(st.tuples(seconds, seconds).map(lambda ends: (min(ends), max(ends))))


def test_a_start_then_generation_leaves_the_rest() -> None:
    found = split((100.0, 200.0), [(110.0, 140.0)], [(140.0, 190.0)])
    assert (found.wall_s, found.engine_start_s, found.generation_s) == (100, 30, 50)
    assert found.other_s == 20


def test_work_on_two_nodes_at_once_counts_once() -> None:
    found = split((0.0, 60.0), [(0.0, 20.0), (10.0, 30.0)], [(30.0, 50.0), (32.0, 60.0)])
    assert (found.engine_start_s, found.generation_s, found.other_s) == (30, 30, 0)


def test_generation_wins_over_a_start_on_another_node() -> None:
    found = split((0.0, 50.0), [(0.0, 40.0)], [(10.0, 20.0)])
    assert (found.engine_start_s, found.generation_s) == (30, 10)


def test_what_lies_outside_the_wall_is_left_out() -> None:
    found = split((10.0, 20.0), [(0.0, 12.0)], [(18.0, 30.0), (40.0, 50.0)])
    assert (found.engine_start_s, found.generation_s, found.other_s) == (2, 2, 6)


def test_nothing_done_is_all_other() -> None:
    assert split((0.0, 5.0), [], []).other_s == 5


@given(intervals, intervals)
def test_the_parts_add_up_to_the_wall(starts: list[Interval], generation: list[Interval]) -> None:
    found = split((0.0, 100.0), starts, generation)
    assert found.engine_start_s >= -1e-9
    assert found.engine_start_s + found.generation_s + found.other_s == pytest.approx(100)


@given(intervals, intervals)
def test_the_order_of_intervals_does_not_matter(
    starts: list[Interval], generation: list[Interval]
) -> None:
    wall = (0.0, 100.0)
    assert split(wall, starts[::-1], generation[::-1]) == split(wall, starts, generation)
