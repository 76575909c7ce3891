"""What a preflight says: findings, each with its reason and its cure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pipeline.errors import PipelineError
from pipeline.spec import Record

Severity = Literal["ok", "warn", "stop"]
GIB = 1024**3


class Finding(Record):
    """One answer.

    Attributes:
        severity: `warn` leaves the decision to a person, `stop` keeps an engine from being started.
        what: the fact, with its number.
        why: what it does to an engine or to a measurement; empty where all is well.
        cure: what to do next, a command where there is one.
    """

    check: str
    severity: Severity
    what: str
    why: str = ""
    cure: str = ""

    @property
    def sentence(self) -> str:
        """What, why, and what to do next."""
        return f"{self.what}: {self.why}; {self.cure}"


def ok(check: str, what: str) -> Finding:
    """A fact that is as it should be."""
    return Finding(check=check, severity="ok", what=what)


def warn(check: str, what: str, why: str, cure: str) -> Finding:
    """A fact that may spoil a start or a measurement."""
    return Finding(check=check, severity="warn", what=what, why=why, cure=cure)


def stop(check: str, what: str, why: str, cure: str) -> Finding:
    """A fact with which an engine would not start, or its numbers would mean nothing."""
    return Finding(check=check, severity="stop", what=what, why=why, cure=cure)


def from_error(check: str, error: PipelineError, why: str) -> Finding:
    """An error of ours as a finding that stops."""
    where = f"{error.where}: " if error.where else ""
    allowed = f"allowed: {error.allowed}" if error.allowed else ""
    return stop(check, where + error.problem, why, error.remedy or allowed)


def stopped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that keep an engine from being started."""
    return tuple(finding for finding in findings if finding.severity == "stop")


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"
