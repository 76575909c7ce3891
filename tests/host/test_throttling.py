from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.host import reference
from pipeline.host.series import Limits, Spread, TelemetrySummary
from pipeline.host.throttling import Reference, throttled

# Sustained clocks and powers as owners of a GB10 report them.
SUSTAINED = Reference(
    gpu="NVIDIA GB10", driver="580.173.02", sm_clock_mhz=2411, power_w=36.0, measured_at="then"
)


def summary(
    clock: float | None = 2405.0,
    low: float | None = None,
    throttle_s: dict[str, float] | None = None,
    seconds: float = 100.0,
) -> TelemetrySummary:
    spread = (
        None
        if clock is None
        else Spread(min=low or clock, low=low or clock, median=clock, max=clock + 9)
    )
    return TelemetrySummary(
        seconds=seconds,
        samples=int(seconds),
        sm_clock_mhz=spread,
        limits=Limits(sm_clock_mhz=3003 if clock is not None else None),
        power_w=36.5,
        energy_j=36.5 * seconds,
        temperature_max_c=84,
        throttle_s=throttle_s,
        memory_available_min_bytes=2**33,
    )


@pytest.mark.parametrize("known", [SUSTAINED, None], ids=["with reference", "without"])
def test_a_gpu_in_good_order_is_not_throttled(known: Reference | None) -> None:
    assert throttled(summary(), known) is None
    assert throttled(summary(throttle_s={"power_cap": 100.0, "idle": 3.0}), known) is None


def test_a_host_without_a_gpu_is_never_throttled() -> None:
    assert throttled(summary(clock=None), None) is None


@pytest.mark.parametrize("reason", ["hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"])
def test_a_slowdown_that_lasts_is_told_with_its_reason_and_heat(reason: str) -> None:
    told = throttled(summary(throttle_s={reason: 12.0}), SUSTAINED)
    assert told is not None
    assert f"{reason} for 12 s" in told
    assert "84 °C" in told


@pytest.mark.parametrize(
    ("active_s", "seconds", "counts"),
    [(1.9, 10.0, False), (2.1, 10.0, True), (4.9, 100.0, False), (5.1, 100.0, True)],
)
def test_a_slowdown_counts_from_a_twentieth_of_the_time_and_two_seconds(
    active_s: float, seconds: float, counts: bool
) -> None:
    found = throttled(summary(throttle_s={"sw_thermal": active_s}, seconds=seconds), None)
    assert (found is not None) == counts


def test_the_power_capped_state_is_found_without_any_reason_from_the_driver() -> None:
    told = throttled(summary(clock=611.0, throttle_s={}), SUSTAINED)
    assert told is not None
    assert "611 MHz" in told
    assert "2411 MHz" in told


def test_the_power_capped_state_is_found_on_a_node_that_has_no_reference_yet() -> None:
    told = throttled(summary(clock=850.0), None)
    assert told is not None
    assert "specified are 3003 MHz" in told


@pytest.mark.parametrize(("limit_w", "slowed"), [(None, True), (36.0, False), (60.0, True)])
def test_a_gpu_that_draws_its_full_power_may_lower_its_clock(
    limit_w: float | None, slowed: bool
) -> None:
    low = summary(clock=1700.0)
    at = low.model_copy(update={"limits": Limits(sm_clock_mhz=3003, power_w=limit_w)})
    assert (throttled(at, SUSTAINED) is not None) == slowed


def test_a_clock_that_fell_for_part_of_the_time_is_found() -> None:
    told = throttled(summary(low=700.0), SUSTAINED)
    assert told is not None
    assert "a tenth of the time" in told


def test_the_reference_is_the_highest_sustained_clock(state: Path) -> None:
    for clock in (2300.0, 2411.0, 2380.0):
        reference.remember(summary(clock=clock), "NVIDIA GB10", "580.173.02")
    known = reference.load("NVIDIA GB10", "580.173.02")
    assert known is not None
    assert (known.sm_clock_mhz, known.power_w) == (2411.0, 36.5)
    assert [p.suffix for p in reference.reference_file().parent.iterdir()] == [".json"]
    assert state in reference.reference_file().parents


@pytest.mark.parametrize(
    "unsound",
    [
        summary(clock=611.0),
        summary(throttle_s={"hw_thermal": 50.0}),
        summary(seconds=5.0),
        summary(clock=None),
    ],
    ids=["power-capped", "slowed", "short", "no GPU"],
)
def test_what_is_not_sound_becomes_no_reference(unsound: TelemetrySummary) -> None:
    assert reference.remember(unsound, "NVIDIA GB10", "580.173.02") is None
    assert reference.load("NVIDIA GB10", "580.173.02") is None


def test_another_gpu_or_driver_begins_anew() -> None:
    reference.remember(summary(), "NVIDIA GB10", "580.173.02")
    assert reference.load("NVIDIA GB10", "590.1") is None
    assert reference.load("NVIDIA H200", "580.173.02") is None
    assert reference.load(None, None) is None


def test_a_reference_that_cannot_be_read_or_written_is_done_without(state: Path) -> None:
    reference.reference_file().parent.mkdir(parents=True)
    reference.reference_file().write_text("{torn")
    assert reference.load("NVIDIA GB10", "1") is None
    reference.reference_file().unlink()
    reference.reference_file().parent.rmdir()
    reference.reference_file().parent.write_text("a file where the folder should be")
    made = reference.remember(summary(), "NVIDIA GB10", "1")
    assert made is not None
    assert reference.load("NVIDIA GB10", "1") is None
