"""The metrics of one cell: a value, its spread and n for each, and one value per repeat.

What is summed up over what differs by metric, because they answer different questions:

- `accept/*`: counts pooled over all requests; spread and n are those of the repeats' own values.
- `speed/decode_tok_s`, `speed/e2e_tok_s`, `latency/ttft_ms`: repeats of a prompt averaged first,
  then median, median absolute deviation and number of prompts.
- `speed/output_tok_s`, `speed/peak_tok_s`: one value per repeat, then the same over repeats.
- `latency/step_ms`: all steps of all requests.

A metric that the cell does not define is missing from the mappings, never NaN or zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pipeline.analysis import speed
from pipeline.analysis.acceptance import acceptance
from pipeline.analysis.counts import count
from pipeline.records import Counts, PassRecord, Summary
from pipeline.spec import Record


class CellMetrics(Record):
    """What one cell's passes amount to."""

    counts: Counts
    metrics: dict[str, Summary] = Field(default_factory=dict)
    per_repeat: dict[str, tuple[float, ...]] = Field(default_factory=dict)


def summarise(passes: Sequence[PassRecord], k: int) -> CellMetrics:
    """Counts and metrics of a cell's measured passes, warm-up left out by the caller.

    Args:
        k: the most tokens one step may draft; 0 for plain decoding, which has no `accept/*`.
    """
    repeats = [_one_repeat(one, k) for one in passes]
    everywhere = set.intersection(*map(set, repeats)) if repeats else set()
    return CellMetrics(
        counts=count(passes, k),
        metrics={**_pooled(passes, k, repeats), **_speeds(passes)},
        per_repeat={name: tuple(r[name] for r in repeats) for name in sorted(everywhere)},
    )


def _one_repeat(one: PassRecord, k: int) -> dict[str, float]:
    speeds = {name: found.value for name, found in _speeds([one]).items()}
    return {**acceptance([one], k), **speeds}


def _pooled(
    passes: Sequence[PassRecord], k: int, repeats: Sequence[dict[str, float]]
) -> dict[str, Summary]:
    found = {}
    for name, value in acceptance(passes, k).items():
        own = [repeat[name] for repeat in repeats if name in repeat]
        found[name] = Summary(value=value, spread=speed.deviation(own), n=len(own))
    return found


def _speeds(passes: Sequence[PassRecord]) -> dict[str, Summary]:
    values = {
        "speed/decode_tok_s": _rates(passes, speed.decode_s_per_token),
        "speed/e2e_tok_s": _rates(passes, speed.e2e_s_per_token),
        "latency/ttft_ms": list(speed.by_prompt(passes, speed.ttft_ms).values()),
        "latency/step_ms": speed.step_ms(passes),
        "speed/output_tok_s": [v for p in passes if (v := speed.output_tok_s(p)) is not None],
        "speed/peak_tok_s": [v for p in passes if (v := speed.peak_tok_s(p)) is not None],
    }
    return {
        name: found for name, each in values.items() if (found := speed.summary(each)) is not None
    }


def _rates(passes: Sequence[PassRecord], quantity: speed.PerRequest) -> list[float]:
    return [1 / seconds for seconds in speed.by_prompt(passes, quantity).values()]
