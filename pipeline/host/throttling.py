"""Whether a GPU ran slower than it can while something was measured. Pure."""

from __future__ import annotations

from pipeline.host.gpus import SLOWDOWNS
from pipeline.host.series import TelemetrySummary
from pipeline.spec import Record

# Chosen, not measured: how far a clock may fall below the reference, by its median, and by what
# nine samples of ten reach.
_SUSTAINED, _FOR_A_TENTH = 0.9, 0.75
# At this share of its power limit a GPU's clock is what the workload leaves of it.
_AT_THE_LIMIT = 0.9
# Below half of what a GPU is specified for no workload runs at full power: a GB10 in good order
# sustains four fifths of it, one that was denied its power a sixth to a third.
DENIED = 0.5
_SHARE, _LEAST_S = 0.05, 2.0


class Reference(Record):
    """The highest SM clock that this GPU has sustained in a sound measurement, with its power.

    Attributes:
        power_w: the mean in the same measurement.
        measured_at: when, in ISO 8601.
    """

    gpu: str
    driver: str | None
    sm_clock_mhz: float
    power_w: float | None
    measured_at: str


def throttled(summary: TelemetrySummary, reference: Reference | None) -> str | None:
    """Why an interval's measurement shows a slowed GPU rather than a method, or None.

    Slowed is: for more than 5 % of the time (and 2 s) the driver named a thermal, power brake or
    hardware slowdown; or the median SM clock lies more than 10 % below the node's own reference, or
    nine samples of ten do not reach 75 % of it; or, without a reference, the median is below half
    of the specified clock. A GPU that draws its full power may lower its clock: that is how it is
    meant to run, and says nothing.
    """
    return _named(summary) or _clock(summary, reference)


def _named(summary: TelemetrySummary) -> str | None:
    active = {r: s for r, s in (summary.throttle_s or {}).items() if r in SLOWDOWNS}
    # Reasons come together (a thermal slowdown is a hardware one), so they are not added up.
    if max(active.values(), default=0.0) < max(_LEAST_S, _SHARE * summary.seconds):
        return None
    each = ", ".join(f"{reason} for {seconds:.0f} s" for reason, seconds in sorted(active.items()))
    hot = f", up to {summary.temperature_max_c} °C" if summary.temperature_max_c else ""
    return f"the driver slowed the GPU down in {summary.seconds:.0f} s: {each}{hot}"


def _clock(summary: TelemetrySummary, reference: Reference | None) -> str | None:
    clock, limit = summary.sm_clock_mhz, summary.limits.sm_clock_mhz
    if clock is None or _at_full_power(summary):
        return None
    power = f" at {summary.power_w:.0f} W" if summary.power_w is not None else ""
    if reference is None:
        if limit is None or clock.median >= DENIED * limit:
            return None
        return f"the SM clock's median was {clock.median:.0f} MHz{power}, specified are {limit} MHz"
    expected = reference.sm_clock_mhz
    if clock.median < _SUSTAINED * expected:
        return (
            f"the SM clock's median was {clock.median:.0f} MHz{power}, this node has sustained"
            f" {expected:.0f} MHz"
        )
    if clock.low < _FOR_A_TENTH * expected:
        return (
            f"for a tenth of the time the SM clock was at or below {clock.low:.0f} MHz, this node"
            f" has sustained {expected:.0f} MHz"
        )
    return None


def _at_full_power(summary: TelemetrySummary) -> bool:
    drawn, limit = summary.power_w, summary.limits.power_w
    return drawn is not None and limit is not None and drawn >= _AT_THE_LIMIT * limit
