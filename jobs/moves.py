"""Whether a signal of a cell moved: tonight, over the last few nights, or slowly over a month.

Twice the same question. At the screening level it says which cells to measure again; at the
calling level, with the new measurements in, whether to say so. What is called has been seen twice
the same night, by engines started anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from jobs.history import Decision, settled, since, standard
from jobs.levels import Deviation, Level, Spread, cell_spread, deviation, drift, own_spread, ratio
from jobs.signals import Signal, size
from jobs.suite import MIN_DRIFT_NIGHTS, NightRule


class Watched(NamedTuple):
    """One signal of one cell: tonight, the nights before, and what is known about its spread."""

    signal: Signal
    tonight: Level
    earlier: tuple[Level, ...]
    decided: Decision | None
    suite: Spread


class Move(NamedTuple):
    """A signal that moved.

    Attributes:
        kind: `step` against the baseline, or `drift` along the last nights.
        again: the ratio to the baseline that the new measurements show by themselves.
    """

    way: Literal["worse", "better"]
    kind: Literal["step", "drift"]
    deviation: Deviation
    again: float | None


def suspected(watched: Watched, rule: NightRule) -> Move | None:
    """A move at the screening level: worth measuring the cell again."""
    return _stepped(watched, rule, rule.screen) or _drifted(watched, rule)


def called(watched: Watched, rule: NightRule) -> Move | None:
    """A move at the calling level that the measurements made again agree with."""
    stepped = _stepped(watched, rule, rule.confidence)
    if stepped is not None and _agrees(stepped, size(watched.signal, rule.effects)):
        return stepped
    drifted = _drifted(watched, rule)
    return drifted if drifted is not None and _agrees(drifted, 0.0) else None


def unconfirmed(watched: Watched, rule: NightRule) -> Move | None:
    """A move at the calling level of a cell that nobody measured again."""
    if watched.tonight.again:
        return None
    return _stepped(watched, rule, rule.confidence) or _drifted(watched, rule)


def compared(watched: Watched, rule: NightRule) -> Deviation | None:
    """Tonight against the baseline, whatever it shows; None without enough good nights."""
    chosen = standard(watched.earlier, watched.decided, rule)
    if not enough(watched, chosen, rule):
        return None
    return deviation([watched.tonight], chosen, spread(watched, rule), rule.confidence)


def spread(watched: Watched, rule: NightRule) -> Spread:
    """The variance between nights to expect of this cell."""
    nights = settled(watched.earlier, watched.decided, rule)
    return cell_spread(own_spread(nights), watched.suite)


def _stepped(watched: Watched, rule: NightRule, confidence: float) -> Move | None:
    effect, variance = size(watched.signal, rule.effects), spread(watched, rule)
    level = since(watched.earlier, watched.decided)
    for nights in rule.windows:
        chosen = standard(watched.earlier, watched.decided, rule, skip=nights - 1)
        if len(level) < nights - 1 or not enough(watched, chosen, rule):
            continue
        before = level[len(level) - (nights - 1) :]
        window = (*before, watched.tonight)
        found = deviation(window, chosen, variance, confidence)
        way = found.beyond(effect) if found is not None else 0
        if found is None or not way or not _one_level(before, watched.tonight, variance, rule):
            continue
        return Move("better" if way > 0 else "worse", "step", found, _again(watched, chosen))
    return None


def _one_level(before: Sequence[Level], tonight: Level, variance: Spread, rule: NightRule) -> bool:
    """Whether tonight may be of one level with the window's other nights.

    Else a window would go on telling of nights that are over.
    """
    if not before:
        return True
    found = deviation([tonight], before, variance, rule.confidence)
    return found is not None and not found.beyond(0.0)


def _drifted(watched: Watched, rule: NightRule) -> Move | None:
    if watched.decided is not None and watched.decided.action == "pin":
        return None  # compared with one night however far back, a drift is a step
    good = [level for level in since(watched.earlier, watched.decided) if level.good]
    levels = (*good[-(rule.drift_nights - 1) :], watched.tonight)
    if len(levels) < MIN_DRIFT_NIGHTS:
        return None
    found = drift(levels, days(levels), rule.drift_confidence)
    way = found.beyond(max(rule.drift_effect, size(watched.signal, rule.effects))) if found else 0
    if found is None or not way:
        return None
    return Move("better" if way > 0 else "worse", "drift", found, _again(watched, levels[:-1]))


def enough(watched: Watched, chosen: Sequence[Level], rule: NightRule) -> bool:
    """Whether these nights are a baseline; where a person said so, one is."""
    return len(chosen) >= (1 if watched.decided is not None else rule.min_nights)


def _again(watched: Watched, baseline: Sequence[Level]) -> float | None:
    tonight = watched.tonight
    if not tonight.again:
        return None
    return ratio([tonight._replace(samples=tonight.samples[-tonight.again :])], baseline)


def _agrees(move: Move, effect: float) -> bool:
    if move.again is None:
        return False
    return move.again > 1 + effect if move.way == "better" else move.again < 1 / (1 + effect)


def days(levels: Sequence[Level]) -> list[float]:
    """When each night was, in days after the first."""
    first = datetime.fromisoformat(levels[0].at)
    return [(datetime.fromisoformat(one.at) - first).total_seconds() / 86400 for one in levels]
