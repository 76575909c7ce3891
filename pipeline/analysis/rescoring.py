"""Outputs as the plain engine scores them: the evidence that losslessness is judged by.

An output is handed back to the plain engine as a prompt, which tells at every position the
log-probability of the token that stands there and of the most likely one. The *gap* of a token is
the second less the first, in nats: zero where the plain engine would have chosen the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from statistics import fmean

from pipeline.records import RescoredOutput
from pipeline.spec import Record

# A gap below this is a near-tie that other kernels may flip.
NEAR_TIE_NAT = 0.1


class WidestGap(Record):
    """The largest gap of a cell's outputs and where it is; positions count output tokens from 0."""

    prompt_id: str
    repeat: int
    position: int
    gap_nat: float


def tokens(outputs: Iterable[RescoredOutput]) -> int:
    """Rescored tokens."""
    return sum(len(one.gaps) for one in outputs)


def wide_gaps(outputs: Iterable[RescoredOutput]) -> int:
    """Tokens with a gap above `NEAR_TIE_NAT`."""
    return sum(gap > NEAR_TIE_NAT for one in outputs for gap in one.gaps)


def widest_gap(outputs: Iterable[RescoredOutput]) -> WidestGap | None:
    """The largest gap of all outputs, the first of equals; None of no tokens."""
    gaps = [(gap, i, one) for one in outputs for i, gap in enumerate(one.gaps)]
    if not gaps:
        return None
    gap, position, one = max(gaps, key=itemgetter(0))
    return WidestGap(prompt_id=one.prompt_id, repeat=one.repeat, position=position, gap_nat=gap)


def likelihoods(outputs: Iterable[RescoredOutput]) -> dict[str, float]:
    """Mean log-probability per token of each prompt, nats; repeats averaged first."""
    found: dict[str, list[float]] = {}
    for one in outputs:
        if one.logprobs:
            found.setdefault(one.prompt_id, []).append(fmean(one.logprobs))
    return {prompt: fmean(values) for prompt, values in found.items()}
