"""What is watched of a cell, as one value per prompt on a log scale, higher being better.

A machine can be a third slower tonight than last night with nothing changed. So of a method the
ratio to the baseline measured beside it is watched, which that slowness leaves alone; of a baseline
there is only its own speed, with the machine in it, and its changes are called more slowly for it.
Tokens per step need no clock.

The same prompts run every night. A prompt's value tonight less its value in the nights before is
free of what makes prompts differ, which is several times what makes nights differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from statistics import fmean
from typing import Literal, get_args

from jobs.night import Costs, Measured
from jobs.suite import PerSignal

Signal = Literal["speedup", "speed", "length"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)
# What a ratio above 1 is more of, and the unit of a night's own value.
NAMES: Mapping[Signal, str] = {
    "speedup": "speed-up over the baseline beside it",
    "speed": "decode speed",
    "length": "tokens per step",
}
UNITS: Mapping[Signal, str] = {
    "speedup": "x baseline",
    "speed": "tok/s",
    "length": "tokens per step",
}
# A value per prompt.
Sample = Mapping[str, float]


def sample(cell: Measured, signal: Signal) -> Sample:
    """One value per prompt, repeats averaged; empty where the cell has no such signal."""
    if cell.status != "OK":
        return {}
    match signal:
        case "length":
            return _inverse(cell.steps)
        case "speed":
            return _inverse(cell.costs) if cell.is_baseline else {}
        case "speedup":
            return {} if cell.is_baseline else _speedup(cell.reference, cell.costs)


def main_signal(cell: Measured) -> Signal:
    """What a cell is measured for: its speed, of a method over its baseline's."""
    return "speed" if cell.is_baseline else "speedup"


def own_speed(cell: Measured) -> Sample:
    """Log tokens per second of any cell, the machine's slowness in it."""
    return _inverse(cell.costs)


def baseline_speed(cell: Measured) -> Sample:
    """The same of the baseline that was measured beside a cell."""
    return _inverse(cell.reference)


def size(signal: Signal, sizes: PerSignal) -> float:
    """The relative size that a suite states for a signal."""
    return float(getattr(sizes, signal))


def _inverse(costs: Costs) -> Sample:
    """Log of what one unit of cost gives."""
    return {
        prompt: -fmean(map(log, repeats.values())) for prompt, repeats in costs.items() if repeats
    }


def _speedup(reference: Costs, costs: Costs) -> Sample:
    """Log of the baseline's seconds over the method's, each repeat against its neighbour."""
    found = {}
    for prompt in reference.keys() & costs.keys():
        base, own = reference[prompt], costs[prompt]
        if common := base.keys() & own.keys():
            found[prompt] = fmean(log(base[r] / own[r]) for r in sorted(common))
    return found
