"""Which setting to use in each place, held on to until another one is clearly ahead of it.

The fastest of several equals changes from night to night by luck. So the setting recommended last
stays until the interval of another one's lead over it, prompt by prompt over the last nights, lies
beyond the smallest effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean

from jobs.findings import Finding
from jobs.history import History, eligible, level
from jobs.levels import Deviation, Level, Spread, deviation
from jobs.night import Measured, Night, place, setting
from jobs.signals import Sample, sample
from jobs.suite import NightRule
from pipeline.analysis.wording import percent
from pipeline.methods import BASELINE


def recommend(
    history: History, night: Night, spread: Spread, rule: NightRule
) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """Tonight's recommendations by place, and a finding for each that people heard otherwise.

    Args:
        spread: the variance of a speed-up between nights.
    """
    findings = []
    # What no message brought, and a night that was never judged, recommend nothing to anybody.
    standing = history.last_heard.recommended if history.last_heard is not None else {}
    # A place that was left out for one night keeps what was recommended for it.
    out = {place(one.at) for one in night.left_out}
    chosen = {where: name for where, name in standing.items() if where in out}
    cells = sorted(night.last, key=lambda cell: place(cell.at))
    for where, group in groupby(cells, key=lambda cell: place(cell.at)):
        choice = _Choice(history, night, tuple(group), spread, rule)
        before = standing.get(where, night.recommended.get(where))
        chosen[where], why = choice.instead_of(before)
        if where in standing and chosen[where] != standing[where]:
            findings.append(Finding(kind="recommendation", about=where, sentence=why))
    return chosen, tuple(findings)


class _Choice:
    """The choice in one place."""

    def __init__(
        self,
        history: History,
        night: Night,
        cells: Sequence[Measured],
        spread: Spread,
        rule: NightRule,
    ) -> None:
        self._night, self._nights = night, (*history.nights, night)
        self._spread, self._rule = spread, rule
        self._usable = {setting(c.at): c for c in cells if _usable(night, c, rule)}
        # What failed, was left out for the budget or has no pair, says nothing against itself.
        self._untried = {setting(c.at) for c in cells if _untried(c, rule)}
        self._measured = {setting(c.at) for c in cells}
        self._untried |= {setting(one.at) for one in night.left_out}

    def instead_of(self, standing: str | None) -> tuple[str, str]:
        """The setting to use, and why it is not the standing one."""
        best = max(self._usable, key=self._speedup, default=BASELINE)
        if standing is None or best == standing:
            return best, ""
        if standing not in self._usable:
            return self._without(standing, best)
        lead = self._lead(best, standing)
        if lead is None:
            return standing, ""
        return best, (
            f"{best} instead of {standing}: {lead.ratio:.2f} times as fast over {lead.nights}"
            f" night{'s' * (lead.nights > 1)} ({percent(self._rule.confidence)} interval"
            f" {lead.low:.2f} to {lead.high:.2f})"
        )

    def _without(self, standing: str, best: str) -> tuple[str, str]:
        if standing in self._untried:
            return standing, ""
        why = "is not usable tonight" if standing in self._measured else "the suite has no more"
        return best, f"{best} instead of {standing}, which {why}"

    def _speedup(self, name: str) -> float:
        tonight = level(self._night, self._usable[name].fingerprint, _values)
        values = _mean(tonight.samples) if tonight is not None else {}
        return fmean(values.values()) if values else 0.0

    def _lead(self, name: str, other: str) -> Deviation | None:
        """How much faster one setting is than another, if it is: tonight, or over some nights."""
        one, two = self._usable[name], self._usable[other]
        # Both settings vary from night to night.
        shift, scatter = 2 * self._spread.shift, 2 * self._spread.scatter
        spread = self._spread._replace(shift=shift, scatter=scatter)
        for nights in self._rule.windows:
            found = [_difference(night, one, two) for night in self._nights[-nights:]]
            levels = [level for level in found if level is not None]
            lead = deviation(levels, (), spread, self._rule.confidence) if levels else None
            if lead is not None and lead.beyond(self._rule.effects.speedup) > 0:
                return lead
        return None


def _usable(night: Night, cell: Measured, rule: NightRule) -> bool:
    """Whether a cell as it stands can be advised, whichever of its starts gave other answers."""
    return not night.inexact(cell.fingerprint) and eligible(cell, rule) and bool(_values(cell))


def _untried(cell: Measured, rule: NightRule) -> bool:
    return cell.status in ("FAILED", "THROTTLED") or (eligible(cell, rule) and not _values(cell))


def _difference(night: Night, one: Measured, two: Measured) -> Level | None:
    """The log ratio of two settings in one night; None where either was not measured."""
    ours, theirs = (level(night, cell.fingerprint, _values) for cell in (one, two))
    if ours is None or theirs is None:
        return None
    first, second = _mean(ours.samples), _mean(theirs.samples)
    common = first.keys() & second.keys()
    values = {prompt: first[prompt] - second[prompt] for prompt in common}
    often = min(len(ours.samples), len(theirs.samples))
    return ours._replace(samples=(values,) * often) if values else None


def _mean(samples: Sequence[Sample]) -> Sample:
    prompts = set.intersection(*map(set, samples))
    return {prompt: fmean(sample[prompt] for sample in samples) for prompt in prompts}


def _values(cell: Measured) -> Sample:
    """Log speed-up by prompt; a baseline is as fast as itself."""
    if cell.is_baseline:
        return dict.fromkeys(cell.costs, 0.0)
    return sample(cell, "speedup")
