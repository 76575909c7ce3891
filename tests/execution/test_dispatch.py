"""Who does what next, for any grid, any cluster and any trouble: nothing here runs anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def order(made: Dispatch) -> list[tuple[str, str, str]]:
    """Everything one after the other, each ending before the next is asked for."""
    done = []
    while chosen := made.next():
        made.ended(chosen, fingerprints(chosen), frozenset())
        done.append(("+".join(chosen.place), chosen.group.id, chosen.role))
    assert made.finished
    return done


def test_without_brackets_the_plan_is_run_in_its_order() -> None:
    groups = grid({"a": 1, "b": 1}, 1)
    assert [g for _, g, _ in order(dispatch(groups, bracketed=False))] == [g.id for g in groups]


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


def test_each_node_takes_a_model_of_its_own_where_there_are_enough() -> None:
    made = dispatch(grid({"a": 1, "b": 1}, 3), bracketed=False, nodes=2)
    first, second = made.next(), made.next()
    assert first is not None
    assert second is not None
    assert {first.group.model, second.group.model} == {"a", "b"}
    made.ended(second, fingerprints(second), frozenset())
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
    first = made.next()
    assert first is not None
    delivered, lost = sorted(fingerprints(first))
    made.ended(first, frozenset({delivered}), frozenset({lost}))
    again = made.next()
    assert again is not None
    assert (again.attempt, fingerprints(again)) == (2, frozenset({lost}))
    made.ended(again, frozenset(), frozenset({lost}))
    assert made.next() is None
    assert made.finished


def test_a_node_that_leaves_is_not_waited_for_and_one_that_joins_is_used() -> None:
    made = dispatch(grid({"a": 1}, 2), bracketed=False)
    first = made.next()
    assert first is not None
    (gone,) = made.left("n0")
    made.ended(gone, frozenset(), fingerprints(gone))
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
    made.ended(running[0], fingerprints(running[0]), frozenset())
    assert made.next() is None
    made.ended(running[1], fingerprints(running[1]), frozenset())
    both = made.next()
    assert both is not None
    assert both.place == ("n0", "n1")


def test_what_no_node_can_take_is_named_and_given_up_only_when_asked() -> None:
    big = group("big", "none", 0, gpus=4)
    made = dispatch([group("a", "none", 0), big], bracketed=False)
    assert made.unplaceable() == (big,)
    assert [a.group.id for a in made.give_up()] == [big.id]
    assert [g for _, g, _ in order(made)] == ["a--none"]


@dataclass
class Night:
    """A cluster on which everything that can go wrong goes wrong by the draw."""

    data: st.DataObject
    made: Dispatch
    nodes: set[str]
    running: list[Assignment] = field(default_factory=list)
    settled: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    history: dict[tuple[str, ...], list[tuple[str, str, bool]]] = field(default_factory=dict)

    def start(self) -> None:
        while chosen := self.made.next():
            assert self.nodes.issuperset(chosen.place)
            busy = {node for other in self.running for node in other.place}
            assert busy.isdisjoint(chosen.place), "two engines on one node"
            assert len(chosen.place) == chosen.group.resources.nodes
            self.running.append(chosen)
            if chosen.role == "cells":
                self.runs.update(fingerprints(chosen))

    def end(self, done: Assignment, *, all_lost: bool = False) -> None:
        cells = sorted(fingerprints(done))
        lost = cells if all_lost else self.data.draw(st.lists(st.sampled_from(cells), unique=True))
        failed = self.data.draw(st.booleans())
        kept = [] if failed else [c for c in cells if c not in lost]
        self.running.remove(done)
        self.made.ended(done, frozenset(kept), frozenset(lost))
        if done.role == "cells":
            final = cells if done.attempt == 2 else [c for c in cells if c not in lost]
            self.settled.update(final)
        trail = self.history.setdefault(done.place, [])
        if done.role != "cells" or done.group.method != "none":
            trail.append((done.group.model, done.role, bool(kept)))

    def step(self) -> None:
        kind = self.data.draw(st.sampled_from(["end", "end", "end", "leave", "join"]))
        if kind == "join":
            node = f"late{len(self.nodes)}-{len(self.settled)}"
            self.nodes.add(node)
            self.made.joined(node, 1)
        elif kind == "leave" and len(self.nodes) > 2:
            node = self.data.draw(st.sampled_from(sorted(self.nodes)))
            self.nodes.discard(node)
            for gone in self.made.left(node):
                self.end(gone, all_lost=True)
        elif self.running:
            self.end(self.data.draw(st.sampled_from(self.running)))


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    models=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2), min_size=1),
    methods=st.integers(0, 4),
    bracketed=st.booleans(),
    nodes=st.integers(2, 4),
)
def test_whatever_happens_every_cell_is_settled_once_and_no_node_runs_two_engines(
    data: st.DataObject, models: dict[str, int], methods: int, bracketed: bool, nodes: int
) -> None:
    groups = grid(models, methods)
    night = Night(
        data, dispatch(groups, bracketed=bracketed, nodes=nodes), {f"n{i}" for i in range(nodes)}
    )
    night.start()
    while night.running:
        night.step()
        night.start()
    assert night.made.finished
    openings = {c.fingerprint for g in groups if g.method == "none" for c in g.cells}
    for cell in (c.fingerprint for g in groups for c in g.cells):
        assert night.runs[cell] <= 2
        assert night.settled[cell] == 1 or (bracketed and methods and cell in openings)
    for place, trail in night.history.items() if bracketed else ():
        for model in models:
            steps = [(role, kept) for name, role, kept in trail if name == model]
            assert not steps or steps[0][0] == "opening"
            if ("cells", True) in steps and night.nodes.issuperset(place):
                last = max(i for i, step in enumerate(steps) if step == ("cells", True))
                assert "closing" in [role for role, _ in steps[last:]]
