"""Whether two cells can be compared at all: paired by prompt, by place and in time.

Machines drift by tens of percent within half an hour, so time pairs the sides. *Interleaved*:
prompts alternate between two resident engines, and drift falls on both. *Bracketed*: the baseline
is measured before and after, and its geometric mean is the reference. That cancels a steady drift
only, so a bracket with any sign of drift is refused: ends that differ by more than the smallest
effect, or a side whose last repeat differs from its first (a machine that slows and recovers can
show two equal ends).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from pydantic import Field

from pipeline.analysis.statistics import Costs, Rule, estimate, mean_ratio, midpoint
from pipeline.platforms import Pairing
from pipeline.records import Status
from pipeline.spec import Record

# Chance of refusing one side of a bracket for a drift that was luck.
FALSE_DRIFT = 0.01
REMEDY = "measure on a quiet machine, or interleaved"


class Side(Record):
    """One cell's part in a comparison.

    Attributes:
        costs: seconds per token (or steps per token) by prompt and repeat; less is better.
    """

    label: str
    node: str
    sweep: str
    status: Status
    costs: dict[str, dict[int, float]] = Field(default_factory=dict)


class Pair(Record):
    """What to compare: a cell, its baseline, and how the two were paired in time.

    Attributes:
        closing: the baseline measured again at the end; bracketed pairs need it.
    """

    measured: Side
    baseline: Side | None
    pairing: Pairing
    closing: Side | None = None


def drift(pair: Pair) -> float | None:
    """Closing over opening cost of a bracketing baseline, as a geometric mean over prompts."""
    if pair.baseline is None or pair.closing is None:
        return None
    return mean_ratio(pair.closing.costs, pair.baseline.costs)


def reference(pair: Pair) -> Costs:
    """What the measured side is compared with: the baseline, or the middle of its two ends."""
    assert pair.baseline is not None, "a pair without a baseline has no reference"
    if pair.closing is None:
        return pair.baseline.costs
    return midpoint(pair.baseline.costs, pair.closing.costs)


def why_incomparable(pair: Pair, rule: Rule) -> str | None:
    """Why two sides say nothing about each other, or None where they do."""
    sides = [side for side in (pair.baseline, pair.measured, pair.closing) if side is not None]
    if reason := _differing(sides):
        return reason
    if not reference(pair).keys() & pair.measured.costs.keys():
        return "the two have no measured prompt in common"
    return _drifted(pair, sides, rule) if pair.pairing == "bracketed" else None


def _differing(sides: Sequence[Side]) -> str | None:
    for side in sides:
        if side.status != "OK":
            return f"{side.label} is {side.status}; only OK cells are compared"
    for what, names in (("nodes", [s.node for s in sides]), ("sweeps", [s.sweep for s in sides])):
        if len(set(names)) > 1:
            return f"measured on different {what} ({', '.join(sorted(set(names)))})"
    return None


def _drifted(pair: Pair, sides: Sequence[Side], rule: Rule) -> str | None:
    moved = drift(pair)
    if moved is None:
        return (
            "the baseline was not measured at both ends, without which drift looks like an effect"
        )
    if abs(log(moved)) > log(1 + rule.min_effect):
        return (
            f"the machine drifted: the baseline's cost at the end was {moved:.2f} times that at the"
            f" beginning, more than the {rule.min_effect:.0%} to be told; {REMEDY}"
        )
    return next((reason for side in sides if (reason := _restless(side, rule))), None)


def _restless(side: Side, rule: Rule) -> str | None:
    """Whether a side's last repeat differs from its first by more than luck and the effect."""
    first = {prompt: {0: own[min(own)]} for prompt, own in side.costs.items() if own}
    last = {prompt: {0: own[max(own)]} for prompt, own in side.costs.items() if own}
    found = estimate(last, first, rule)
    if found is None or found.p is None or found.p > FALSE_DRIFT:
        return None
    if abs(log(found.ratio)) <= log(1 + rule.min_effect):
        return None
    return (
        f"the machine drifted while {side.label} was measured: its last repeat cost"
        f" {found.ratio:.2f} times its first; {REMEDY}"
    )
