"""How long a plan will take: from recorded history where there is any, else stated assumptions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from pipeline.plan import EngineGroup, Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord
from pipeline.spec import Assumptions, Record

_SPEED = "speed/decode_tok_s"


class Estimate(Record):
    """Seconds for engine starts and for generation on one node, and what they rest on."""

    engine_starts: int
    engine_start_s: float
    generation_s: float
    cells_from_history: int
    cells: int
    assume: Assumptions

    @property
    def total_s(self) -> float:
        """Starts and generation together."""
        return self.engine_start_s + self.generation_s

    @property
    def basis(self) -> str:
        """What the estimate rests on, in words."""
        assumed = (
            f"{self.assume.decode_tok_s:g} tok/s and {self.assume.engine_start_s:g} s per start"
        )
        if self.cells_from_history == self.cells:
            return "from recorded cells"
        if self.cells_from_history:
            return (
                f"{self.cells_from_history} of {self.cells} cells recorded, else {assumed} assumed"
            )
        return f"assuming {assumed} and every answer at its cap"


def estimate(
    plan: Plan,
    prompts: Mapping[str, PromptSet],
    repeats: int,
    assume: Assumptions,
    history: Sequence[CellRecord],
) -> Estimate:
    """Estimate what a plan will take on one node.

    A recorded cell with the same fingerprint gives its time; a recorded cell of the same model and
    method gives its speed, which is set against the token caps; the rest is assumed. Concurrency
    is not credited, so the estimate errs on the long side.
    """
    taken = {r.fingerprint: r.measured_s for r in history if r.status == "OK"}
    generation = 0.0
    known = 0
    for group in plan.groups:
        speed = _speed(group, history) or assume.decode_tok_s
        for cell in group.cells:
            tokens = sum(p.max_tokens for p in prompts[cell.at.dataset].prompts) * repeats
            known += cell.fingerprint in taken
            generation += taken.get(cell.fingerprint, tokens / speed)
    starts = [_start_s(group, history) or assume.engine_start_s for group in plan.groups]
    return Estimate(
        engine_starts=len(starts),
        engine_start_s=sum(starts),
        generation_s=generation,
        cells_from_history=known,
        cells=len(plan.cells),
        assume=assume,
    )


def _speed(group: EngineGroup, history: Sequence[CellRecord]) -> float | None:
    speeds = [
        record.metrics[_SPEED].value
        for record in history
        if (record.at.model, record.at.method) == (group.model, group.method)
        and _SPEED in record.metrics
    ]
    return statistics.median(speeds) if speeds else None


def _start_s(group: EngineGroup, history: Sequence[CellRecord]) -> float | None:
    starts = [
        record.context.engine_start_s
        for record in history
        if record.at.model == group.model and record.context is not None
    ]
    return statistics.median(starts) if starts else None
