"""Passes over prompts on one engine, or on two whose prompts alternate.

A machine drifts by tens of percent within minutes, so a method and its baseline are compared by
prompts that follow each other: both engines stay loaded, one works at a time, and which of the two
goes first alternates too, so that what the first leaves behind falls on both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.records import CounterDelta, PassRecord, RequestRecord
from pipeline.spec import Sampling


class Engines(NamedTuple):
    """The engine that is measured, and the baseline's beside it where prompts alternate."""

    measured: EngineProcess
    companion: EngineProcess | None = None

    @property
    def all(self) -> tuple[EngineProcess, ...]:
        """Both, or the only one."""
        return (self.measured, self.companion) if self.companion else (self.measured,)


Span = tuple[float, float]


class Sides(NamedTuple):
    """One pass as each engine ran it.

    Attributes:
        spans: when the measured engine had its turns, on the clock of `time.monotonic`.
    """

    measured: PassRecord
    companion: PassRecord | None
    spans: tuple[Span, ...]


def run_pass(
    engines: Engines,
    prompts: Sequence[PromptJob],
    concurrency: int,
    repeat: int,
    sampling: Sampling,
) -> Sides:
    """Run the prompts once on every engine.

    Raises:
        EngineError: an engine died, hung or raised.
    """
    taken: list[list[PassRecord]] = [[] for _ in engines.all]
    spans: list[Span] = []
    for number, turn in enumerate(_turns(engines, prompts, concurrency)):
        job = PassJob(repeat=repeat, prompts=turn, concurrency=concurrency, sampling=sampling)
        order = list(zip(engines.all, taken, strict=True))
        for engine, passes in reversed(order) if (number + repeat) % 2 else order:
            began = time.monotonic()
            passes.append(engine.run(job))
            if engine is engines.measured:
                spans.append((began, time.monotonic()))
    sides = [_joined(passes) for passes in taken]
    return Sides(sides[0], sides[1] if len(sides) > 1 else None, tuple(spans))


def _turns(
    engines: Engines, prompts: Sequence[PromptJob], concurrency: int
) -> Iterator[tuple[PromptJob, ...]]:
    """What one engine runs before the other: a prompt; or all of them, where several are in flight
    at a time and cutting the pass up would let it run dry in between.
    """
    if engines.companion is None or concurrency > 1:
        yield tuple(prompts)
    else:
        yield from ((prompt,) for prompt in prompts)


def _joined(parts: Sequence[PassRecord]) -> PassRecord:
    """Parts of a pass as one, their times set end to end: the other engine's turns are left out."""
    requests: list[RequestRecord] = []
    wall_s = 0.0
    for part in parts:
        requests += [_later(request, wall_s) for request in part.requests]
        wall_s += part.wall_s
    counters = [part.counters for part in parts if part.counters is not None]
    return PassRecord(
        repeat=parts[0].repeat,
        wall_s=wall_s,
        requests=tuple(requests),
        counters=_total(counters) if len(counters) == len(parts) else None,
    )


def _later(request: RequestRecord, seconds: float) -> RequestRecord:
    return request.model_copy(
        update={
            "sent_s": request.sent_s + seconds,
            "chunk_s": tuple(round(at + seconds, 6) for at in request.chunk_s),
        }
    )


def _total(counters: Sequence[CounterDelta]) -> CounterDelta:
    positions = zip(*(one.accepted_per_position for one in counters), strict=True)
    return CounterDelta(
        drafts=sum(one.drafts for one in counters),
        drafted=sum(one.drafted for one in counters),
        accepted=sum(one.accepted for one in counters),
        accepted_per_position=tuple(sum(position) for position in positions),
    )
