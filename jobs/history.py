"""The nights so far, and which of them a cell is compared with.

The baseline of a cell is its last good nights, pooled: measured OK, with drafts that are accepted,
and not called better or worse. So a slower level never becomes the standard by itself, nor a faster
one: a person accepts it, and the decision is kept with who took it and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from jobs.levels import Level, Spread, own_spread, suite_spread
from jobs.night import Measured, Night
from jobs.signals import Sample, Signal, sample, size
from jobs.suite import NightRule
from pipeline.spec import Record

Sampler = Callable[[Measured], Sample]


class Decision(Record):
    """What a person said about baselines.

    Attributes:
        action: `pin` compares with one night only; `accept` starts a new level with that night;
            `reset` takes all earlier decisions back.
        night: the id of the night meant; empty for a reset.
        cells: labels; empty for all cells.
    """

    schema_version: Literal[1] = 1
    action: Literal["pin", "accept", "reset"]
    suite: str
    night: str = ""
    cells: tuple[str, ...] = ()
    reason: str = Field(min_length=1)
    by: str
    at: str

    def concerns(self, label: str) -> bool:
        """Whether it is about this cell."""
        return not self.cells or label in self.cells


def standard(
    earlier: Sequence[Level], decided: Decision | None, rule: NightRule, skip: int = 0
) -> tuple[Level, ...]:
    """The nights that a cell is compared with.

    Args:
        earlier: the cell's nights before tonight, oldest first.
        decided: the decision about the cell that stands.
        skip: how many of the newest are compared themselves.
    """
    if decided is not None and decided.action == "pin":
        return tuple(one for one in earlier if one.night == decided.night and one.good)
    return _good(since(earlier, decided), rule, skip)


def settled(
    earlier: Sequence[Level], decided: Decision | None, rule: NightRule
) -> tuple[Level, ...]:
    """The nights that show how much nights differ with nothing changed.

    The newest, as many as the longest window holds beside tonight, are in question themselves: were
    they part of it, a change would make room for itself.
    """
    return _good(since(earlier, decided), rule, max(rule.windows) - 1)


def _good(levels: Sequence[Level], rule: NightRule, skip: int) -> tuple[Level, ...]:
    older = levels[: max(0, len(levels) - skip)]
    return tuple([one for one in older if one.good][-rule.nights :])


def since(levels: Sequence[Level], decided: Decision | None) -> tuple[Level, ...]:
    """The nights that a decision lets be of tonight's level; all of them without a decision."""
    if decided is None:
        return tuple(levels)
    if decided.action == "pin":
        return tuple(level for level in levels if level.night > decided.night)
    return tuple(level for level in levels if level.night >= decided.night)


class History:
    """A suite's nights on one class of machine, oldest first, and the decisions about them."""

    def __init__(self, nights: Sequence[Night], decisions: Sequence[Decision] = ()) -> None:
        self.nights = tuple(sorted(nights, key=lambda night: night.id))
        self.decisions = tuple(sorted(decisions, key=lambda decision: decision.at))

    def before(self, night: Night) -> History:
        """The history as that night found it, on its class of machine."""
        earlier = [n for n in self.nights if n.id < night.id and n.node_class == night.node_class]
        return History(earlier, self.decisions)

    @property
    def last(self) -> Night | None:
        """The night before."""
        return self.nights[-1] if self.nights else None

    @property
    def last_heard(self) -> Night | None:
        """The newest night whose message arrived: what it said is no news."""
        return next((night for night in reversed(self.nights) if not night.undelivered), None)

    def standing(self, label: str) -> Measured | None:
        """How the newest night that measured a cell left it; None where none did."""
        every = (cell for night in reversed(self.nights) for cell in night.last)
        return next((cell for cell in every if cell.label == label), None)

    def levels(self, fingerprint: str, of: Sampler, rule: NightRule) -> tuple[Level, ...]:
        """The nights that measured a cell, with the samples of what is asked for."""
        found = (self._level(night, fingerprint, of, rule) for night in self.nights)
        return tuple(level for level in found if level is not None)

    def spread(self, signal: Signal, rule: NightRule) -> Spread:
        """The variance between nights that the suite's cells share."""
        own = (own_spread(levels) for levels in self._settled(signal, rule))
        return suite_spread(own, size(signal, rule.assumed), rule.assumed_nights)

    def decided(self, label: str) -> Decision | None:
        """The decision about a cell that stands."""
        concerning = [decision for decision in self.decisions if decision.concerns(label)]
        last = concerning[-1] if concerning else None
        return None if last is None or last.action == "reset" else last

    def uncalled(self, night: Night, label: str) -> bool:
        """Whether no verdict spoke of the cell, or a person has accepted what it said."""
        decided = self.decided(label)
        if decided is None or label not in night.called:
            return label not in night.called
        if decided.action == "pin":
            return decided.night == night.id
        return decided.night <= night.id and night.at <= decided.at

    def _settled(self, signal: Signal, rule: NightRule) -> Iterator[tuple[Level, ...]]:
        for cell in self.nights[-1].cells if self.nights else ():
            levels = self.levels(cell.fingerprint, partial(sample, signal=signal), rule)
            yield settled(levels, self.decided(cell.label), rule)

    def _level(self, night: Night, fingerprint: str, of: Sampler, rule: NightRule) -> Level | None:
        found = level(night, fingerprint, of)
        if found is None:
            return None
        measured = night.measurements(fingerprint)
        good = all(eligible(cell, rule) for cell in measured)
        return found._replace(good=good and self.uncalled(night, measured[0].label))


def level(night: Night, fingerprint: str, of: Sampler) -> Level | None:
    """A cell in one night; None where that night has nothing of what is asked for."""
    samples = tuple(found for cell in night.measurements(fingerprint) if (found := of(cell)))
    again = sum(1 for cell in night.again if cell.fingerprint == fingerprint and of(cell))
    return Level(night.id, night.at, samples, good=True, again=again) if samples else None


def eligible(cell: Measured, rule: NightRule) -> bool:
    """Whether a cell may be a baseline: OK, lossless as far as is known, its drafts accepted."""
    drafts = cell.is_baseline or (cell.length is not None and cell.length > rule.floor_length)
    return cell.status == "OK" and drafts and cell.lossless != "not lossless"
