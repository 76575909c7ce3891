"""Nights for tests, made by rule: what each cell cost is stated by its caller."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import exp

import numpy as np

from jobs.night import LeftOut, Measured, Night
from jobs.suite import ConsoleChannel, Suite
from pipeline.plan import Coordinates
from pipeline.records import Status
from tests.factories import coordinates

PROMPTS = tuple(f"chat-{i}" for i in range(8))
NONE, NGRAM, MTP = (coordinates(m, k, "chat") for m, k in (("none", 0), ("ngram", 4), ("mtp", 1)))
ENVIRONMENT = {"vllm": "0.32.0", "driver": "580.95", "system": "Linux 6.11"}
SUITE = Suite(
    name="demo",
    command=("+sweep=demo",),
    budget_hours=1.0,
    tell=(ConsoleChannel(kind="console"),),
)
# What is true of the cells on a night when nothing is wrong: tokens per second, or the speed-up.
USUAL = {"none": 40.0, "ngram": 1.2, "mtp": 1.4}
FIRST = datetime(2026, 10, 1, 2, 0, tzinfo=UTC)


def fingerprint(at: Coordinates, variant: str = "") -> str:
    return hashlib.sha256((at.label + variant).encode()).hexdigest()


def cell(
    at: Coordinates,
    value: float | None = None,
    *,
    seed: int = 0,
    machine: float = 1.0,
    status: Status = "OK",
    reason: str = "",
    variant: str = "",
    length: float = 2.0,
    noise: float = 0.01,
    answers: str = "",
) -> Measured:
    """A cell whose prompts differ by tens of percent, and whose nights by `noise`.

    Args:
        value: tokens per second of a baseline, the speed-up of a method; the usual one where None.
        machine: how fast the machine is tonight.
        variant: other than "" makes another fingerprint, by another checkpoint.
        answers: what the target answers.
    """
    value = USUAL[at.method] if value is None else value
    rng = np.random.default_rng([seed, int(fingerprint(at)[:8], 16)])
    plain = at.kind == "none"
    shape = {p: exp(0.1 * i + rng.normal(0, noise)) for i, p in enumerate(PROMPTS)}
    base = {p: exp(0.1 * i) / 40 / machine for i, p in enumerate(PROMPTS)}
    own = {p: cost / value if plain else cost / 40 / machine / value for p, cost in shape.items()}
    ok = status == "OK"
    return Measured(
        fingerprint=fingerprint(at, variant),
        at=at,
        node="box",
        status=status,
        reason=reason,
        parts={"checkpoint": _digest(variant), "prompts": "p" * 64, "settings": "s" * 64},
        costs={p: {0: cost} for p, cost in own.items()} if ok else {},
        reference={p: {0: cost} for p, cost in base.items()} if ok and not plain else {},
        steps={p: {0: 1 / length} for p in PROMPTS} if ok and not plain else {},
        length=length if ok and not plain else None,
        lossless="lossless" if ok and not plain else None,
        outputs={p: _digest(f"{answers}{p}") for p in PROMPTS} if ok and plain else {},
    )


def night(
    number: int,
    values: Mapping[str, float] | None = None,
    *,
    cells: Sequence[Measured] | None = None,
    more: Sequence[Measured] = (),
    again: Sequence[Measured] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
    left_out: Sequence[LeftOut] = (),
) -> Night:
    """The night `number` days after the first; the values of methods that are not as usual."""
    began = FIRST + timedelta(days=number)
    if cells is None:
        cells = usual(number, values)
    return Night(
        id=f"{began:%Y%m%dT%H%M%S}",
        suite="demo",
        at=began.isoformat(),
        node_class="cpu: EPYC, 2 cores",
        environment=dict(environment),
        cells=tuple(cells),
        more=tuple(more),
        again=tuple(again),
        left_out=tuple(left_out),
        recommended={"tiny/chat/c1": "mtp K=1"},
    )


def usual(number: int, values: Mapping[str, float] | None = None) -> list[Measured]:
    """The three cells of a night, on a machine whose speed differs by some percent."""
    machine = exp(0.03 * np.sin(number))
    return [
        cell(at, (values or {}).get(at.method, _on(machine, at)), seed=number, machine=machine)
        for at in (NONE, NGRAM, MTP)
    ]


def quiet(count: int) -> list[Night]:
    """Nights in which nothing changed."""
    return [night(number) for number in range(count)]


def _on(machine: float, at: Coordinates) -> float:
    return USUAL[at.method] * (machine if at.kind == "none" else 1.0)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
