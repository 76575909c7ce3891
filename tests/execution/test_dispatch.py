"""Who does what next, on whatever nodes there are: nothing here runs anything."""

from __future__ import annotations

import pytest

from pipeline.execution.assignment import Outcome
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.plan import EngineGroup
from pipeline.spec import Resources
from tests.factories import coordinates, plan

DATASETS = ("chat", "echo")


def group(model: str, method: str, k: int, *, nodes: int = 1, gpus: int = 0) -> EngineGroup:
    cells = (coordinates(method, k, dataset, model) for dataset in DATASETS)
    (made,) = plan(*cells).groups
    return made.model_copy(update={"resources": Resources(gpus=gpus, nodes=nodes)})


def grid(models: dict[str, int], methods: int, *, baseline: bool = True) -> list[EngineGroup]:
    """Groups of each model, which needs so many nodes; its baseline first, then n-gram by K."""
    return [
        group(model, "ngram" if k else "none", k, nodes=nodes)
        for model, nodes in models.items()
        for k in range(0 if baseline else 1, methods + 1)
    ]


def dispatch(groups: list[EngineGroup], *, bracketed: bool, nodes: int = 1) -> Dispatch:
    baselines = {g.model: g for g in groups if g.method == "none"}
    made = Dispatch(groups, baselines, bracketed=bracketed)
    for index in range(nodes):
        made.joined(f"n{index}", 1)
    return made


def fingerprints(assignment: Assignment) -> frozenset[str]:
    return frozenset(cell.fingerprint for cell in assignment.group.cells)


def each(assignment: Assignment) -> list[frozenset[str]]:
    return [frozenset({cell.fingerprint}) for cell in assignment.group.cells]


def all_measured(assignment: Assignment) -> Outcome:
    return Outcome(fingerprints(assignment))


def all_lost(assignment: Assignment) -> Outcome:
    return Outcome(lost=fingerprints(assignment))


def refused(assignment: Assignment) -> Outcome:
    return Outcome(refused=fingerprints(assignment))


def begun(made: Dispatch) -> Assignment:
    chosen = made.next()
    assert chosen is not None
    return chosen


def order(made: Dispatch) -> list[tuple[str, str, str]]:
    """Everything one after the other, each ending before the next is asked for."""
    done = []
    while chosen := made.next():
        made.ended(chosen, all_measured(chosen))
        done.append(("+".join(chosen.place), chosen.group.id, chosen.role))
    assert made.finished
    return done


def test_without_brackets_the_plan_is_run_in_its_order() -> None:
    groups = grid({"a": 1, "b": 1}, 1)
    assert [g for _, g, _ in order(dispatch(groups, bracketed=False))] == [g.id for g in groups]


def test_each_node_takes_a_model_of_its_own_where_there_are_enough() -> None:
    made = dispatch(grid({"a": 1, "b": 1}, 3), bracketed=False, nodes=2)
    first, second = made.next(), made.next()
    assert first is not None
    assert second is not None
    assert {first.group.model, second.group.model} == {"a", "b"}
    made.ended(second, all_measured(second))
    following = made.next()
    assert following is not None
    assert following.group.model == second.group.model


@pytest.mark.parametrize(("methods", "helps"), [(2, False), (3, True)])
def test_a_second_node_helps_with_a_model_only_where_two_more_baselines_cost_no_time(
    methods: int, helps: bool
) -> None:
    made = dispatch(grid({"a": 1}, methods), bracketed=True, nodes=2)
    assert made.next() is not None
    assert (made.next() is not None) is helps


def test_a_group_that_is_lost_is_tried_once_more_for_what_it_had_not_delivered() -> None:
    made = dispatch([group("a", "ngram", 2)], bracketed=False)
    first = begun(made)
    delivered, lost = each(first)
    made.ended(first, Outcome(measured=delivered, lost=lost))
    again = begun(made)
    assert (again.attempt, fingerprints(again)) == (2, lost)
    made.ended(again, Outcome(lost=lost))
    assert made.next() is None
    assert made.finished


def test_cells_lost_before_they_were_tried_go_first_apart_and_uncharged() -> None:
    made = dispatch([group("a", "ngram", 2)], bracketed=False)
    first = begun(made)
    culprit, bystander = each(first)
    made.ended(first, Outcome(lost=culprit, untried=bystander))
    repeats = []
    while chosen := made.next():
        repeats.append((chosen.attempt, fingerprints(chosen)))
        made.ended(chosen, all_lost(chosen) if chosen.attempt == 2 else all_measured(chosen))
    assert repeats == [(1, bystander), (2, culprit)]
    assert made.finished


def test_what_a_node_refuses_is_given_to_each_of_the_others_once() -> None:
    made = dispatch([group("a", "ngram", 2)], bracketed=False, nodes=3)
    asked = []
    while chosen := made.next():
        assert chosen.attempt == 1
        asked.append((*chosen.place, made.elsewhere(chosen)))
        made.ended(chosen, refused(chosen) if asked[-1][1] else Outcome())
    assert asked == [("n0", True), ("n1", True), ("n2", False)]
    assert made.finished


def test_a_node_that_is_kept_out_may_still_take_what_another_one_refuses() -> None:
    made = dispatch([group("a", "ngram", 2)], bracketed=False, nodes=2)
    made.keep_out(["n1"])
    first = begun(made)
    assert made.elsewhere(first)
    made.ended(first, refused(first))
    assert made.next() is None
    assert (made.finished, made.unplaceable()) == (False, ())
    made.keep_out([])
    assert begun(made).place == ("n1",)


def test_a_node_that_leaves_is_not_waited_for_and_one_that_joins_is_used() -> None:
    made = dispatch(grid({"a": 1}, 2), bracketed=False)
    first = made.next()
    assert first is not None
    (gone,) = made.left("n0")
    made.ended(gone, all_lost(gone))
    assert made.next() is None
    assert not made.finished
    made.joined("late", 1)
    again = made.next()
    assert again is not None
    assert (again.place, again.group.id, again.attempt) == (("late",), first.group.id, 2)


def test_a_group_over_two_nodes_waits_until_both_are_free() -> None:
    made = dispatch(grid({"single": 1, "double": 2}, 1), bracketed=False, nodes=2)
    running = [a for a in (made.next(), made.next()) if a is not None]
    assert {a.group.model for a in running} == {"single"}
    made.ended(running[0], all_measured(running[0]))
    assert made.next() is None
    made.ended(running[1], all_measured(running[1]))
    both = made.next()
    assert both is not None
    assert both.place == ("n0", "n1")


def test_what_no_node_can_take_is_named_and_given_up_only_when_asked() -> None:
    big = group("big", "none", 0, gpus=4)
    made = dispatch([group("a", "none", 0), big], bracketed=False)
    assert made.unplaceable() == (big,)
    assert [a.group.id for a in made.give_up()] == [big.id]
    assert [g for _, g, _ in order(made)] == ["a--none"]
