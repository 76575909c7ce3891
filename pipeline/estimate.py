"""How long a plan will take: from recorded history where there is any, else stated assumptions."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from pipeline.methods import BASELINE
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
    cells: int
    cells_from_history: int
    cells_from_speed: int = 0
    assume: Assumptions

    @property
    def total_s(self) -> float:
        """Starts and generation together."""
        return self.engine_start_s + self.generation_s

    @property
    def basis(self) -> str:
        """What the estimate rests on, in words."""
        speed = f"{self.assume.decode_tok_s:g} tok/s"
        rest = self.cells - self.cells_from_history - self.cells_from_speed
        if rest == self.cells:
            start = f"{self.assume.engine_start_s:g} s per start"
            return f"assuming {speed} and {start} and every answer at its cap"
        if self.cells_from_history == self.cells:
            return "from recorded cells"
        parts = [
            f"{self.cells_from_history} of {self.cells} cells recorded",
            f"{self.cells_from_speed} at the speed of recorded ones"
            if self.cells_from_speed
            else "",
            f"{rest} at {speed} assumed" if rest else "",
        ]
        return ", ".join(part for part in parts if part)


def estimate(
    plan: Plan,
    baselines: Mapping[str, EngineGroup],
    prompts: Mapping[str, PromptSet],
    repeats: int,
    assume: Assumptions,
    history: Sequence[CellRecord],
) -> Estimate:
    """Estimate what a plan will take on one node.

    A recorded cell with the same fingerprint gives its time; a recorded cell of the same model and
    method gives its speed, which is set against the token caps; the rest is assumed. Concurrency
    is not credited, so the estimate errs on the long side.

    A method that is interleaved with its baseline takes a second engine and the baseline's time
    with it; where baselines bracket, one more start of each model's baseline closes its share.

    Args:
        plan: what is still to be measured.
        baselines: the baseline's group of each model, measured already or not.
    """
    good = [r for r in history if r.status == "OK"]
    taken = {r.fingerprint: r.measured_s for r in good}
    seconds: list[float] = []
    known = by_speed = 0
    references = list(_references(plan, baselines))
    for group in (*plan.groups, *references):
        speed = _speed(group, good)
        beside = _companion(group, plan, baselines)
        base = _speed(beside, good) or assume.decode_tok_s if beside else None
        for cell in group.cells:
            tokens = sum(p.max_tokens for p in prompts[cell.at.dataset].prompts) * repeats
            alone = tokens / (speed or assume.decode_tok_s) + (tokens / base if base else 0)
            seconds.append(taken.get(cell.fingerprint, alone))
            if group not in references:
                known += cell.fingerprint in taken
                by_speed += cell.fingerprint not in taken and speed is not None
    groups = [*plan.groups, *references]
    engines = [*groups, *(g for g in groups if _companion(g, plan, baselines))]
    starts = [_start_s(group, good) or assume.engine_start_s for group in engines]
    return Estimate(
        engine_starts=len(starts),
        engine_start_s=sum(starts),
        generation_s=sum(seconds),
        cells=len(plan.cells),
        cells_from_history=known,
        cells_from_speed=by_speed,
        assume=assume,
    )


def _companion(
    group: EngineGroup, plan: Plan, baselines: Mapping[str, EngineGroup]
) -> EngineGroup | None:
    """The baseline that is kept beside a method."""
    paired = plan.pairing == "interleaved" and group.cells[0].at.kind != BASELINE
    return baselines.get(group.model) if paired else None


def _references(plan: Plan, baselines: Mapping[str, EngineGroup]) -> Iterator[EngineGroup]:
    """The baselines that are measured for their bracket alone: an opening where the plan's own is
    measured already, and the closing."""
    if plan.pairing != "bracketed":
        return
    for model, baseline in baselines.items():
        own = [group for group in plan.groups if group.model == model]
        if any(group.cells[0].at.kind != BASELINE for group in own):
            yield baseline
            if all(group.cells[0].at.kind != BASELINE for group in own):
                yield baseline


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
