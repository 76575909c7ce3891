"""The tables of a report: results with intervals and verdicts, and losslessness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipeline.analysis.energy import NAME as ENERGY
from pipeline.analysis.findings import CellFinding
from pipeline.analysis.losslessness import Agreement, GreedyCheck, SampledCheck
from pipeline.analysis.rescoring import NEAR_TIE_NAT, WidestGap
from pipeline.analysis.statistics import Estimate
from pipeline.analysis.wording import decimals, span
from pipeline.methods import BASELINE
from pipeline.records import CellRecord
from pipeline.report.page import Entry, Heading, Table, Tone
from pipeline.report.parts import Judged, Part, comparison
from pipeline.report.precision import (
    length_text,
    median_text,
    percent_text,
    positions_text,
    rate_text,
)
from pipeline.results import DECODE, NOTHING

_RESULTS = (
    Heading(text="prompts"),
    Heading(text="method"),
    Heading(text="K", numeric=True),
    Heading(text="decode tok/s", numeric=True),
    Heading(text="plain beside it", numeric=True),
    Heading(text="times plain decoding", numeric=True),
    Heading(text="verdict"),
    Heading(text="lossless"),
    Heading(text="n", numeric=True),
    Heading(text="J per token", numeric=True),
    Heading(text="accept length", numeric=True),
    Heading(text="accept rate", numeric=True),
    Heading(text="accepted up to position 1, 2, …"),
)
_LOSSLESS = (
    Heading(text="prompts"),
    Heading(text="method"),
    Heading(text="K", numeric=True),
    Heading(text="verdict"),
    Heading(text="wide gaps", numeric=True),
    Heading(text="baseline's own", numeric=True),
    Heading(text="largest gap, nat", numeric=True),
    Heading(text="same text", numeric=True),
    Heading(text="first difference"),
)
_TONES: dict[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "lossless": "good",
    "not lossless": "bad",
    BASELINE: "dim",
}


def results_table(part: Part) -> Table:
    """Every cell of a part, whatever became of it."""
    return Table(
        caption=(
            "Decode speed: median over prompts ± median absolute deviation; plain beside it: the"
            " same of the baseline that the cell was paired with. Times plain decoding: geometric"
            " mean of each prompt's own ratio, with a 95% interval, so not a ratio of medians. A"
            " verdict takes more than an interval that excludes 1: it is corrected for the number"
            " of comparisons, and an effect of 3% is needed. n: prompts x repeats."
        ),
        headings=_RESULTS,
        rows=tuple(tuple(_result(one)) for one in part.cells),
    )


def lossless_table(part: Part) -> Table | None:
    """What rescoring said of each cell, and whether texts were the same."""
    rows = [tuple(_lossless(one)) for one in part.cells if one.finding.lossless is not None]
    if not rows:
        return None
    return Table(
        caption=(
            f"Wide gaps: tokens that the plain engine scores more than {NEAR_TIE_NAT} nat below its"
            " own choice, of the method's output and of the baseline's own (the noise floor)."
            " Sampled output shows the difference in log-likelihood per token instead."
        ),
        headings=_LOSSLESS,
        rows=tuple(rows),
    )


def _result(one: Judged) -> Iterator[Entry]:
    record, counts = one.record, one.record.counts
    yield from _place(record)
    decode = record.metrics.get(DECODE)
    yield _entry(median_text(decode), decode.value) if decode else _entry(NOTHING)
    yield _plain(one)
    yield _ratio(one.estimate)
    yield _verdict(one)
    yield _toned(one.finding.lossless.verdict) if one.finding.lossless else _entry(NOTHING)
    yield _entry(_sample(record), decode.n if decode else None)
    energy = record.metrics.get(ENERGY)
    yield _entry(median_text(energy), energy.value) if energy else _entry(NOTHING)
    if counts is None or not record.at.k:
        yield from [_entry(NOTHING)] * 3
        return
    yield _entry(length_text(counts), _over(counts.accepted, counts.drafts))
    yield _entry(rate_text(counts), _over(counts.accepted, counts.drafted))
    yield _entry(positions_text(counts))


def _place(record: CellRecord) -> Iterator[Entry]:
    at = record.at
    yield _entry(at.dataset)
    yield _entry(at.method)
    yield _entry(str(at.k) if at.k else NOTHING, at.k)


def _plain(one: Judged) -> Entry:
    """The decode speed of the baseline that a cell was paired with; of two ends, their mean."""
    beside = [one.record.companion, one.evidence.opening, one.evidence.closing]
    known = [end.metrics[DECODE] for end in beside if end is not None and DECODE in end.metrics]
    if not known:
        return _entry(NOTHING)
    found = known[0].model_copy(
        update={
            "value": fmean(end.value for end in known),
            "spread": max(end.spread for end in known),
        }
    )
    return _entry(median_text(found), found.value)


def _ratio(found: Estimate | None) -> Entry:
    return _entry(span(found), found.ratio) if found else _entry(NOTHING)


def _verdict(one: Judged) -> Entry:
    if one.record.status != "OK":
        return Entry(text=one.record.status, tone="bad")
    found = comparison(one)
    return _toned(found.verdict) if found else Entry(text="baseline", tone="dim")


def _sample(record: CellRecord) -> str:
    prompts = len({one.prompt_id for one in record.costs})
    repeats = len({one.repeat for one in record.costs})
    if not prompts:
        decode = record.metrics.get(DECODE)
        return str(decode.n) if decode else NOTHING
    return f"{prompts} x {repeats}"


def _lossless(one: Judged) -> Iterator[Entry]:
    yield from _place(one.record)
    found = one.finding.lossless
    assert found is not None, "only rescored cells are listed"
    yield _toned(found.verdict)
    yield from _greedy(found) if isinstance(found, GreedyCheck) else _sampled(found)
    yield from _agreement(one.finding)


def _greedy(found: GreedyCheck) -> Iterator[Entry]:
    yield _entry(_share(found.wide, found.tokens), found.share)
    yield _entry(_share(found.floor_wide, found.floor_tokens), found.floor_share)
    yield _gap(found.widest)


def _sampled(found: SampledCheck) -> Iterator[Entry]:
    difference = found.difference
    if difference is None:
        yield from [_entry(NOTHING)] * 3
        return
    digits = decimals((difference.high - difference.low) / 2, most=3)
    low, high = f"{difference.low:+.{digits}f}", f"{difference.high:+.{digits}f}"
    yield _entry(f"{difference.mean:+.{digits}f} nat ({low} to {high})", difference.mean)
    yield from [_entry(NOTHING)] * 2


def _agreement(finding: CellFinding) -> Iterator[Entry]:
    found = finding.agreement
    if found is None or not found.outputs:
        yield from [_entry(NOTHING)] * 2
        return
    yield _entry(f"{found.same} of {found.outputs}", found.same / found.outputs)
    yield _entry(_first_difference(found))


def _first_difference(found: Agreement) -> str:
    if not found.first_difference:
        return "none"
    name, position = min(found.first_difference.items(), key=lambda item: (item[1], item[0]))
    return f"token {position + 1} of {name.rpartition('/')[0] or name}"


def _gap(found: WidestGap | None) -> Entry:
    if found is None:
        return _entry(NOTHING)
    where = f"{found.prompt_id}, token {found.position + 1}"
    return _entry(f"{found.gap_nat:.2g} ({where})" if found.gap_nat else "0", found.gap_nat)


def _share(part: int, whole: int) -> str:
    share = f" ({percent_text(part, whole)})" if part else ""
    return f"{part} of {whole}{share}"


def _over(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _entry(text: str, sort: float | None = None) -> Entry:
    return Entry(text=text, sort=sort)


def _toned(word: str) -> Entry:
    return Entry(text=word, tone=_TONES.get(word, ""))


def columns(table: Table) -> Sequence[int]:
    """The columns that tell anything: in the others every row has nothing."""
    return [
        i for i in range(len(table.headings)) if any(row[i].text != NOTHING for row in table.rows)
    ]
