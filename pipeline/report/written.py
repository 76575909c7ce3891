"""The report's files: judged, built, rendered and put in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.analysis.answer import answer_markdown
from pipeline.analysis.findings import Evidence
from pipeline.analysis.judging import find
from pipeline.evidence import gather
from pipeline.outputs import Outputs, write_atomically
from pipeline.report import FIGURES, HTML, MARKDOWN, Report
from pipeline.report.build import build
from pipeline.report.page import Page
from pipeline.report.render import html, markdown


def write(outputs: Outputs, fingerprints: Sequence[str] | None) -> Report:
    """See `pipeline.report.write_report`."""
    evidence = _in_order(gather(outputs, fingerprints), fingerprints)
    findings = find(evidence)
    page = build(outputs.folder.name, evidence, findings, outputs.starts(), outputs.plan())
    text = markdown(page)
    figures = _write_figures(outputs.folder, page)
    write_atomically(outputs.folder / HTML, html(page))
    write_atomically(outputs.folder / MARKDOWN, text)
    return Report(
        answer=answer_markdown(findings),
        markdown=text,
        html=outputs.folder / HTML,
        figures=figures,
        findings=findings,
    )


def _in_order(
    evidence: Sequence[Evidence], fingerprints: Sequence[str] | None
) -> tuple[Evidence, ...]:
    if fingerprints is None:
        return tuple(evidence)
    order = {fingerprint: i for i, fingerprint in enumerate(fingerprints)}
    return tuple(sorted(evidence, key=lambda one: order[one.record.fingerprint]))


def _write_figures(folder: Path, page: Page) -> tuple[Path, ...]:
    """Every figure, and nothing left of an earlier report."""
    wanted = {
        folder / FIGURES / f"{chapter.slug}-{figure.kind}.svg": figure
        for chapter in page.chapters
        for figure in chapter.figures
    }
    for stale in set((folder / FIGURES).glob("*.svg")) - wanted.keys():
        stale.unlink()
    for path, figure in wanted.items():
        write_atomically(path, figure.alone)
    return tuple(wanted)
