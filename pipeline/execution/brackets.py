"""Baselines at both ends of each place's share of a model. Pure.

An opening precedes what a place measures of a model's methods, point by point: it covers all that
waits then, and another one follows if something comes along later that it did not cover. The
closing follows once nothing of the model waits. A reference tells only of the place it was measured
at. So one that was lost stays due there, if need be until the place comes back, and is not waited
for when it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.execution.assignment import (
    Assignment,
    Outcome,
    Place,
    due_again,
    is_baseline,
    narrowed,
)
from pipeline.plan import Cell, EngineGroup

Point = tuple[str, int]


@dataclass
class _Share:
    """What a place has done of a model.

    Attributes:
        opened: the points that an opening was sent for; None before the first one.
        unclosed: the points measured that no closing was sent for yet.
    """

    opened: set[Point] | None = None
    unclosed: set[Point] = field(default_factory=set)


class Brackets:
    """What the places owe their shares.

    Args:
        baselines: each model's baseline group with all cells of the plan; a model without an entry
            is not bracketed.
    """

    def __init__(self, baselines: Mapping[str, EngineGroup]) -> None:
        self._baselines = dict(baselines)
        self._shares: dict[tuple[str, Place], _Share] = {}
        self._redo: list[Assignment] = []
        # Baseline cells of the plan that an opening is going to measure on its way.
        self._owed: dict[str, dict[str, Cell]] = {}

    def brackets(self, model: str) -> bool:
        """Whether a model has a baseline to open and close its shares."""
        return model in self._baselines

    def is_baseline(self, group: EngineGroup) -> bool:
        """Whether a group is what its model is bracketed with."""
        return is_baseline(group, self._baselines)

    def owe(self, group: EngineGroup) -> None:
        """Leave a baseline's cells to the model's next opening."""
        self._owed[group.model] = {cell.fingerprint: cell for cell in group.cells}

    def known_place(self, model: str, able: set[str]) -> Place | None:
        """Where among some nodes the model has a share already."""
        return next((p for m, p in self._shares if m == model and able.issuperset(p)), None)

    # --- what is next -----------------------------------------------------------------------------

    def opening(self, group: EngineGroup, place: Place, waiting: set[Point]) -> Assignment | None:
        """The opening that a method's cells need at a place first; None where they need none.

        Args:
            waiting: the points of all that waits of the model, which the opening covers along.
        """
        model = group.model
        if model not in self._baselines:
            return None
        share = self._share(model, place)
        known = points(self._baselines[model].cells)
        due = points(group.cells) & known
        if share.opened is not None and due <= share.opened:
            return None
        opened = share.opened or set()
        missing = (due | waiting & known) - opened
        share.opened = opened | missing
        return self._reference(model, place, missing, self._owed.get(model, {}))

    def closing(self, free: set[str], waits: Callable[[str], bool]) -> Assignment | None:
        """A closing that is due: nothing of its model waits and its place is free."""
        for (model, place), share in self._shares.items():
            if share.unclosed and free.issuperset(place) and not waits(model):
                measured, share.unclosed = share.unclosed, set()
                return self._reference(model, place, measured)
        return None

    def repeated(self, free: set[str]) -> Assignment | None:
        """A reference that was lost at a place that is free now."""
        found = next((a for a in self._redo if free.issuperset(a.place)), None)
        if found is not None:
            self._redo.remove(found)
        return found

    def pending(self, nodes: set[str]) -> bool:
        """Whether anything is still to be measured that only these nodes can."""
        places = [a.place for a in self._redo]
        places += [place for (_, place), share in self._shares.items() if share.unclosed]
        return any(map(nodes.issuperset, places)) or any(self._owed.values())

    def debts(
        self, running: set[str], nodes: set[str], waits: Callable[[str], bool]
    ) -> Iterator[EngineGroup]:
        """Baseline cells that no opening will measure any more, to be measured as cells.

        Args:
            running: the models that are being measured.
        """
        for lost in [a for a in self._redo if a.role == "opening" and not waits(a.group.model)]:
            # No method would follow it. Where one is added after all, the share opens anew.
            self._redo.remove(lost)
            self._unopen(lost, lost.group.cells)
        active = running | {a.group.model for a in self._redo if nodes.issuperset(a.place)}
        for model, cells in self._owed.items():
            if cells and model not in active and not waits(model):
                yield self._baselines[model].model_copy(update={"cells": tuple(cells.values())})
                cells.clear()

    # --- what happened ----------------------------------------------------------------------------

    def measured(self, done: Assignment, fingerprints: frozenset[str]) -> None:
        """A method's cells were measured: a closing is due for those."""
        model = done.group.model
        if model in self._baselines and not self.is_baseline(done.group):
            here = points(c for c in done.group.cells if c.fingerprint in fingerprints)
            known = points(self._baselines[model].cells)
            self._share(model, done.place).unclosed |= here & known

    def ended(self, done: Assignment, outcome: Outcome) -> None:
        """A reference is over; what was lost of it is due again at its place."""
        self._redo += due_again(done, outcome)
        if done.role == "opening":
            refused = [c for c in done.group.cells if c.fingerprint in outcome.refused]
            self._unopen(done, refused)
            kept = outcome.lost | outcome.untried | outcome.refused
            for cell in done.group.cells:
                if cell.fingerprint not in kept:
                    self._owed.get(done.group.model, {}).pop(cell.fingerprint, None)

    def _unopen(self, opening: Assignment, cells: Iterable[Cell]) -> None:
        """These cells of an opening will not be measured: what they stand for opens anew."""
        if opened := self._share(opening.group.model, opening.place).opened:
            opened -= points(cells)

    def _share(self, model: str, place: Place) -> _Share:
        return self._shares.setdefault((model, place), _Share())

    def _reference(
        self, model: str, place: Place, at: set[Point], owed: Mapping[str, Cell] | None = None
    ) -> Assignment | None:
        """The baseline's cells at some data sets and concurrencies, and those that are owed."""
        baseline = self._baselines[model]
        at_points = {c.fingerprint for c in baseline.cells if points([c]) <= at}
        group = narrowed(baseline, frozenset(at_points.union(owed or {})))
        role = "opening" if owed is not None else "closing"
        return Assignment(group=group, role=role, place=place) if group is not None else None


def points(cells: Iterable[Cell]) -> set[Point]:
    """The data sets and concurrencies at which some cells are measured."""
    return {(cell.at.dataset, cell.at.concurrency) for cell in cells}
