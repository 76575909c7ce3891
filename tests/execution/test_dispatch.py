"""Who does what next, for any grid, any cluster and any trouble: nothing here runs anything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.execution.assignment import Outcome
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.plan import Cell, EngineGroup
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


Share = tuple[str, tuple[str, ...]]
Point = tuple[str, int]


def points(cells: Iterable[Cell]) -> set[Point]:
    return {(cell.at.dataset, cell.at.concurrency) for cell in cells}


@dataclass
class Night:
    """A cluster on which everything that can go wrong goes wrong by the draw."""

    data: st.DataObject
    made: Dispatch
    nodes: set[str]
    away: set[str] = field(default_factory=set)
    running: list[Assignment] = field(default_factory=list)
    # How often each cell came to its end, was opened with, and was tried.
    settled: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    # What is due of each share: points that its opening lost, and those no closing followed.
    unopened: defaultdict[Share, set[Point]] = field(default_factory=lambda: defaultdict(set))
    unclosed: defaultdict[Share, set[Point]] = field(default_factory=lambda: defaultdict(set))
    shares: set[Share] = field(default_factory=set)

    def start(self) -> None:
        while chosen := self.made.next():
            assert self.nodes.issuperset(chosen.place)
            busy = {node for other in self.running for node in other.place}
            assert busy.isdisjoint(chosen.place), "two engines on one node"
            assert len(chosen.place) == chosen.group.resources.nodes
            self.running.append(chosen)
            if chosen.role == "cells" and chosen.group.method != "none":
                due = self.unopened[chosen.group.model, chosen.place]
                assert not due & points(chosen.group.cells), "measured before its opening"

    def end(self, done: Assignment, *, gone: bool = False) -> None:
        outcome = self.data.draw(st.sampled_from(list(self.outcomes(done, gone=gone))))
        self.running.remove(done)
        self.made.ended(done, outcome)
        again = outcome.untried | outcome.refused | (outcome.lost if done.attempt == 1 else set())
        over = [cell for cell in done.group.cells if cell.fingerprint not in again]
        share = (done.group.model, done.place)
        if done.role == "cells":
            self.tried.update(fingerprints(done) - outcome.untried - outcome.refused)
            self.settled.update(cell.fingerprint for cell in over)
            if done.group.method != "none":
                here = (c for c in over if c.fingerprint in outcome.measured)
                self.unclosed[share] |= points(here)
        elif done.role == "opening":
            self.shares.add(share)
            self.opened.update(cell.fingerprint for cell in over)
            self.unopened[share] -= points(done.group.cells)
            lost = again - outcome.refused
            self.unopened[share] |= points(c for c in done.group.cells if c.fingerprint in lost)
        else:
            self.unclosed[share] -= points(over)

    def outcomes(self, done: Assignment, *, gone: bool) -> Iterator[Outcome]:
        """Everything that can become of an assignment: cells are tried in their order."""
        cells = [cell.fingerprint for cell in done.group.cells]
        for index in range(len(cells) + 1):
            before, here = frozenset(cells[:index]), frozenset(cells[index : index + 1])
            rest = frozenset(cells[index + 1 :])
            if index < len(cells) or gone:
                yield Outcome(measured=before, lost=here, untried=rest)
            if not gone:
                yield Outcome(measured=before | rest, lost=here)
                yield Outcome(measured=before)
                if index < len(cells) and self.made.elsewhere(done):
                    yield Outcome(measured=before, refused=here | rest)
        yield Outcome(lost=frozenset(cells))

    def step(self) -> None:
        kinds = ["end", "end", "end", "leave", "join", "keep out"]
        kind = self.data.draw(st.sampled_from(kinds))
        if kind == "join":
            node = self.data.draw(st.sampled_from([f"late{len(self.nodes)}", *sorted(self.away)]))
            if node not in self.nodes:
                self.away.discard(node)
                self.nodes.add(node)
                self.made.joined(node, 1)
        elif kind == "leave" and len(self.nodes) > 2:
            node = self.data.draw(st.sampled_from(sorted(self.nodes)))
            self.nodes.discard(node)
            self.away.add(node)
            for lost in self.made.left(node):
                self.end(lost, gone=True)
        elif kind == "keep out":
            self.made.keep_out(self.data.draw(st.sets(st.sampled_from(sorted(self.nodes)))))
        elif self.running:
            self.end(self.data.draw(st.sampled_from(self.running)))

    def carry_out(self) -> None:
        self.start()
        while not self.made.finished:
            if self.running:
                self.step()
            else:
                self.made.keep_out([])
                given_up = [c.fingerprint for a in self.made.give_up() for c in a.group.cells]
                self.settled.update(given_up)
                self.start()
                assert self.running or given_up or self.made.finished, "nobody takes what waits"
            self.start()


@settings(max_examples=300, deadline=None)
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
    night.carry_out()
    assert not night.running
    openings = {c.fingerprint for g in groups if g.method == "none" for c in g.cells}
    for cell in (c.fingerprint for g in groups for c in g.cells):
        assert night.tried[cell] <= 2
        if bracketed and methods and cell in openings:
            assert night.settled[cell] <= 1 <= night.settled[cell] + night.opened[cell]
        else:
            assert night.settled[cell] == 1
    if not bracketed:
        return
    for (model, place), due in night.unclosed.items():
        assert (model, place) in night.shares, "never opened"
        assert not due or not night.nodes.issuperset(place), "never closed"
