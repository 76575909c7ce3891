"""What MLflow is told about a cell and about a start: names, parameters, tags and points. Pure.

A metric's own name holds its summary, so that a table of runs shows and sorts by it. What else is
known of it stands under a prefix, since MLflow shows the last point of a series as its value and
draws a section of charts per prefix:

    speed/decode_tok_s                  the summary over prompts (median)
    spread/speed/decode_tok_s           its spread (median absolute deviation, same unit)
    n/speed/decode_tok_s                the number of values it sums up
    repeats/speed/decode_tok_s          one point per repeat, step = repeat
    accept/joint_0, accept/joint_1, …   one value per position
    accept/joint, accept/conditional    the same values as one curve, step = position
    host/power_w, host/sm_clock_mhz, …  the host while the cell was measured, step = second
    speedup/vs_baseline, low, high      the paired ratio and its interval, once the sweep is judged
    lossless/wide_share, largest_gap_nat, logprob_difference_nat   what rescoring found

Parameters are what runs are compared by. What a run is found by is a tag, because MLflow's
comparison begins with a plot of the parameters that differ, where hashes and paths tell nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from pipeline.analysis.findings import CellFinding
from pipeline.analysis.losslessness import GreedyCheck
from pipeline.host.series import Sample, TelemetrySummary
from pipeline.records import CellRecord, StartRecord
from pipeline.results import DECODE, outcome

START, FINGERPRINT, STARTED = "start_id", "fingerprint", "started_at"
NAME, PARENT, NOTE = "mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"
_CURVES = re.compile(r"^(accept/(?:joint|conditional))_(\d+)$")


class Point(NamedTuple):
    """One value of one metric; `step` is a repeat or a position, 0 for a summary."""

    name: str
    value: float
    step: int = 0


def cell_points(record: CellRecord) -> Iterator[Point]:
    """Every finite number of a cell; what is undefined for it is absent, not zero."""
    return (point for point in _all_points(record) if math.isfinite(point.value))


def _all_points(record: CellRecord) -> Iterator[Point]:
    # Decode speed first: MLflow's comparison opens with the metric it was told first.
    for name, summary in sorted(record.metrics.items(), key=lambda item: item[0] != DECODE):
        yield Point(name, summary.value)
        curve = _CURVES.match(name)
        if curve:
            yield Point(curve[1], summary.value, int(curve[2]))
        else:
            yield Point(f"spread/{name}", summary.spread)
            yield Point(f"n/{name}", summary.n)
    for name, values in record.per_repeat.items():
        for repeat, value in enumerate(values):
            yield Point(f"repeats/{name}", value, repeat)
    if record.telemetry is not None:
        yield from _host_points(record.telemetry)


def _host_points(summary: TelemetrySummary) -> Iterator[Point]:
    """What the host did while a cell was measured; what it does not tell is absent."""
    clock = summary.sm_clock_mhz
    found: dict[str, float | None] = {
        "host/power_w_mean": summary.power_w,
        "host/energy_j": summary.energy_j,
        "host/temperature_max_c": summary.temperature_max_c,
        "host/memory_available_min_bytes": summary.memory_available_min_bytes,
        "host/sm_clock_median_mhz": clock.median if clock is not None else None,
        **{f"host/throttle_s_{why}": s for why, s in (summary.throttle_s or {}).items()},
    }
    yield from (Point(name, value) for name, value in found.items() if value is not None)


def series_points(series: Iterable[Sample]) -> Iterator[Point]:
    """The host second by second, one curve per reading; steps are seconds since the cell began."""
    for sample in series:
        for name in ("sm_clock_mhz", "power_w", "temperature_c", "memory_available_bytes"):
            if (value := getattr(sample, name)) is not None:
                yield Point(f"host/{name}", value, round(sample.at_s))


def cell_params(record: CellRecord) -> dict[str, str]:
    """Where a cell lies in the grid, and on what it was measured where it got that far."""
    at, context = record.at, record.context
    params: dict[str, object] = {"model": at.model, "method": at.method, "k": at.k}
    params |= {"dataset": at.dataset, "concurrency": at.concurrency}
    if context is not None:
        params |= {"node": context.node, "vllm_version": context.vllm_version}
    return {name: str(value) for name, value in params.items()}


def cell_tags(record: CellRecord, parent: str) -> dict[str, str]:
    """What a cell's run is found by, and how the cell ended."""
    # The model last: MLflow cuts long names at the end, and the method tells cells apart.
    model, _, rest = record.at.label.partition("/")
    tags = {NAME: f"{rest}/{model}", PARENT: parent, "role": "cell", "kind": record.at.kind}
    tags |= {START: record.start_id, FINGERPRINT: record.fingerprint, STARTED: record.started_at}
    tags |= {"label": record.at.label, "group": record.group, "status": record.status}
    if record.context is not None:
        tags |= {"checkpoint": record.context.checkpoint}
        tags |= {"drafter": record.context.drafter or "none"}
    if record.status != "OK":
        tags |= {"status_reason": outcome(record), NOTE: outcome(record)}
    return tags


def verdict_points(finding: CellFinding) -> Iterator[Point]:
    """The evidence of a cell's verdicts; nothing of a baseline, which has none."""
    found = finding.comparison.estimate if finding.comparison else None
    if found is not None:
        yield Point("speedup/vs_baseline", found.ratio)
        yield Point("n/speedup/vs_baseline", found.prompts)
        if found.low is not None and found.high is not None:
            yield Point("speedup/low", found.low)
            yield Point("speedup/high", found.high)
    check = finding.lossless
    if isinstance(check, GreedyCheck):
        yield Point("lossless/wide_share", check.share)
        if check.widest is not None:
            yield Point("lossless/largest_gap_nat", check.widest.gap_nat)
    elif check is not None and check.difference is not None:
        yield Point("lossless/logprob_difference_nat", check.difference.mean)


def verdict_tags(finding: CellFinding, advised: bool) -> dict[str, str]:
    """The verdicts as words, and the comparison's sentence as the run's note.

    A cell that is not OK has its status and reason instead.
    """
    tags = {"advised": "yes" if advised else "no"}
    if finding.comparison is not None and finding.record.status == "OK":
        tags |= {"verdict": finding.comparison.verdict, NOTE: finding.comparison.sentence}
    if finding.lossless is not None:
        tags["lossless"] = finding.lossless.verdict
    return tags


def start_tags(start: StartRecord) -> dict[str, str]:
    """What a start's run is found by, its question, and its command as MLflow's own source."""
    return {
        NAME: f"{start.sweep} {start.started_at[:16].replace('T', ' ')}",
        NOTE: note(start, ""),
        "role": "start",
        START: start.start_id,
        STARTED: start.started_at,
        "mlflow.source.name": " ".join(start.command),
        "mlflow.source.type": "LOCAL",
        **({"mlflow.source.git.commit": start.git_commit} if start.git_commit else {}),
    }


def lost_start(record: CellRecord, sweep: str) -> StartRecord:
    """What a cell still tells of the start that measured it, whose own record is damaged."""
    return StartRecord(
        start_id=record.start_id,
        sweep=sweep,
        started_at=record.started_at,
        command=(),
        git_commit=None,
        packages={},
        host={},
        config={},
        outcome="interrupted",
    )


def start_points(start: StartRecord) -> Iterator[Point]:
    """Engine starts and the time split (seconds), once they are known."""
    yield Point("sweep/engine_starts", start.engine_starts)
    if start.split is not None:
        for name in ("wall_s", "engine_start_s", "generation_s", "other_s"):
            yield Point(f"sweep/{name}", getattr(start.split, name))


def note(start: StartRecord, answer: str) -> str:
    """The question the sweep was asked, and the answer once there is one (Markdown)."""
    question = str(start.config.get("question") or "")
    return "\n\n".join(part for part in (f"**{question}**" if question else "", answer) if part)


def milliseconds(moment: str, plus_s: float = 0.0) -> int:
    """An ISO moment, moved by some seconds, in the milliseconds since 1970 that MLflow counts."""
    return int((datetime.fromisoformat(moment).timestamp() + plus_s) * 1000)
