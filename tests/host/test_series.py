from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.host.series import MAX_GAP_S, Limits, Sample, TelemetrySummary, energy_j
from pipeline.host.series import summarise as summarise_within

REASONS = ("idle", "power_cap", "sw_thermal", "hw_slowdown")
LIMITS = Limits(sm_clock_mhz=3003)
loads = st.fixed_dictionaries(
    {
        "memory_available_bytes": st.integers(0, 2**40),
        "sm_clock_mhz": st.none() | st.integers(200, 3000),
        "power_w": st.none() | st.floats(1, 700),
        "temperature_c": st.none() | st.integers(20, 100),
        "reasons": st.none() | st.sets(st.sampled_from(REASONS)).map(lambda s: tuple(sorted(s))),
    }
)


def summarise(samples: list[Sample], start: float, end: float) -> TelemetrySummary:
    return summarise_within(samples, start, end, LIMITS)


@st.composite
def series(draw: st.DrawFn, gap: float = 2 * MAX_GAP_S) -> list[Sample]:
    gaps = draw(st.lists(st.floats(0.01, gap), min_size=1, max_size=20))
    ends = itertools.accumulate(gaps)
    return [Sample(at_s=at, **draw(loads)) for at in ends]


def steady(power_w: float, seconds: int = 10) -> list[Sample]:
    return [
        Sample(at_s=float(at), memory_available_bytes=at, power_w=power_w, reasons=())
        for at in range(seconds + 1)
    ]


times = st.lists(st.floats(0, 60), min_size=3, max_size=3).map(sorted)


@given(series(), times)
def test_energies_of_adjoining_intervals_add_up(samples: list[Sample], at: list[float]) -> None:
    whole = energy_j(samples, at[0], at[2])
    parts = [energy_j(samples, at[0], at[1]), energy_j(samples, at[1], at[2])]
    known = [part for part in parts if part is not None]
    assert (whole is not None) == (len(known) == 2)
    if whole is not None:
        assert whole == pytest.approx(sum(known), abs=1e-6)


@given(series(), times)
def test_throttled_seconds_add_up_and_fit_into_the_interval(
    samples: list[Sample], at: list[float]
) -> None:
    def seconds(start: float, end: float) -> dict[str, float]:
        return summarise(samples, start, end).throttle_s or {}

    whole, first, second = seconds(at[0], at[2]), seconds(at[0], at[1]), seconds(at[1], at[2])
    for reason in REASONS:
        parts = first.get(reason, 0.0) + second.get(reason, 0.0)
        assert whole.get(reason, 0.0) == pytest.approx(parts, abs=1e-9)
        assert whole.get(reason, 0.0) <= at[2] - at[0] + 1e-9


@given(series(gap=1.0), times)
def test_mean_power_lies_between_the_least_and_the_most(
    samples: list[Sample], at: list[float]
) -> None:
    power = summarise(samples, at[0], at[2]).power_w
    if power is not None:
        known = [s.power_w for s in samples if s.power_w is not None]
        assert min(known) - 1e-6 <= power <= max(known) + 1e-6


@given(series(), times)
def test_a_summary_holds_what_was_sampled_and_nothing_else(
    samples: list[Sample], at: list[float]
) -> None:
    summary = summarise(samples, at[0], at[2])
    inside = [s for s in samples if at[0] <= s.at_s <= at[2]]
    assert summary.samples == len(inside)
    assert summary.limits == LIMITS
    assert summary.memory_available_min_bytes == min(
        (s.memory_available_bytes for s in inside), default=None
    )
    clocks = [s.sm_clock_mhz for s in inside if s.sm_clock_mhz is not None]
    heats = [s.temperature_c for s in inside if s.temperature_c is not None]
    assert summary.temperature_max_c == max(heats, default=None)
    assert (summary.sm_clock_mhz is None) == (not clocks)
    if summary.sm_clock_mhz is not None:
        clock = summary.sm_clock_mhz
        assert clock.min == min(clocks)
        assert clock.max == max(clocks)
        assert clock.min <= clock.low <= clock.median <= clock.max


def test_steady_power_times_time_is_energy() -> None:
    summary = summarise(steady(30.0), 2.25, 8.75)
    assert summary.energy_j == pytest.approx(30.0 * 6.5)
    assert summary.power_w == pytest.approx(30.0)


def test_power_that_rises_evenly_is_integrated_exactly() -> None:
    ramp = [Sample(at_s=t, memory_available_bytes=0, power_w=10.0 * t) for t in (0.0, 1.0, 4.0)]
    assert energy_j(ramp, 0.0, 4.0) == pytest.approx(80.0)
    assert energy_j(ramp, 1.5, 2.5) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("start", "end"), [(-6.0, 4.0), (4.0, 16.0), (20.0, 30.0)], ids=["before", "after", "apart"]
)
def test_a_time_that_nobody_watched_has_no_known_energy(start: float, end: float) -> None:
    assert energy_j(steady(30.0), start, end) is None


def test_a_hole_in_the_series_leaves_the_energy_unknown() -> None:
    holed = [s for s in steady(30.0, 20) if not 5 < s.at_s < 12]
    assert energy_j(holed, 0.0, 20.0) is None
    assert energy_j(holed, 12.0, 20.0) == pytest.approx(240.0)


def test_a_host_that_tells_nothing_has_a_summary_of_its_memory_alone() -> None:
    silent = [Sample(at_s=float(at), memory_available_bytes=9 - at) for at in range(5)]
    summary = summarise(silent, 0.0, 4.0)
    assert summary.memory_available_min_bytes == 5
    told = summary.model_dump(
        exclude={"seconds", "samples", "limits", "memory_available_min_bytes"}
    )
    assert set(told.values()) == {None}


def test_an_interval_without_length_has_no_power() -> None:
    summary = summarise(steady(30.0), 3.0, 3.0)
    assert summary.energy_j == 0.0
    assert summary.power_w is None
