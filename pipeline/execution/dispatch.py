"""Which node does what next. Pure: told what happened, it answers with the next assignment.

A node runs one engine at a time. The groups of one model stay together on a node (page cache,
compile cache, one pair of baselines) unless another node would stand idle meanwhile. Where
baselines *bracket* a node's share of a model, the baseline opens the share and closes it, and the
opening also stands for the plan's own baseline cells. What infrastructure lost is tried once more,
what a node refused is given to another; nodes that join are used, and nodes that leave are not
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.execution.assignment import Assignment as Assignment
from pipeline.execution.assignment import Outcome, Place, due_again, narrowed
from pipeline.execution.brackets import Brackets, Point, points
from pipeline.methods import BASELINE
from pipeline.plan import EngineGroup
from pipeline.spec import Resources


@dataclass(frozen=True, eq=False)
class _Waiting:
    group: EngineGroup
    attempt: int = 1
    refused: frozenset[str] = frozenset()

    def refused_by(self, node: str) -> _Waiting:
        return replace(self, refused=self.refused | {node})


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
        self._brackets = Brackets(baselines if bracketed else {})
        self._gpus: dict[str, float] = {}
        self._out: frozenset[str] = frozenset()
        self._busy: dict[Place, Assignment] = {}
        self._last: dict[Place, str] = {}
        # Models of which a node refused something: it is offered others first.
        self._refusals: set[tuple[str, str]] = set()
        self._waiting: list[_Waiting] = []
        bracketing = {g.model for g in groups if not self._brackets.is_baseline(g)}
        for group in groups:
            if self._brackets.is_baseline(group) and group.model in bracketing:
                self._brackets.owe(group)
            else:
                self._waiting.append(_Waiting(group))

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
        return tuple(a for place, a in self._busy.items() if node in place)

    def keep_out(self, nodes: Iterable[str]) -> None:
        """Give these nodes nothing to do until they are no longer among those named here."""
        self._out = frozenset(nodes)

    def ended(self, done: Assignment, outcome: Outcome) -> None:
        """An assignment is over; what is to be repeated of it waits before everything else."""
        del self._busy[done.place]
        if outcome.refused:
            self._refusals.add((done.place[0], done.group.model))
        if done.role != "cells":
            self._brackets.ended(done, outcome)
            if outcome.refused:
                self._refused(done)
            return
        self._brackets.measured(done, outcome.measured)
        back = [_Waiting(a.group, a.attempt, a.refused) for a in due_again(done, outcome)]
        if (group := narrowed(done.group, outcome.refused)) is not None:
            here = _Waiting(group, done.attempt, done.refused)
            back.insert(0, here.refused_by(done.place[0]))
        self._waiting[:0] = back

    def _refused(self, opening: Assignment) -> None:
        """A node that will not open a model's share gets nothing of what waits of it now."""
        model, node = opening.group.model, opening.place[0]
        self._waiting = [w.refused_by(node) if w.group.model == model else w for w in self._waiting]

    # --- what is next ---------------------------------------------------------------------------

    def next(self) -> Assignment | None:
        """The next assignment for nodes that are free, or None when every one has to wait."""
        self._call_in_debts()
        chosen = (
            self._brackets.repeated(self._free())
            or self._brackets.closing(self._free(), self._waits)
            or self._single()
            or self._spread()
        )
        if chosen is not None:
            self._busy[chosen.place] = chosen
            self._last[chosen.place] = chosen.group.model
        return chosen

    @property
    def finished(self) -> bool:
        """Whether nothing runs or waits, nor is due at a node that is there."""
        return not (self._busy or self._waiting or self._brackets.pending(set(self._gpus)))

    def elsewhere(self, refused: Assignment) -> bool:
        """Whether what the first of its nodes refuses could be given to others, free or not."""
        match refused.role:
            case "cells":
                affected = [_Waiting(refused.group, refused=refused.refused)]
            case "opening":
                affected = [w for w in self._waiting if w.group.model == refused.group.model]
            case "closing":
                affected = []
        return any(self._placeable(w.refused_by(refused.place[0])) for w in affected)

    def unplaceable(self) -> tuple[EngineGroup, ...]:
        """Groups that the nodes there are could not take even if all were free."""
        return tuple(w.group for w in self._waiting if not self._placeable(w))

    def give_up(self) -> Iterator[Assignment]:
        """Take what no node can run off the list; each as an assignment to no node."""
        self._call_in_debts()
        while gone := [w for w in self._waiting if not self._placeable(w)]:
            for waiting in gone:
                self._waiting.remove(waiting)
                yield _assigned(waiting, ())
            self._call_in_debts()

    def _call_in_debts(self) -> None:
        """Baseline cells that no opening will measure any more are measured as cells."""
        running = {a.group.model for a in self._busy.values()}
        due = self._brackets.debts(running, set(self._gpus), self._waits)
        self._waiting += [_Waiting(group) for group in due]

    def _single(self) -> Assignment | None:
        for node in self._gpus:
            if node in self._free() and (chosen := self._for_node(node)):
                return chosen
        return None

    def _for_node(self, node: str) -> Assignment | None:
        single = (w for w in self._waiting if w.group.resources.nodes == 1)
        fitting = [w for w in single if self._may(node, w)]
        models = list(dict.fromkeys(w.group.model for w in fitting))
        last = self._last.get((node,))
        if last in models and (node, last) not in self._refusals:
            return self._begun(last, (node,), fitting)
        for model in sorted(models, key=lambda m: ((node, m) in self._refusals, self._crowd(m))):
            if self._pays(model):
                return self._begun(model, (node,), fitting)
        return None

    def _spread(self) -> Assignment | None:
        """A group over several nodes, once no single node has anything to do for itself."""
        free = self._free()
        for waiting in self._waiting:
            nodes, model = waiting.group.resources.nodes, waiting.group.model
            able = [n for n in self._gpus if n in free and self._may(n, waiting)]
            if nodes > 1 and len(able) >= nodes:
                known = self._brackets.known_place(model, set(able))
                return self._begun(model, known or tuple(able[:nodes]), [waiting])
        return None

    def _begun(self, model: str, place: Place, fitting: Sequence[_Waiting]) -> Assignment:
        """The model's opening here if it is due, else its first group."""
        waiting = next(w for w in fitting if w.group.model == model)
        method = not self._brackets.is_baseline(waiting.group)
        if method and (due := self._brackets.opening(waiting.group, place, self._wanted(model))):
            return due
        self._waiting.remove(waiting)
        return _assigned(waiting, place)

    # --- small questions --------------------------------------------------------------------------

    def _free(self) -> set[str]:
        return set(self._gpus).difference(self._out, *self._busy)

    def _waits(self, model: str) -> bool:
        return any(w.group.model == model for w in self._waiting)

    def _crowd(self, model: str) -> int:
        """How many places are at work on a model."""
        return sum(a.group.model == model for a in self._busy.values())

    def _pays(self, model: str) -> bool:
        """Whether one more place for a model ends it sooner, an opening and a closing included."""
        groups = sum(w.group.model == model for w in self._waiting)
        extra = 2 if self._brackets.brackets(model) else 0
        return groups > extra * self._crowd(model)

    def _may(self, node: str, waiting: _Waiting) -> bool:
        return node not in waiting.refused and _offers(waiting.group.resources, self._gpus[node])

    def _placeable(self, waiting: _Waiting) -> bool:
        able = sum(self._may(node, waiting) for node in self._gpus)
        return able >= waiting.group.resources.nodes

    def _wanted(self, model: str) -> set[Point]:
        groups = (w.group for w in self._waiting if w.group.model == model)
        return points(c for group in groups for c in group.cells if c.at.kind != BASELINE)


def _assigned(waiting: _Waiting, place: Place) -> Assignment:
    return Assignment(
        group=waiting.group,
        role="cells",
        place=place,
        attempt=waiting.attempt,
        refused=waiting.refused,
    )


def starts(groups: Sequence[EngineGroup], dispatch: Dispatch) -> int:
    """How many assignments a fresh dispatch would make if one set of nodes did everything."""
    for index in range(max(group.resources.nodes for group in groups)):
        dispatch.joined(str(index), float("inf"))
    count = 0
    while chosen := dispatch.next():
        dispatch.ended(chosen, Outcome(frozenset(c.fingerprint for c in chosen.group.cells)))
        count += 1
    return count


def _offers(needs: Resources, gpus: float) -> bool:
    """Whether a node has the GPUs; on a machine without any, one is declared to stand for it."""
    return gpus >= max(1, needs.gpus)
