"""What of a plan fits into a night's hours: the dearest cells first, the rest named. Pure."""

from __future__ import annotations

from collections.abc import Callable, Set
from fnmatch import fnmatchcase

from jobs.night import LeftOut
from pipeline.plan import Cell, Plan
from pipeline.results import duration

Seconds = Callable[[Plan], float]


def leave_out(
    plan: Plan, seconds: Seconds, budget_s: float, priority: tuple[str, ...]
) -> tuple[LeftOut, ...]:
    """The cells that do not fit.

    Args:
        seconds: how long a plan takes; cells that share an engine start share its time.
        priority: patterns of labels, the dearest first; a cell that matches none comes last.

    A cell too long for what is left is passed over, and a shorter one after it may still fit.
    """
    if seconds(plan) <= budget_s:
        return ()
    chosen: set[str] = set()
    left_out = {}
    for cell in sorted(plan.cells, key=lambda cell: _rank(cell, priority)):
        taken = seconds(only(plan, chosen)) if chosen else 0.0
        needed = seconds(only(plan, chosen | {cell.fingerprint})) - taken
        if taken + needed <= budget_s:
            chosen.add(cell.fingerprint)
        else:
            reason = f"takes about {duration(needed)}, and {duration(budget_s - taken)} are left"
            left_out[cell.fingerprint] = LeftOut(at=cell.at, reason=reason)
    return tuple(left_out[c.fingerprint] for c in plan.cells if c.fingerprint in left_out)


def unmatched(plan: Plan, priority: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns that no cell of a plan goes by."""
    labels = [cell.at.label for cell in plan.cells]
    return tuple(p for p in priority if not any(fnmatchcase(label, p) for label in labels))


def only(plan: Plan, fingerprints: Set[str]) -> Plan:
    """A plan of some of its cells."""
    return plan.without(frozenset(c.fingerprint for c in plan.cells) - fingerprints)


def _rank(cell: Cell, priority: tuple[str, ...]) -> int:
    """The place in the priority; equal ones stay in the plan's order."""
    matches = (i for i, pattern in enumerate(priority) if fnmatchcase(cell.at.label, pattern))
    return next(matches, len(priority))
