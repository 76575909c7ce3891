"""Which node does what next. Pure: told what happened, it answers with the next assignment.

A node runs one engine at a time. The groups of one model stay together on a node (page cache,
compile cache, one pair of baselines) unless another node would stand idle meanwhile. Where
baselines *bracket* a node's share of a model, the baseline opens the share and closes it, and the
opening also stands for the plan's own baseline cells. What infrastructure lost is tried once more;
nodes that join are used, and nodes that leave are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.execution.events import Role
from pipeline.methods import BASELINE
from pipeline.plan import Cell, EngineGroup
from pipeline.spec import Record, Resources

MAX_ATTEMPTS = 2
Place = tuple[str, ...]


class Assignment(Record):
    """A group, less what is measured already, for the nodes that are to run its one engine."""

    group: EngineGroup
    role: Role
    place: Place
    attempt: int = 1


@dataclass(frozen=True, eq=False)
class _Waiting:
    group: EngineGroup
    attempt: int = 1


@dataclass
class _Share:
    """What a place has done of a model: `unclosed` holds what was measured since a closing."""

    opened: bool = False
    unclosed: set[tuple[str, int]] = field(default_factory=set)


class Dispatch:
    """The state of a sweep's distribution over nodes.

    Args:
        groups: what is to be measured, in the order of the plan.
        baselines: each model's baseline group with all cells of the plan; a model without an entry
            has no baseline in the sweep.
        bracketed: whether baselines open and close a node's share of a model.
    """

    def __init__(
        self,
        groups: Sequence[EngineGroup],
        baselines: Mapping[str, EngineGroup],
        *,
        bracketed: bool,
    ) -> None:
        self._bracketing = dict(baselines) if bracketed else {}
        self._gpus: dict[str, float] = {}
        self._busy: dict[Place, Assignment] = {}
        self._last: dict[Place, str] = {}
        self._shares: dict[tuple[str, Place], _Share] = {}
        self._redo: list[Assignment] = []
        self._waiting = [_Waiting(group) for group in groups]
        # Baseline cells that an opening is going to measure on its way.
        self._owed: dict[str, dict[str, Cell]] = {}
        for waiting in [w for w in self._waiting if self._opening_stands_for(w.group)]:
            self._waiting.remove(waiting)
            self._owed[waiting.group.model] = {c.fingerprint: c for c in waiting.group.cells}

    # --- what happened --------------------------------------------------------------------------

    def joined(self, node: str, gpus: float) -> None:
        """A node offers itself."""
        self._gpus[node] = gpus

    def add(self, groups: Sequence[EngineGroup]) -> None:
        """More groups are due, behind those that wait."""
        self._waiting += [_Waiting(group) for group in groups]

    def left(self, node: str) -> tuple[Assignment, ...]:
        """A node is gone; what ran there is returned and has to be told as ended."""
        self._gpus.pop(node, None)
        self._redo = [a for a in self._redo if self._alive(a.place)]
        return tuple(a for place, a in self._busy.items() if node in place)

    def ended(self, done: Assignment, measured: frozenset[str], lost: frozenset[str]) -> None:
        """An assignment is over.

        Args:
            measured: fingerprints of the cells that have a measurement now.
            lost: fingerprints of those that infrastructure lost; the others failed for good.
        """
        del self._busy[done.place]
        share = self._share(done)
        if again := _narrowed(done.group, lost) if done.attempt < MAX_ATTEMPTS else None:
            self._again(done, again)
        if done.role == "opening":
            for cell in done.group.cells:
                if again is None or cell.fingerprint not in lost:
                    self._owed.get(done.group.model, {}).pop(cell.fingerprint, None)
        elif done.role == "closing":
            share.unclosed.clear()
        elif done.group.method != self._baseline_method(done.group.model):
            here = (c.at for c in done.group.cells if c.fingerprint in measured)
            share.unclosed |= {(at.dataset, at.concurrency) for at in here}

    def _again(self, done: Assignment, group: EngineGroup) -> None:
        if done.role == "cells":
            self._waiting.insert(0, _Waiting(group, done.attempt + 1))
        elif self._alive(done.place):
            update = {"group": group, "attempt": done.attempt + 1}
            self._redo.append(done.model_copy(update=update))

    # --- what is next ---------------------------------------------------------------------------

    def next(self) -> Assignment | None:
        """The next assignment for nodes that are free, or None when every one has to wait."""
        self._call_in_debts()
        chosen = self._redone() or self._closing() or self._single() or self._spread()
        if chosen is not None:
            self._busy[chosen.place] = chosen
            self._last[chosen.place] = chosen.group.model
        return chosen

    @property
    def finished(self) -> bool:
        """Whether nothing runs or waits."""
        return not (self._busy or self._waiting or self._redo or any(self._owed.values()))

    def unplaceable(self) -> tuple[EngineGroup, ...]:
        """Groups that the nodes there are could not take even if all were free."""
        return tuple(w.group for w in self._waiting if not self._placeable(w))

    def give_up(self) -> Iterator[Assignment]:
        """Take what no node can run off the list; each as an assignment to no node."""
        self._call_in_debts()
        while gone := [w for w in self._waiting if not self._placeable(w)]:
            for waiting in gone:
                self._waiting.remove(waiting)
                yield Assignment(
                    group=waiting.group, role="cells", place=(), attempt=waiting.attempt
                )
            self._call_in_debts()

    def _call_in_debts(self) -> None:
        """Baseline cells that no opening will measure any more are measured as cells."""
        active = {a.group.model for a in (*self._busy.values(), *self._redo)}
        for model, cells in self._owed.items():
            if cells and model not in active and not self._waits(model):
                group = self._bracketing[model]
                owed = group.model_copy(update={"cells": tuple(cells.values())})
                self._waiting.append(_Waiting(owed))
                cells.clear()

    def _redone(self) -> Assignment | None:
        free = self._free()
        for assignment in self._redo:
            if free.issuperset(assignment.place):
                self._redo.remove(assignment)
                return assignment
        return None

    def _closing(self) -> Assignment | None:
        free = self._free()
        for (model, place), share in self._shares.items():
            if share.unclosed and free.issuperset(place) and not self._waits(model):
                if reference := self._reference(model, share.unclosed):
                    return Assignment(group=reference, role="closing", place=place)
                share.unclosed.clear()
        return None

    def _single(self) -> Assignment | None:
        for node in self._gpus:
            if node in self._free() and (chosen := self._for_node(node)):
                return chosen
        return None

    def _for_node(self, node: str) -> Assignment | None:
        gpus = self._gpus[node]
        fitting = [
            w
            for w in self._waiting
            if w.group.resources.nodes == 1 and _offers(w.group.resources, gpus)
        ]
        models = list(dict.fromkeys(w.group.model for w in fitting))
        if self._last.get((node,)) in models:
            return self._begun(self._last[(node,)], (node,), fitting)
        for model in sorted(models, key=self._crowd):
            if self._pays(model):
                return self._begun(model, (node,), fitting)
        return None

    def _spread(self) -> Assignment | None:
        """A group over several nodes, once no single node has anything to do for itself."""
        free = self._free()
        for waiting in self._waiting:
            needs, model = waiting.group.resources, waiting.group.model
            able = [n for n, gpus in self._gpus.items() if n in free and _offers(needs, gpus)]
            if needs.nodes > 1 and len(able) >= needs.nodes:
                known = (p for m, p in self._shares if m == model and set(able).issuperset(p))
                return self._begun(model, next(known, tuple(able[: needs.nodes])), self._waiting)
        return None

    def _begun(self, model: str, place: Place, fitting: Sequence[_Waiting]) -> Assignment:
        """The model's opening here if it is due, else its first group."""
        share = self._shares.setdefault((model, place), _Share())
        waiting = next(w for w in fitting if w.group.model == model)
        if not share.opened and waiting.group.method != self._baseline_method(model):
            share.opened = True
            if opening := self._reference(model, self._wanted(model), self._owed.get(model)):
                return Assignment(group=opening, role="opening", place=place)
        self._waiting.remove(waiting)
        return Assignment(group=waiting.group, role="cells", place=place, attempt=waiting.attempt)

    # --- small questions --------------------------------------------------------------------------

    def _free(self) -> set[str]:
        return set(self._gpus).difference(*self._busy)

    def _alive(self, place: Place) -> bool:
        return set(self._gpus).issuperset(place)

    def _waits(self, model: str) -> bool:
        return any(w.group.model == model for w in self._waiting)

    def _share(self, done: Assignment) -> _Share:
        return self._shares.setdefault((done.group.model, done.place), _Share())

    def _crowd(self, model: str) -> int:
        """How many places are at work on a model."""
        return sum(a.group.model == model for a in self._busy.values())

    def _pays(self, model: str) -> bool:
        """Whether one more place for a model ends it sooner, an opening and a closing included."""
        groups = sum(w.group.model == model for w in self._waiting)
        extra = 2 if model in self._bracketing else 0
        return groups > extra * self._crowd(model)

    def _placeable(self, waiting: _Waiting) -> bool:
        needs = waiting.group.resources
        return sum(_offers(needs, gpus) for gpus in self._gpus.values()) >= needs.nodes

    def _baseline_method(self, model: str) -> str | None:
        baseline = self._bracketing.get(model)
        return baseline.method if baseline is not None else None

    def _opening_stands_for(self, group: EngineGroup) -> bool:
        if group.method != self._baseline_method(group.model):
            return False
        return any(
            w.group.model == group.model and w.group.method != group.method for w in self._waiting
        )

    def _wanted(self, model: str) -> set[tuple[str, int]]:
        cells = (c.at for w in self._waiting if w.group.model == model for c in w.group.cells)
        return {(at.dataset, at.concurrency) for at in cells if at.kind != BASELINE}

    def _reference(
        self, model: str, points: set[tuple[str, int]], owed: Mapping[str, Cell] | None = None
    ) -> EngineGroup | None:
        """The baseline's cells at some data sets and concurrencies, and those that are owed."""
        baseline = self._bracketing.get(model)
        if baseline is None:
            return None
        wanted = {
            cell.fingerprint
            for cell in baseline.cells
            if (cell.at.dataset, cell.at.concurrency) in points or cell.fingerprint in (owed or {})
        }
        return _narrowed(baseline, frozenset(wanted))


def starts(groups: Sequence[EngineGroup], dispatch: Dispatch) -> int:
    """How many assignments a fresh dispatch would make if one set of nodes did everything."""
    for index in range(max(group.resources.nodes for group in groups)):
        dispatch.joined(str(index), float("inf"))
    count = 0
    while chosen := dispatch.next():
        dispatch.ended(chosen, frozenset(c.fingerprint for c in chosen.group.cells), frozenset())
        count += 1
    return count


def _offers(needs: Resources, gpus: float) -> bool:
    """Whether a node has the GPUs; on a machine without any, one is declared to stand for it."""
    return gpus >= max(1, needs.gpus)


def _narrowed(group: EngineGroup, fingerprints: frozenset[str]) -> EngineGroup | None:
    cells = tuple(cell for cell in group.cells if cell.fingerprint in fingerprints)
    return group.model_copy(update={"cells": cells}) if cells else None
