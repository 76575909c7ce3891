"""What a token cost, by prompt and repeat: the form in which cells are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from pipeline.analysis.speed import PerRequest, decode_s_per_token
from pipeline.records import RequestRecord


def decode_costs(requests: Iterable[RequestRecord]) -> dict[str, dict[int, float]]:
    """Seconds per token after the first chunk; baseline over method is the decode speed-up."""
    return costs(requests, decode_s_per_token)


def length_costs(requests: Iterable[RequestRecord]) -> dict[str, dict[int, float]]:
    """Drafting steps per token they gave, 1 / (1 + A / D): one over the acceptance length."""
    return costs(requests, _steps_per_token)


def costs(requests: Iterable[RequestRecord], cost: PerRequest) -> dict[str, dict[int, float]]:
    """A cost of each prompt and repeat; requests that do not define it are left out."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for request in requests:
        if (value := cost(request)) is not None:
            found[request.prompt_id][request.repeat].append(value)
    return {
        prompt: {repeat: fmean(values) for repeat, values in repeats.items()}
        for prompt, repeats in found.items()
    }


def _steps_per_token(request: RequestRecord) -> float | None:
    drafts = sum(tokens > 0 for tokens in request.drafted or ())
    return drafts / (drafts + sum(request.accepted or ())) if drafts else None
