"""What a node is given to do, and what became of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pipeline.execution.events import Role
from pipeline.plan import EngineGroup
from pipeline.spec import Record

MAX_ATTEMPTS = 2
Place = tuple[str, ...]


class Assignment(Record):
    """A group, less what is measured already, for the nodes that are to run its one engine.

    Attributes:
        refused: nodes that would not take it.
    """

    group: EngineGroup
    role: Role
    place: Place
    attempt: int = 1
    refused: frozenset[str] = frozenset()


class Outcome(NamedTuple):
    """What became of an assignment's cells, by fingerprint; one in no set has failed for good.

    Attributes:
        lost: what infrastructure lost while it was tried.
        untried: what was lost along with it, before it was tried.
        refused: what this node would not take and another one may.
    """

    measured: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    untried: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()


def due_again(done: Assignment, outcome: Outcome) -> Iterator[Assignment]:
    """What is to be repeated of an assignment.

    Cells that were lost go apart from those that were never tried, and after them: one that takes
    its worker along will do so again, and is to harm nobody but itself.
    """
    repeats = [(outcome.untried, done.attempt)]
    if done.attempt < MAX_ATTEMPTS:
        repeats.append((outcome.lost, done.attempt + 1))
    for fingerprints, attempt in repeats:
        if (group := narrowed(done.group, fingerprints)) is not None:
            yield done.model_copy(update={"group": group, "attempt": attempt})


def narrowed(group: EngineGroup, fingerprints: frozenset[str]) -> EngineGroup | None:
    """A group's cells among some fingerprints; None where it has none of them."""
    cells = tuple(cell for cell in group.cells if cell.fingerprint in fingerprints)
    return group.model_copy(update={"cells": cells}) if cells else None


def is_baseline(group: EngineGroup, baselines: Mapping[str, EngineGroup]) -> bool:
    """Whether a group, whichever of its cells it still has, is its model's baseline."""
    baseline = baselines.get(group.model)
    return baseline is not None and baseline.method == group.method
