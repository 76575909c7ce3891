"""Records for tests: plausible numbers, labelled by their caller, with every field filled in."""

from __future__ import annotations

import hashlib
from typing import Literal

from pipeline.plan import Cell, Coordinates, EngineConfig, EngineGroup, Plan, Pruned
from pipeline.records import (
    CellRecord,
    Counts,
    EngineContext,
    Failure,
    PassRecord,
    RequestRecord,
    StartRecord,
    Status,
    Summary,
    TimeSplit,
)
from pipeline.spec import Resources

START = "20261129T120000-0001"
MODEL = "tiny"


def coordinates(
    method: str = "ngram",
    k: int = 2,
    dataset: str = "echo",
    model: str = MODEL,
    concurrency: int = 1,
) -> Coordinates:
    return Coordinates(
        model=model, method=method, kind=method, k=k, dataset=dataset, concurrency=concurrency
    )


def start_record(
    start_id: str = START,
    outcome: Literal["running", "finished", "interrupted"] = "finished",
) -> StartRecord:
    return StartRecord(
        start_id=start_id,
        sweep="demo",
        started_at="2026-11-29T12:00:00+00:00",
        command=("python", "-m", "pipeline", "+sweep=demo"),
        git_commit="0" * 40,
        packages={"vllm": "0.32.0"},
        host={"node": "box"},
        config={"name": "demo", "question": "Which method is fastest?"},
        outcome=outcome,
        engine_starts=2,
        split=TimeSplit(wall_s=60.0, engine_start_s=20.0, generation_s=38.0),
    )


def cell_record(
    at: Coordinates | None = None,
    *,
    decode: float = 40.0,
    length: float = 2.0,
    status: Status = "OK",
    reason: str = "",
    start_id: str = START,
    started_at: str = "2026-11-29T12:00:20+00:00",
) -> CellRecord:
    """A measured cell; a baseline where its coordinates say so."""
    at = at or coordinates()
    return CellRecord(
        fingerprint=_fingerprint(at),
        at=at,
        status=status,
        status_reason=reason,
        start_id=start_id,
        group=f"{at.model}--{at.method}",
        started_at=started_at,
        measured_s=9.0,
        context=_context(at),
        counts=_counts(at),
        metrics={**_speed(decode), **(_acceptance(at.k, length) if at.k else {})},
        per_repeat={"speed/decode_tok_s": (decode - 1, decode, decode + 1)},
    )


def failed_record(at: Coordinates | None = None) -> CellRecord:
    """A cell whose engine died before anything was measured."""
    at = at or coordinates()
    return CellRecord(
        fingerprint=_fingerprint(at),
        at=at,
        status="FAILED",
        status_reason="EngineStartError: the engine process ended with code 1",
        start_id=START,
        group=f"{at.model}--{at.method}",
        started_at="2026-11-29T12:00:40+00:00",
        failure=Failure(
            kind="EngineStartError",
            message="the engine process ended with code 1",
            log_tail=("ValueError: no such head",),
        ),
    )


def one_pass() -> PassRecord:
    """One pass of one request."""
    request = RequestRecord(
        prompt_id="echo-1",
        category="edit",
        repeat=0,
        prompt_tokens=5,
        output_token_ids=(1, 2, 3),
        text="a b c",
        finish_reason="length",
        sent_s=0.0,
        chunk_s=(0.1, 0.2),
        chunk_tokens=(1, 2),
        drafted=(2,),
        accepted=(1,),
    )
    return PassRecord(repeat=0, wall_s=0.2, requests=(request,), counters=None)


def plan(*cells: Coordinates, pruned: tuple[Pruned, ...] = ()) -> Plan:
    """A plan with one engine group per (model, method, K) of the given cells."""
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for at in cells:
        cell = Cell(at=at, fingerprint=_fingerprint(at))
        groups.setdefault((at.model, at.method, at.k), []).append(cell)
    return Plan(
        sweep="demo",
        platform="cpu",
        groups=tuple(_group(key, tuple(group)) for key, group in groups.items()),
        pruned=pruned,
    )


def _group(key: tuple[str, str, int], cells: tuple[Cell, ...]) -> EngineGroup:
    model, method, k = key
    return EngineGroup(
        id=f"{model}--{method}-k{k}" if k else f"{model}--{method}",
        model=model,
        method=method,
        k=k,
        engine=EngineConfig(
            checkpoint=model,
            revision=None,
            trust_remote_code=False,
            speculative=None,
            engine_args={},
            env={},
            preload=(),
            engine_core="in_process",
            device="cpu",
            start_deadline_s=60.0,
            token_deadline_s=60.0,
        ),
        resources=Resources(),
        cells=cells,
    )


def _fingerprint(at: Coordinates) -> str:
    return hashlib.sha256(at.label.encode()).hexdigest()


def _context(at: Coordinates) -> EngineContext:
    return EngineContext(
        node="box",
        vllm_version="0.32.0",
        engine_start_s=10.0,
        checkpoint=f"/models/{at.model}",
        drafter=f"/models/{at.model}-{at.method}" if at.k and at.method != "ngram" else None,
        preloaded=(),
        serve_command=f"vllm serve /models/{at.model}",
    )


def _counts(at: Coordinates) -> Counts:
    return Counts(
        requests=20,
        output_tokens=1280,
        drafts=600 if at.k else 0,
        drafted=600 * at.k,
        accepted=600 if at.k else 0,
        accepted_per_position=tuple(400 // (i + 1) for i in range(at.k)),
        truncated=0,
    )


def _speed(decode: float) -> dict[str, Summary]:
    def summary(value: float) -> Summary:
        return Summary(value=value, spread=value / 50, n=20)

    return {
        "speed/decode_tok_s": summary(decode),
        "speed/e2e_tok_s": summary(decode * 0.9),
        "speed/output_tok_s": summary(decode * 0.85),
        "speed/peak_tok_s": summary(decode * 1.5),
        "latency/ttft_ms": summary(35.0),
        "latency/step_ms": summary(1000 / decode),
    }


def _acceptance(k: int, length: float) -> dict[str, Summary]:
    joint = [0.7 ** (i + 1) for i in range(k)]
    values = {
        "accept/rate": (length - 1) / k,
        "accept/length": length,
        "accept/coverage": 0.97,
        **{f"accept/joint_{i}": value for i, value in enumerate(joint)},
        **{f"accept/conditional_{i}": 0.7 for i in range(k)},
    }
    return {name: Summary(value=value, spread=0.01, n=20) for name, value in values.items()}
