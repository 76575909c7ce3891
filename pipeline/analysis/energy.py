"""What a token costs in energy, where the host tells its GPUs' power.

`energy/j_per_token` is the integral of power over the measured passes divided by their output
tokens, prefill and pauses included; it does not count what the host takes besides its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.analysis import speed
from pipeline.analysis.metrics import CellMetrics
from pipeline.records import PassRecord, Summary

NAME = "energy/j_per_token"


def with_energy(
    found: CellMetrics, passes: Sequence[PassRecord], energies_j: Sequence[float | None]
) -> CellMetrics:
    """A cell's metrics and, where every pass has an energy and tokens, its energy per token.

    Args:
        energies_j: joules of each pass, None where they are not known.

    Returns:
        pooled over all passes; spread and n are those of the passes' own values.
    """
    tokens = [sum(len(r.output_token_ids) for r in one.requests) for one in passes]
    known = [energy for energy in energies_j if energy is not None]
    if not passes or len(known) < len(passes) or not all(tokens):
        return found
    each = tuple(energy / count for energy, count in zip(known, tokens, strict=True))
    pooled = Summary(value=sum(known) / sum(tokens), spread=speed.deviation(each), n=len(each))
    return found.model_copy(
        update={
            "metrics": {**found.metrics, NAME: pooled},
            "per_repeat": {**found.per_repeat, NAME: each},
        }
    )
