"""A host's load over time: samples, and what an interval of them amounts to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.spec import Record

Numbers = NDArray[np.float64]
# A sampler that was silent for longer than this has not seen what happened in between.
MAX_GAP_S = 5.0


class Sample(Record):
    """The visible GPUs and the host's memory at one moment.

    Attributes:
        at_s: on the clock of `time.monotonic`, or from the start of the interval it was cut out of.
        sm_clock_mhz: the lowest of the GPUs.
        power_w: of all GPUs together.
        temperature_c: the highest.
        reasons: why a clock is lowered, of all GPUs; None where the driver does not tell.
    """

    at_s: float
    memory_available_bytes: int
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    reasons: tuple[str, ...] | None = None


class Limits(Record):
    """What the visible GPUs are specified for; None where they do not tell.

    Attributes:
        sm_clock_mhz: the lowest of their highest clocks.
        power_w: the power limit in force, of all together.
    """

    sm_clock_mhz: int | None = None
    power_w: float | None = None


class Spread(Record):
    """A quantity over an interval; `low` is what nine samples of ten reach."""

    min: float
    low: float
    median: float
    max: float


class TelemetrySummary(Record):
    """What a host did during an interval; None where it does not tell.

    Attributes:
        seconds: length of the interval.
        samples: how many fell into it.
        limits: what the GPUs are specified for.
        power_w: mean over the interval, of all GPUs together.
        energy_j: integral of the power.
        throttle_s: seconds for each reason a clock was lowered for.
    """

    seconds: float
    samples: int
    sm_clock_mhz: Spread | None
    limits: Limits
    power_w: float | None
    energy_j: float | None
    temperature_max_c: int | None
    throttle_s: dict[str, float] | None
    memory_available_min_bytes: int | None


def summarise(
    samples: Sequence[Sample], start_s: float, end_s: float, limits: Limits
) -> TelemetrySummary:
    """What the samples say of an interval.

    Args:
        samples: in order of time; those around the interval are used for its ends.
        start_s, end_s: on the samples' clock.
        limits: what the GPUs are specified for.
    """
    inside = within(samples, start_s, end_s)
    energy = energy_j(samples, start_s, end_s)
    seconds = end_s - start_s
    return TelemetrySummary(
        seconds=seconds,
        samples=len(inside),
        sm_clock_mhz=_spread([s.sm_clock_mhz for s in inside if s.sm_clock_mhz is not None]),
        limits=limits,
        power_w=energy / seconds if energy is not None and seconds > 0 else None,
        energy_j=energy,
        temperature_max_c=max(
            (s.temperature_c for s in inside if s.temperature_c is not None), default=None
        ),
        throttle_s=_reasons(samples, start_s, end_s),
        memory_available_min_bytes=min((s.memory_available_bytes for s in inside), default=None),
    )


def within(samples: Sequence[Sample], start_s: float, end_s: float) -> list[Sample]:
    """The samples that were taken during an interval."""
    return [sample for sample in samples if start_s <= sample.at_s <= end_s]


def energy_j(samples: Sequence[Sample], start_s: float, end_s: float) -> float | None:
    """Power integrated over an interval by the trapezoidal rule, in joules.

    Between two samples power is taken to change evenly, which also gives it at the interval's ends,
    so that the energies of adjoining intervals add up.

    Returns:
        None where a part of the interval is further than `MAX_GAP_S` from a known power.
    """
    known = [(s.at_s, s.power_w) for s in samples if s.power_w is not None]
    if not known:
        return None
    at, power = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
    if not _covers(at, start_s, end_s):
        return None
    points = np.concatenate(([start_s], at[(at > start_s) & (at < end_s)], [end_s]))
    return float(np.trapezoid(np.interp(points, at, power), points))


def _covers(at: Numbers, start_s: float, end_s: float) -> bool:
    """Whether samples lie at most the allowed gap apart all through an interval."""
    first = max(0, int(np.searchsorted(at, start_s, side="right")) - 1)
    last = min(len(at) - 1, int(np.searchsorted(at, end_s, side="left")))
    used = at[first : last + 1]
    ends = max(float(used[0]) - start_s, end_s - float(used[-1]))
    return ends <= MAX_GAP_S and bool(np.all(np.diff(used) <= MAX_GAP_S))


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    low, median = np.percentile(values, [10, 50])
    return Spread(min=min(values), low=float(low), median=float(median), max=max(values))


def _reasons(samples: Sequence[Sample], start_s: float, end_s: float) -> dict[str, float] | None:
    """Seconds for each reason, a sample standing for the time until the next one."""
    known = [(s.at_s, s.reasons) for s in samples if s.reasons is not None]
    if not known:
        return None
    seconds: dict[str, float] = {}
    nexts = [at for at, _ in known[1:]] + [float("inf")]
    for (at, reasons), until in zip(known, nexts, strict=True):
        held = min(until, at + MAX_GAP_S, end_s) - max(at, start_s)
        if held > 0:
            for reason in reasons:
                seconds[reason] = seconds.get(reason, 0.0) + held
    return seconds
