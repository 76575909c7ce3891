"""Baselines at both ends of each node's share of a model, whatever happens to the node."""

from __future__ import annotations

import pytest

from pipeline.execution.assignment import Outcome
from pipeline.execution.dispatch import Dispatch
from tests.execution.test_dispatch import (
    all_lost,
    all_measured,
    begun,
    dispatch,
    each,
    fingerprints,
    grid,
    group,
    order,
    refused,
)


def test_the_baseline_brackets_each_model_of_a_node_and_is_not_measured_a_third_time() -> None:
    steps = order(dispatch(grid({"a": 1, "b": 1}, 1), bracketed=True))
    assert [(g, role) for _, g, role in steps] == [
        ("a--none", "opening"),
        ("a--ngram-k1", "cells"),
        ("a--none", "closing"),
        ("b--none", "opening"),
        ("b--ngram-k1", "cells"),
        ("b--none", "closing"),
    ]


def test_a_baseline_alone_needs_no_bracket() -> None:
    assert order(dispatch(grid({"a": 1}, 0), bracketed=True)) == [("n0", "a--none", "cells")]


def test_a_model_without_a_baseline_in_the_sweep_is_measured_without_brackets() -> None:
    steps = order(dispatch(grid({"a": 1}, 2, baseline=False), bracketed=True))
    assert [role for _, _, role in steps] == ["cells", "cells"]


def test_references_are_measured_only_where_a_method_is() -> None:
    baseline, method = grid({"a": 1}, 1)
    left = method.model_copy(update={"cells": method.cells[:1]})
    made = Dispatch([left], {"a": baseline}, bracketed=True)
    made.joined("n0", 1)
    opening = made.next()
    assert opening is not None
    assert [c.at.dataset for c in opening.group.cells] == [left.cells[0].at.dataset]


def test_what_an_opening_did_not_cover_is_opened_before_it_is_measured_there() -> None:
    baseline, method = grid({"a": 1}, 1)
    early, late = (
        method.model_copy(update={"cells": cells}) for cells in (method.cells[:1], method.cells)
    )
    made = Dispatch([early], {"a": baseline}, bracketed=True)
    made.joined("n0", 1)
    for _ in range(2):
        made.ended(done := begun(made), all_measured(done))
    made.add([late])
    opening = begun(made)
    assert (opening.role, opening.group.cells) == ("opening", baseline.cells[1:])
    made.ended(opening, all_measured(opening))
    assert [role for _, _, role in order(made)] == ["cells", "closing"]


def test_a_model_is_opened_elsewhere_where_a_node_refuses_to_open_it() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True, nodes=2)
    first = begun(made)
    assert (first.role, first.place, made.elsewhere(first)) == ("opening", ("n0",), True)
    made.ended(first, refused(first))
    assert [(place, role) for place, _, role in order(made)] == [
        ("n1", "opening"),
        ("n1", "cells"),
        ("n1", "closing"),
    ]


def test_a_reference_is_no_use_on_another_node() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True, nodes=2)
    for _ in range(2):
        made.ended(done := begun(made), all_measured(done))
    closing = begun(made)
    assert (closing.role, made.elsewhere(closing)) == ("closing", False)


def test_an_opening_lost_with_its_node_is_tried_once_more_when_the_node_is_back() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True)
    (gone,) = (begun(made), *made.left("n0"))[1:]
    made.ended(gone, all_lost(gone))
    assert made.next() is None
    made.joined("n0", 1)
    again = begun(made)
    assert (again.role, again.attempt, fingerprints(again)) == ("opening", 2, fingerprints(gone))
    made.ended(again, all_measured(again))
    assert [role for _, _, role in order(made)] == ["cells", "closing"]


def test_an_opening_lost_with_its_node_is_not_waited_for() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True, nodes=2)
    begun(made)
    (gone,) = made.left("n0")
    made.ended(gone, all_lost(gone))
    assert [(place, role) for place, _, role in order(made)] == [
        ("n1", "opening"),
        ("n1", "cells"),
        ("n1", "closing"),
    ]


def test_an_opening_that_no_method_would_follow_is_not_repeated_until_one_is_added() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True, nodes=2)
    begun(made)
    (gone,) = made.left("n0")
    made.ended(gone, all_lost(gone))
    made.ended(opening := begun(made), all_measured(opening))
    begun(made)
    made.joined("n0", 1)
    assert made.next() is None
    made.add([group("a", "ngram", 2)])
    opening = begun(made)
    assert (opening.place, opening.role, opening.attempt) == (("n0",), "opening", 1)


def test_a_node_that_refused_an_opening_opens_before_it_measures_what_is_added() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True, nodes=2)
    made.ended(opening := begun(made), refused(opening))
    begun(made)
    assert made.next() is None
    made.add([group("a", "ngram", k) for k in (2, 3)])
    opening = begun(made)
    assert (opening.place, opening.role) == (("n0",), "opening")


@pytest.mark.parametrize("leaves", [False, True], ids=["kept out", "away"])
def test_a_closing_that_was_lost_is_measured_when_its_node_is_used_again(leaves: bool) -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True)
    for _ in range(2):
        made.ended(done := begun(made), all_measured(done))
    closing = begun(made)
    measured, lost = each(closing)
    if leaves:
        made.left("n0")
    else:
        made.keep_out(["n0"])
    made.ended(closing, Outcome(measured=measured, lost=lost))
    assert made.next() is None
    # A node that is away may never come back, one that is kept out does.
    assert made.finished is leaves
    made.keep_out([])
    made.joined("n0", 1)
    again = begun(made)
    assert (again.role, again.attempt, fingerprints(again)) == ("closing", 2, lost)
    made.ended(again, all_lost(again))
    assert made.next() is None
    assert made.finished


def test_a_share_is_closed_even_if_its_node_is_kept_out_when_all_else_is_done() -> None:
    made = dispatch(grid({"a": 1}, 1), bracketed=True)
    for _ in range(2):
        made.ended(done := begun(made), all_measured(done))
    made.keep_out(["n0"])
    assert made.next() is None
    assert not made.finished
    made.keep_out([])
    assert begun(made).role == "closing"
