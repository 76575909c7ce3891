"""Composed sweeps: requests made up by a seeded rule, everything else derived from them by the
pipeline's own functions. Nothing here is measured, and every name says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pipeline.analysis.findings import Evidence
from pipeline.analysis.losslessness import agreement
from pipeline.analysis.metrics import summarise
from pipeline.analysis.speed import prompt_costs
from pipeline.outputs import Outputs, cell_name, companion_name
from pipeline.plan import Coordinates, Pruned
from pipeline.platforms import Pairing
from pipeline.records import (
    CellRecord,
    Companion,
    EngineContext,
    PassRecord,
    RequestRecord,
    RescoredOutput,
    StartRecord,
)
from tests.factories import START, failed_record, plan, start_record

MODEL = "composed-135m"
DATASETS = ("code", "json", "math", "chat", "echo")
PLAIN_STEP_S = 0.025


@dataclass(frozen=True)
class Method:
    """A made-up method: chance that a drafted token is accepted, by data set, and its step's cost.

    Attributes:
        coverage: share of steps that draft.
        step: time of a step over a plain one's.
    """

    name: str
    k: int
    accepted: dict[str, float] = field(default_factory=dict)
    step: float = 1.0
    coverage: float = 1.0
    noise: float = 0.03


def methods() -> tuple[Method, ...]:
    mtp = {"code": 0.55, "json": 0.62, "math": 0.55, "chat": 0.42, "echo": 0.55}
    eagle = {"code": 0.55, "json": 0.63, "math": 0.56, "chat": 0.44, "echo": 0.52}
    flash = {"code": 0.5, "json": 0.68, "math": 0.5, "chat": 0.33, "echo": 0.45}
    copied = {"code": 0.35, "json": 0.5, "math": 0.45, "chat": 0.2, "echo": 0.85}
    return (
        Method("none", 0),
        Method("ngram", 4, copied, 1.17, 0.35),
        Method("ngram", 5, copied, 1.21, 0.35),
        Method("mtp", 1, mtp, 1.27),
        Method("mtp", 2, mtp, 1.46),
        Method("eagle3", 1, eagle, 1.25),
        Method("eagle3", 3, eagle, 1.52),
        Method("dflash", 7, flash, 1.55),
    )


@dataclass(frozen=True)
class Made:
    """A cell with the requests it was derived from."""

    record: CellRecord
    passes: tuple[PassRecord, ...]
    companion: tuple[PassRecord, ...]
    rescored: tuple[RescoredOutput, ...]
    floor: tuple[RescoredOutput, ...]


def sweep(
    datasets: Sequence[str] = DATASETS,
    settings: Iterable[Method] | None = None,
    *,
    prompts: int = 20,
    repeats: int = 2,
    model: str = MODEL,
    concurrency: int = 1,
) -> Iterator[Made]:
    """An interleaved sweep, cell by cell."""
    for method in settings if settings is not None else methods():
        for dataset in datasets:
            at = Coordinates(
                model=model,
                method=method.name,
                kind=method.name.partition("-")[0],
                k=method.k,
                dataset=dataset,
                concurrency=concurrency,
            )
            yield cell(at, method, prompts=prompts, repeats=repeats)


def cell(
    at: Coordinates,
    method: Method,
    *,
    prompts: int = 20,
    repeats: int = 2,
    pairing: Pairing = "interleaved",
) -> Made:
    """One cell, with the baseline it alternated with where it has one."""
    plain = Method("none", 0)
    own = _passes(at, method, prompts, repeats)
    beside = _passes(at, plain, prompts, repeats) if at.k and pairing == "interleaved" else ()
    record = _record(at, own).model_copy(
        update={
            "pairing": pairing if at.k else None,
            "companion": _companion(beside) if beside else None,
        }
    )
    scored = tuple(_rescored(at.label, own)) if at.k else ()
    return Made(record, own, beside, scored, tuple(_rescored("", beside)))


def reference(at: Coordinates, role: Literal["opening", "closing"], slower: float = 1.0) -> Made:
    """The baseline of a cell, measured at one end of its node's share."""
    plain = at.model_copy(update={"method": "none", "kind": "none", "k": 0})
    made = cell(plain, Method("none", 0, step=slower))
    return change(made, lambda record: record.model_copy(update={"role": role}))


def evidence(made: Made) -> Evidence:
    """What would be gathered of a cell from the disk; an interleaved one has all it needs."""
    theirs = {_key(r): r.output_token_ids for one in made.companion for r in one.requests}
    ours = {_key(r): r.output_token_ids for one in made.passes for r in one.requests}
    return Evidence(
        record=made.record,
        rescored=made.rescored,
        floor=made.floor,
        agreement=agreement(ours, theirs) if theirs else None,
    )


def _key(request: RequestRecord) -> str:
    return f"{request.prompt_id}/{request.repeat}"


def write(
    outputs: Outputs,
    made: Sequence[Made],
    starts: Sequence[StartRecord] = (),
    extra: Sequence[CellRecord] = (),
    pruned: tuple[Pruned, ...] = (),
) -> tuple[str, ...]:
    """Lay a sweep on disk as the driver does; returns the fingerprints of its plan."""
    for start in starts or (composed_start(),):
        outputs.write_start(start)
    for one in made:
        outputs.write_cell(one.record, one.passes, one.companion)
        outputs.write_rescored(cell_name(one.record), one.rescored)
        outputs.write_rescored(companion_name(one.record), one.floor)
    for record in extra:
        outputs.write_cell(record, ())
    records = [one.record for one in made if one.record.role == "cell"] + list(extra)
    outputs.write_plan(plan(*(r.at for r in records), pruned=pruned))
    return tuple(r.fingerprint for r in records)


def composed_start(gpus: Sequence[str] = ()) -> StartRecord:
    return start_record().model_copy(
        update={
            "command": ("python", "-m", "pipeline", "+sweep=composed"),
            "config": {
                "name": "composed",
                "question": "Which method is fastest for which kind of prompt? (composed figures)",
            },
            "host": {
                "node": "composed-node",
                "system": "Linux-composed",
                "cpu": "composed CPU",
                "cores": 2,
                "memory_bytes": 25276502016,
                "gpus": list(gpus),
                "gpu_driver": None,
            },
            "packages": {"python": "3.11.7", "vllm": "0.32.0", "torch": "2.13.0"},
        }
    )


def troubled() -> tuple[CellRecord, ...]:
    """Cells that did not become OK."""
    at = Coordinates(model=MODEL, method="mtp", kind="mtp", k=4, dataset="code", concurrency=1)
    dead = [failed_record(at.model_copy(update={"dataset": name})) for name in ("code", "json")]
    silent = _record(
        at.model_copy(update={"method": "eagle3", "kind": "eagle3", "k": 2, "dataset": "chat"}), ()
    ).model_copy(
        update={
            "status": "NOOP_NO_ACCEPT",
            "status_reason": "3 tokens were accepted in 600 drafts (0.005 per draft; a trained"
            " eagle3 has at least 0.05): its weights are missing, untrained or of another model",
        }
    )
    return (*dead, silent)


def change(made: Made, rule: Callable[[CellRecord], CellRecord]) -> Made:
    return Made(rule(made.record), made.passes, made.companion, made.rescored, made.floor)


def _passes(at: Coordinates, method: Method, prompts: int, repeats: int) -> tuple[PassRecord, ...]:
    return tuple(
        PassRecord(
            repeat=repeat,
            wall_s=20.0,
            requests=tuple(
                _request(at, method, f"{at.dataset}-{number:02d}", repeat)
                for number in range(1, prompts + 1)
            ),
            counters=None,
        )
        for repeat in range(repeats)
    )


def _request(at: Coordinates, method: Method, prompt: str, repeat: int) -> RequestRecord:
    # What is drafted and accepted is the prompt's; a repeat differs in its times alone.
    rng = np.random.default_rng(_seed(f"{at.model}/{method.name}{method.k}/{prompt}"))
    chance = float(np.clip(method.accepted.get(at.dataset, 0) + rng.normal(0, 0.08), 0, 0.98))
    drafted, accepted, chunks = [], [], [1]
    while sum(chunks) < 32:
        hit = 0
        if method.k and rng.random() < method.coverage:
            misses = np.flatnonzero(rng.random(method.k) >= chance)
            hit = int(misses[0]) if misses.size else method.k
            drafted.append(method.k)
            accepted.append(hit)
        chunks.append(min(hit + 1, 32 - sum(chunks)))
    luck = np.random.default_rng(_seed(f"{method.name}{method.k}/{prompt}/{repeat}/{at.dataset}"))
    step = PLAIN_STEP_S * method.step * float(np.exp(luck.normal(0, method.noise)))
    return RequestRecord(
        prompt_id=prompt,
        category=at.dataset,
        repeat=repeat,
        prompt_tokens=40,
        output_token_ids=_tokens(method, prompt),
        text=f"composed answer to {prompt}",
        finish_reason="length",
        sent_s=0.0,
        chunk_s=tuple(0.05 + step * i for i in range(len(chunks))),
        chunk_tokens=tuple(chunks),
        drafted=tuple(drafted) if method.k else None,
        accepted=tuple(accepted) if method.k else None,
    )


def _tokens(method: Method, prompt: str) -> tuple[int, ...]:
    """What plain decoding says, save that one prompt in five takes another turn at some token."""
    plain = np.random.default_rng(_seed(prompt)).integers(0, 1000, 32)
    own = np.random.default_rng(_seed(f"{method.name}{method.k}/{prompt}/turn"))
    if method.k and own.random() < 0.2:
        turn = int(own.integers(4, 32))
        plain[turn:] = own.integers(1000, 2000, 32 - turn)
    return tuple(int(token) for token in plain)


def _record(at: Coordinates, passes: Sequence[PassRecord]) -> CellRecord:
    found = summarise(passes, at.k)
    return CellRecord(
        fingerprint=hashlib.sha256(at.label.encode()).hexdigest(),
        at=at,
        status="OK",
        start_id=START,
        group=f"{at.model}--{at.method}-k{at.k}",
        node="composed-node",
        started_at="2026-11-29T12:00:20+00:00",
        measured_s=40.0,
        context=EngineContext(
            node="composed-node",
            vllm_version="0.32.0",
            engine_start_s=20.0,
            checkpoint=f"/models/{at.model}",
            drafter=None,
            preloaded=(),
            serve_command=_serve(at),
        ),
        counts=found.counts,
        metrics=found.metrics,
        per_repeat=found.per_repeat,
        costs=prompt_costs(passes),
    )


def _serve(at: Coordinates) -> str:
    plain = f"vllm serve /models/{at.model} --max-model-len 2048"
    if not at.k:
        return plain
    config = f'{{"method":"{at.method}","num_speculative_tokens":{at.k}}}'
    return f"{plain} --speculative-config '{config}'"


def _companion(passes: Sequence[PassRecord]) -> Companion:
    found = summarise(passes, 0)
    return Companion(
        status="OK", counts=found.counts, metrics=found.metrics, costs=prompt_costs(passes)
    )


def _rescored(salt: str, passes: Sequence[PassRecord]) -> Iterator[RescoredOutput]:
    for request in (r for one in passes[:1] for r in one.requests):
        rng = np.random.default_rng(_seed(f"{salt}/{request.prompt_id}/gaps"))
        gaps = np.where(rng.random(32) < 0.02, rng.uniform(0.02, 0.102, 32), 0.0)
        yield RescoredOutput(
            prompt_id=request.prompt_id,
            repeat=request.repeat,
            gaps=tuple(float(gap) for gap in gaps),
            logprobs=tuple(float(-gap - 0.4) for gap in gaps),
        )


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
