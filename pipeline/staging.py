"""Which groups of a plan are due: all of them at once, or as a search over K goes on.

A search is decided by what is on disk, so a sweep that was interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from pipeline.analysis.findings import Evidence
from pipeline.analysis.k_search import next_k
from pipeline.methods import BASELINE
from pipeline.plan import EngineGroup, Plan

Gather = Callable[[], Sequence[Evidence]]


class Staging:
    """The groups of a plan in the order in which they fall due.

    Args:
        done: fingerprints of cells that are not to be measured again.
        gather: every cell on disk that the plan has.
    """

    def __init__(self, plan: Plan, done: frozenset[str], gather: Gather) -> None:
        self._plan, self._done, self._gather = plan, done, gather
        self._issued: set[str] = set()

    def due(self) -> tuple[EngineGroup, ...]:
        """The groups that may start now and were not told before, less the cells that are done."""
        evidence = self._gather() if self._plan.search == "choose_k" else ()
        ids = {group.id for group in self._chosen(evidence)} - self._issued
        self._issued |= ids
        wanted = self._plan.model_copy(
            update={"groups": tuple(g for g in self._plan.groups if g.id in ids)}
        )
        return wanted.without(self._done).groups

    def settled(self) -> Plan:
        """The plan less the groups that the search did without; asked for at the end."""
        if self._plan.search == "grid":
            return self._plan
        kept = {group.id for group in self._chosen(self._gather(), ended=True)}
        groups = tuple(group for group in self._plan.groups if group.id in kept)
        return self._plan.model_copy(update={"groups": groups})

    def _chosen(
        self, evidence: Sequence[Evidence], *, ended: bool = False
    ) -> Iterator[EngineGroup]:
        for _, members in groupby(self._plan.groups, key=lambda g: (g.model, g.method)):
            groups = list(members)
            if self._plan.search == "grid" or groups[0].cells[0].at.kind == BASELINE:
                yield from groups
            else:
                yield from _searched(groups, evidence, ended=ended)


def _searched(
    groups: Sequence[EngineGroup], evidence: Sequence[Evidence], *, ended: bool
) -> Iterator[EngineGroup]:
    """The groups of one method that are measured, and the next where there is one."""
    by_cell = {one.record.fingerprint: one for one in evidence}
    found: list[Evidence] = []
    for group in groups:
        own = [by_cell[cell.fingerprint] for cell in group.cells if cell.fingerprint in by_cell]
        # A group under way decides nothing yet.
        if len(own) == len(group.cells):
            found += own
            yield group
        elif own and ended:
            yield group
    k = next_k([group.k for group in groups], found)
    if not ended:
        yield from (group for group in groups if group.k == k)
