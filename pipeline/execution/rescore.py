"""Outputs given back to the baseline's engine: the evidence that a method changed nothing.

Greedy answers repeat, so one repeat tells all; sampled ones do not, so all are scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import CellDone, GroupJob, Rescored
from pipeline.execution.messages import Output, PromptJob
from pipeline.outputs import cell_name, companion_name
from pipeline.records import RequestRecord
from pipeline.spec import Sampling


def to_score(
    requests: Sequence[RequestRecord], prompts: Sequence[PromptJob], sampling: Sampling
) -> tuple[Output, ...]:
    """Which outputs of a cell are scored."""
    asked = {prompt.prompt_id: prompt.token_ids for prompt in prompts}
    return tuple(
        Output(
            prompt_id=request.prompt_id,
            repeat=request.repeat,
            prompt_token_ids=asked[request.prompt_id],
            output_token_ids=request.output_token_ids,
        )
        for request in requests
        if is_scored(request, sampling)
    )


def is_scored(request: RequestRecord, sampling: Sampling) -> bool:
    """Whether an answer is scored at all."""
    return bool(request.output_token_ids) and (request.repeat == 0 or sampling.temperature > 0)


def rescore_cell(engine: EngineProcess, job: GroupJob, done: CellDone) -> Iterator[Rescored]:
    """Score a cell's outputs, and those of the baseline it was interleaved with.

    Raises:
        EngineError: the engine died, hung or raised.
    """
    record, prompts = done.record, job.tokens.datasets[done.record.at.dataset]
    sides = ((cell_name(record), done.passes), (companion_name(record), done.companion))
    for name, passes in sides:
        requests = [request for one in passes for request in one.requests]
        if outputs := to_score(requests, prompts, job.measure.sampling):
            yield rescore(engine, name, outputs)


def rescore(engine: EngineProcess, name: str, outputs: Sequence[Output]) -> Rescored:
    """Score outputs that lie under a name.

    Raises:
        EngineError: the engine died, hung or raised.
    """
    return Rescored(name=name, outputs=engine.score(outputs))
