"""When a cell's level stepped, and what else changed that night.

Steps are found by PELT (Killick, Fearnhead and Eckley 2012): the split of the nights into stretches
of equal mean that least squares, plus a price per step, makes cheapest. The price is that of the
Bayesian information criterion, taken three times, since what is looked for is one clear step and
not the best description of the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import fmean

import numpy as np
import ruptures

from jobs.levels import Level, Spread, nightly
from jobs.night import Night
from pipeline.spec import Record

# Named with the rest, and alone nothing to tell people of: it changes with every commit.
OWN_COMMIT = "pipeline"
_PRICE = 3.0
# The median absolute difference of neighbours of a normal sample, in standard deviations.
_NEIGHBOURS = 0.6745 * 2**0.5


class Step(Record):
    """A change of level: the first night of the new one, that level, and its ratio to the old."""

    night: str
    date: str
    level: float
    ratio: float


class Change(Record):
    """One thing of the environment that differs between two nights."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what} {self.before} -> {self.after}"


def steps(levels: Sequence[Level], spread: Spread) -> tuple[Step, ...]:
    """The steps in a cell's nights, oldest first.

    Args:
        spread: how nights differ without a step; where the nights' own neighbours differ by less,
            theirs is taken.
    """
    values = np.log(nightly(levels))
    if len(values) < 3:
        return ()
    expected = fmean(map(spread.of, levels))
    noise = min(expected, _neighbour_variance(values)) or expected
    found = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(values.reshape(-1, 1))
    ends = found.predict(pen=_PRICE * noise * log(len(values)))
    starts = [0, *ends[:-1]]
    means = [float(values[a:b].mean()) for a, b in zip(starts, ends, strict=True)]
    return tuple(
        Step(
            night=levels[start].night,
            date=levels[start].at[:10],
            level=float(np.exp(after)),
            ratio=float(np.exp(after - before)),
        )
        for start, before, after in zip(starts[1:], means, means[1:], strict=False)
    )


def beginning(levels: Sequence[Level], spread: Spread, moved: float, nights: int) -> Step | None:
    """The step that a move began with: the first of those since which the level kept its side.

    A step before which it was there already, or after which it was back, dates another move.

    Args:
        levels: a cell's nights, tonight last, of one level with what they are compared with or of
            the move's.
        moved: the ratio of the move.
        nights: how many of the last ones it was seen in.
    """
    means = np.log(nightly(levels)[-nights:])
    if not len(means):
        return None
    halfway, began = float(means.mean()) - log(moved) / 2, None
    for step in reversed(steps(levels, spread)):
        if (log(step.level) > halfway) != (moved > 1):
            break
        began = step
    return began if began is not None and (began.ratio > 1) == (moved > 1) else None


def environment_changes(before: Night, after: Night) -> tuple[Change, ...]:
    """What differs between two nights' machines, software, checkpoints and prompts."""
    old, new = _everything(before), _everything(after)
    # A cell that one night did not measure tells nothing; a package that one did not have, does.
    shared = (old.keys() & new.keys()) | before.environment.keys() | after.environment.keys()
    return tuple(
        Change(what=what, before=old.get(what, "none"), after=new.get(what, "none"))
        for what in dict.fromkeys([*old, *new])
        if what in shared and old.get(what) != new.get(what)
    )


def suspects(nights: Sequence[Night], step: str) -> tuple[Change, ...]:
    """What changed with the night of this id, compared with the one before it in these nights."""
    at = next((i for i, night in enumerate(nights) if night.id == step), 0)
    return environment_changes(nights[at - 1], nights[at]) if at else ()


def _everything(night: Night) -> Mapping[str, str]:
    found = dict(night.environment)
    for cell in night.cells:
        method = f"{cell.at.model} {cell.at.method}"
        owner = {"prompts": cell.at.dataset, "drafter": method, "settings": method}
        for part, digest in cell.parts.items():
            found[f"{part} of {owner.get(part, cell.at.model)}"] = digest[:12]
    return found


def _neighbour_variance(values: np.ndarray) -> float:
    """Variance from the differences of neighbouring nights, which a step or two do not raise."""
    return float(np.median(np.abs(np.diff(values))) / _NEIGHBOURS) ** 2
