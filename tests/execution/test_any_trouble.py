"""Nights on which everything that can go wrong goes wrong by the draw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.execution.assignment import Outcome
from pipeline.execution.brackets import Point, points
from pipeline.execution.dispatch import Assignment, Dispatch
from tests.execution.test_dispatch import dispatch, fingerprints, grid

Share = tuple[str, tuple[str, ...]]


@dataclass
class Night:
    """A cluster on which everything that can go wrong goes wrong by the draw."""

    data: st.DataObject
    made: Dispatch
    nodes: set[str]
    bracketed: bool
    away: set[str] = field(default_factory=set)
    running: list[Assignment] = field(default_factory=list)
    # How often each cell came to its end, was opened with, and was tried.
    settled: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    # Of each share: the points that an opening came to its end at, and those no closing followed.
    opened_at: defaultdict[Share, set[Point]] = field(default_factory=lambda: defaultdict(set))
    unclosed: defaultdict[Share, set[Point]] = field(default_factory=lambda: defaultdict(set))
    shares: set[Share] = field(default_factory=set)

    def start(self) -> None:
        while chosen := self.made.next():
            assert self.nodes.issuperset(chosen.place)
            busy = {node for other in self.running for node in other.place}
            assert busy.isdisjoint(chosen.place), "two engines on one node"
            assert len(chosen.place) == chosen.group.resources.nodes
            self.running.append(chosen)
            if self.bracketed and chosen.role == "cells" and chosen.group.method != "none":
                opened = self.opened_at[chosen.group.model, chosen.place]
                assert points(chosen.group.cells) <= opened, "measured before its opening"

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
            self.opened_at[share] |= points(over)
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
    names = {f"n{i}" for i in range(nodes)}
    night = Night(data, dispatch(groups, bracketed=bracketed, nodes=nodes), names, bracketed)
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
