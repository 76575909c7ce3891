"""What one night measured, as a record that is kept for good. Whatever is judged later, is judged
from these: no night is measured twice, and none is read from anything else.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.methods import BASELINE
from pipeline.plan import Coordinates
from pipeline.records import Status
from pipeline.spec import Record

Lossless = Literal["lossless", "not lossless", "too little to tell"]
# What an output token cost (seconds, or verification steps), by prompt and repeat.
Costs = dict[str, dict[int, float]]


class Measured(Record):
    """One cell, measured once.

    Attributes:
        parts: digests of what its fingerprint is made of (checkpoint, drafter, prompts, settings),
            so that a cell whose fingerprint is new can say what of it is.
        costs: seconds per token of the cell.
        reference: of the baseline measured beside it; empty for a baseline itself.
        steps: verification steps per token; empty without drafts.
        length: acceptance length; None without drafts.
        outputs: of a greedy baseline, a digest of each prompt's answer; empty otherwise.
    """

    fingerprint: str
    at: Coordinates
    node: str
    status: Status
    reason: str = ""
    parts: dict[str, str] = Field(default_factory=dict)
    costs: Costs = Field(default_factory=dict)
    reference: Costs = Field(default_factory=dict)
    steps: Costs = Field(default_factory=dict)
    length: float | None = None
    lossless: Lossless | None = None
    outputs: dict[str, str] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """The cell's name for people."""
        return self.at.label

    @property
    def is_baseline(self) -> bool:
        """Whether this is plain decoding, which others are compared with."""
        return self.at.kind == BASELINE


class LeftOut(Record):
    """A cell that was not measured, or not as often as the suite has it, and why."""

    at: Coordinates
    reason: str

    @property
    def label(self) -> str:
        """The cell's name for people."""
        return self.at.label


class Night(Record):
    """One run of a suite.

    Attributes:
        id: sorts by time.
        at: when it began, ISO 8601 with its offset.
        node_class: what kind of machine it ran on; nights of different classes are not compared.
        environment: versions by name: vLLM, driver, kernel and so on.
        cells: what was measured, in order.
        more: the same cells by further starts of their engines, as the suite has it every night.
        fewer_starts: cells that not all of these starts measured, with the reason.
        again: the cells that looked changed, measured again, possibly more than once.
        recommended: by place (`smollm2-135m/chat/c1`) the setting to use there.
        called: labels of the cells that the night's verdict says have changed; they are no
            baseline unless a person accepts them.
        found: keys of all findings, by which the next night knows what is news.
        told: whether people were told of it, by which a later night knows when they last were.
        undelivered: whether a message about it was due that not everybody got; the next night then
            says again what this one found.
    """

    schema_version: Literal[1] = 1
    id: str
    suite: str
    at: str
    node_class: str
    environment: dict[str, str] = Field(default_factory=dict)
    cells: tuple[Measured, ...]
    more: tuple[Measured, ...] = ()
    again: tuple[Measured, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    fewer_starts: tuple[LeftOut, ...] = ()
    recommended: dict[str, str] = Field(default_factory=dict)
    called: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    told: bool = False
    undelivered: bool = False

    @property
    def date(self) -> str:
        """The day it began."""
        return self.at[:10]

    @property
    def last(self) -> tuple[Measured, ...]:
        """How each cell stands: as it was last measured again, else as its worst start left it."""
        return tuple(self._standing(cell.fingerprint) for cell in self.cells)

    def measurements(self, fingerprint: str) -> tuple[Measured, ...]:
        """Every measurement of one cell, the first one first."""
        every = (*self.cells, *self.more, *self.again)
        return tuple(m for m in every if m.fingerprint == fingerprint)

    def inexact(self, fingerprint: str) -> bool:
        """Whether a start's answers were not the target's own, and measuring again says no other.

        Each rescoring may be wrong by chance, so one that those after it contradict is not told.
        """
        again = [one for one in self.again if one.fingerprint == fingerprint]
        cleared = bool(again) and all(one.lossless == "lossless" for one in again)
        every = self.measurements(fingerprint)
        return not cleared and any(one.lossless == "not lossless" for one in every)

    def _standing(self, fingerprint: str) -> Measured:
        again = [m for m in self.again if m.fingerprint == fingerprint]
        usual = [m for m in (*self.cells, *self.more) if m.fingerprint == fingerprint]
        bad = [m for m in usual if m.status != "OK"]
        return (again[-1:] or bad or usual)[0]


def place(at: Coordinates) -> str:
    """What a recommendation is for: the model, the kind of prompts, the concurrency."""
    return f"{at.model}/{at.dataset}/c{at.concurrency}"


def setting(at: Coordinates) -> str:
    """What a recommendation says: a method and its K."""
    return at.method if at.kind == BASELINE else f"{at.method} K={at.k}"
