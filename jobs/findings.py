"""What is said about a night: findings, each with its evidence, and the exit code they come to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from jobs.changes import OWN_COMMIT, Change
from jobs.levels import Deviation
from jobs.night import LeftOut
from jobs.signals import Signal
from pipeline.errors import (
    EXIT_CELLS_FAILED,
    EXIT_NO_INFRASTRUCTURE,
    EXIT_OK,
    EXIT_REGRESSION,
)
from pipeline.spec import Record

Kind = Literal[
    "worse",
    "drift",
    "not lossless",
    "outputs",
    "noop",
    "suspect",
    "missing",
    "failed",
    "recommendation",
    "better",
    "unconfirmed",
    "no baseline",
    "not comparable",
    "new",
]
# In the order of a message. What stands in neither of the first two is told, and ends with 0.
REGRESSIONS: tuple[Kind, ...] = (
    "worse",
    "drift",
    "not lossless",
    "outputs",
    "noop",
    "suspect",
    "missing",
)
# What a person has to look at before the cell can be a baseline again.
NO_BASELINE_AFTER: tuple[Kind, ...] = ("worse", "drift", "better", "unconfirmed", "outputs")


class Point(Record):
    """One night of a trend: a geometric mean over prompts, and whether it may be a baseline."""

    date: str
    value: float
    good: bool


class Trend(Record):
    """A signal over the nights, tonight last, and the baseline's level."""

    points: tuple[Point, ...]
    unit: str
    level: float | None


class Finding(Record):
    """One thing to say about one cell or place.

    Attributes:
        about: a cell's label, or a place.
        sentence: what was found, with its numbers.
        deviation: of a signal that moved.
        since: the day that it began, where a step in the history shows it.
        suspects: what else changed that night.
        news: whether the night before did not say it.
    """

    kind: Kind
    about: str
    sentence: str
    signal: Signal | None = None
    deviation: Deviation | None = None
    since: str | None = None
    suspects: tuple[str, ...] = ()
    trend: Trend | None = None
    news: bool = True

    @property
    def key(self) -> str:
        """Equal in two nights that say the same of the same."""
        return ":".join(filter(None, (self.kind, self.signal, self.about)))


class NightVerdict(Record):
    """Everything that is said about a night.

    Attributes:
        changes: of the environment since the night before; they come first in a message.
        resolved: keys of what the night before said and this one, having looked, does not.
        standing: keys of what the night before said and this one could not look at.
        cells: labels of what was measured; compared: of these, what had earlier nights to be
            compared with.
        newly_left_out: labels of what the night before did not leave out.
        fewer_starts: cells that not every start of the suite measured; newly_fewer: of these, those
            that all starts measured the night before.
        measured_again: labels.
        lost: cells that had a baseline and can be compared with none tonight.
    """

    schema_version: Literal[1] = 1
    suite: str
    night: str
    at: str
    node_class: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    resolved: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    newly_left_out: tuple[str, ...] = ()
    fewer_starts: tuple[LeftOut, ...] = ()
    newly_fewer: tuple[str, ...] = ()
    recommended: dict[str, str] = Field(default_factory=dict)
    cells: tuple[str, ...]
    compared: tuple[str, ...] = ()
    measured_again: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def date(self) -> str:
        """The day of the night."""
        return self.at[:10]

    def of(self, *kinds: Kind) -> tuple[Finding, ...]:
        """The findings of some kinds."""
        return tuple(finding for finding in self.findings if finding.kind in kinds)

    @property
    def exit_code(self) -> int:
        """4 for a regression, 3 for failed cells, 5 where nothing can be compared, else 0."""
        if self.of(*REGRESSIONS):
            return EXIT_REGRESSION
        if self.of("failed"):
            return EXIT_CELLS_FAILED
        if self.lost or not self.compared or self.of("unconfirmed"):
            return EXIT_NO_INFRASTRUCTURE
        return EXIT_OK

    @property
    def has_news(self) -> bool:
        """Whether anything is different from what the night before said."""
        around = any(change.what != OWN_COMMIT for change in self.changes)
        findings = any(finding.news for finding in self.findings)
        less = self.newly_left_out or self.newly_fewer
        return bool(around or self.resolved or less or findings)
