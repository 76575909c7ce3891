"""The sentences of findings about figures: how far, how sure, and which side of a ratio moved."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.history import History, Sampler, level, standard
from jobs.levels import ratio
from jobs.moves import Move, Watched
from jobs.night import Measured, Night
from jobs.signals import NAMES, baseline_speed, own_speed
from jobs.suite import NightRule
from pipeline.analysis.wording import percent


def moved(
    watched: Watched, move: Move, rule: NightRule, own: float | None, base: float | None
) -> str:
    """How far a signal moved, how sure that is, and what the new measurements say.

    Args:
        own, base: absolute decode speed tonight over that of the baseline's nights, of the cell and
            of the baseline beside it.
    """
    found = move.deviation
    if move.kind == "drift":
        text = (
            f"{NAMES[watched.signal]} drifted to {found.ratio:.3f} times its value within"
            f" {found.nights} nights ({percent(rule.drift_confidence)} interval {found.low:.3f} to"
            f" {found.high:.3f})"
        )
    else:
        pinned = watched.decided is not None and watched.decided.action == "pin"
        of = "the pinned night" if pinned else f"the last {_nights(found.baseline_nights)}"
        over = f" over {found.nights} nights" if found.nights > 1 else ""
        text = (
            f"{NAMES[watched.signal]}{over} is {found.ratio:.3f} times that of {of}"
            f" ({percent(rule.confidence)} interval {found.low:.3f} to"
            f" {found.high:.3f}, {found.prompts} prompts)"
        )
    if move.again is not None:
        text += f"; measured again {move.again:.3f}"
    if watched.signal == "speed":
        text += ". The machine is in it: methods measured beside it may have kept their ratio"
    if watched.signal == "speedup" and own is not None and base is not None:
        text += (
            f". By the clock, with the machine in both: itself {own:.2f}, its baseline {base:.2f}"
        )
    return text


def sides(
    history: History, night: Night, cell: Measured, rule: NightRule
) -> tuple[float | None, float | None]:
    """By the clock, tonight over the baseline's nights: the cell and the baseline beside it."""
    return (
        _clock(history, night, cell, rule, own_speed),
        _clock(history, night, cell, rule, baseline_speed),
    )


def ineligible(cell: Measured, rule: NightRule) -> str:
    """Why an OK cell is no baseline for the nights to come."""
    length = "no draft was made" if cell.length is None else f"{cell.length:.2f} tokens per step"
    return f"{length}; a baseline needs an acceptance length above {rule.floor_length:g}"


def too_few(nights: int, parts: Sequence[str], rule: NightRule) -> str:
    """How many nights there are, how many it takes, and why a known cell has so few."""
    text = f"has {_nights(nights)} of the {rule.min_nights} it takes to compare"
    if not parts:
        return text
    return f"is another cell than before ({', '.join(parts)} changed) and {text}"


def _clock(
    history: History, night: Night, cell: Measured, rule: NightRule, of: Sampler
) -> float | None:
    tonight = level(night, cell.fingerprint, of)
    earlier = history.levels(cell.fingerprint, of, rule)
    chosen = standard(earlier, history.decided(cell.label), rule)
    return ratio([tonight], chosen) if tonight is not None and chosen else None


def _nights(count: int) -> str:
    return f"{count} good night{'s' * (count != 1)}"
