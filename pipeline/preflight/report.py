"""A preflight as a record, and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.host.reading import HostReading
from pipeline.host.reference import reference_file
from pipeline.host.throttling import Reference
from pipeline.preflight.findings import Finding, stopped
from pipeline.spec import Record

_MARKS = {"ok": ("ok", "green"), "warn": ("WARN", "yellow"), "stop": ("STOP", "bold red")}


class PreflightReport(Record):
    """What was asked, read and found.

    Attributes:
        engines: the engine groups that were looked at.
        reference: what this node's GPU has sustained, None where it is not known yet.
    """

    schema_version: Literal[1] = 1
    sweep: str
    platform: str
    engines: tuple[str, ...]
    findings: tuple[Finding, ...]
    reference: Reference | None
    host: HostReading


def rendered(report: PreflightReport) -> Group:
    """The findings that want something first; then what is well; then one sentence."""
    troubles = [f for s in ("stop", "warn") for f in report.findings if f.severity == s]
    well = [f for f in report.findings if f.severity == "ok"]
    engines = f"{len(report.engines)} engine{'s' * (len(report.engines) != 1)}"
    head = f"{report.host.node} as {report.platform}, for {engines}"
    parts: list[RenderableType] = [Text(f"{head} of {report.sweep}", style="bold")]
    if report.findings:
        parts.append(_table([*troubles, *well]))
    if report.reference is not None:
        parts.append(Text(_basis(report.reference), style="dim"))
    return Group(*parts, Text(verdict(report.findings)))


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    stops = len(stopped(findings))
    warnings = sum(finding.severity == "warn" for finding in findings)
    if stops:
        return f"an engine should not be started: {stops} to cure first, warnings: {warnings}"
    return f"nothing keeps an engine from being started; warnings: {warnings}"


def _basis(known: Reference) -> str:
    return (
        f"reference: {known.gpu} sustained {known.sm_clock_mhz:.0f} MHz on {known.measured_at}"
        f" ({reference_file()}; delete it to begin anew)"
    )


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "check", "finding"):
        table.add_column(heading, no_wrap=heading != "finding", overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.severity]
        said = Text(finding.what)
        if finding.why:
            said.append(f"\n{finding.why}", style="dim")
        if finding.cure:
            said.append(f"\n→ {finding.cure}", style="bold")
        table.add_row(Text(mark, style=style), Text(finding.check), said)
    return table
