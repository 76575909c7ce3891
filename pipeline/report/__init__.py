"""The report of a sweep: the answer in words, the evidence in tables and figures, in Markdown and
as one HTML file that needs no network.

    python -m pipeline.report outputs/spec_methods

It is a view of the records: made at the end of every sweep, and again any time from the disk, with
the same bytes for the same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.analysis.findings import Findings
from pipeline.outputs import Outputs
from pipeline.spec import Record

MARKDOWN, HTML, FIGURES = "report.md", "report.html", "figures"


class Report(Record):
    """What was written, and what it says.

    Attributes:
        answer: the answer alone (Markdown), for a note or a console.
        markdown: the text of `report.md`.
        html, figures: where the other files lie.
        findings: the verdicts behind it.
    """

    answer: str
    markdown: str
    html: Path
    figures: tuple[Path, ...]
    findings: Findings


def write_report(outputs: Outputs, fingerprints: Sequence[str] | None = None) -> Report:
    """Judge the cells of a sweep and write `report.md`, `report.html` and `figures/`.

    Args:
        fingerprints: the cells to report, in their order; all of the folder where None.

    Raises:
        RecordError: a record cannot be read.
        WriteError: the disk did not take a file.
    """
    # matplotlib and scipy take a second that a dry run need not pay.
    from pipeline.report.written import write

    return write(outputs, fingerprints)
