"""What nodes are called, also when several have one host name. Pure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.execution.nodes import names

SPARK, TWIN, OTHER = "1" * 56, "2" * 56, "3" * 56


def test_a_node_is_called_by_its_own_name() -> None:
    assert names({SPARK: "spark", OTHER: "other"}, {}) == {SPARK: "spark", OTHER: "other"}


def test_of_nodes_with_one_name_each_has_its_id_added_in_whatever_order_they_come() -> None:
    expected = {SPARK: "spark-111111", TWIN: "spark-222222"}
    assert names({SPARK: "spark", TWIN: "spark"}, {}) == expected
    assert names({TWIN: "spark", SPARK: "spark"}, {}) == expected


def test_a_node_keeps_its_name_when_a_twin_comes_and_when_it_goes() -> None:
    alone = names({SPARK: "spark"}, {})
    both = names({TWIN: "spark", SPARK: "spark"}, alone)
    assert both == {SPARK: "spark", TWIN: "spark-222222"}
    assert names({TWIN: "spark"}, both) == {TWIN: "spark-222222"}


def test_a_node_that_comes_back_alone_has_its_name_again() -> None:
    gone = names({}, names({SPARK: "spark"}, {}))
    assert names({TWIN: "spark"}, gone) == {TWIN: "spark"}


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=12))
def test_no_two_nodes_share_a_name_and_none_is_ever_renamed(alive: list[set[str]]) -> None:
    known: dict[str, str] = {}
    for now in alive:
        own = {node * 56: "spark" if node in "abcd" else "other" for node in now}
        found = names(own, known)
        assert len(set(found.values())) == len(now)
        assert all(found[node] == known[node] for node in found.keys() & known.keys())
        known = found
