from __future__ import annotations

import threading
import time
from itertools import chain, repeat

import pytest

from pipeline.host import reference
from pipeline.host.gpus import GpuLoad
from pipeline.host.series import Limits
from pipeline.host.telemetry import Telemetry, as_sample, limits_of
from tests.host.scripted import GB10, script
from tests.preflight.hosts import host

CLOCKS = "nvmlDeviceGetCurrentClocksEventReasons"


def test_this_host_is_sampled_all_through() -> None:
    with Telemetry(period_s=0.05) as telemetry:
        began = time.monotonic()
        time.sleep(0.5)
        ended = time.monotonic()
        summary = telemetry.between(began, ended)
        series = telemetry.series(began, ended)
    assert 5 <= summary.samples <= 11
    assert len(series) == summary.samples
    assert 0 <= series[0].at_s < series[-1].at_s <= 0.5 + 0.1
    assert summary.memory_available_min_bytes is not None
    assert summary.memory_available_min_bytes > 0


def test_no_thread_outlives_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), Telemetry(period_s=30.0):
        raise KeyboardInterrupt
    assert "telemetry" not in [thread.name for thread in threading.enumerate()]


def test_an_interval_shorter_than_the_period_has_its_energy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(monkeypatch, GB10)
    with Telemetry(period_s=30.0) as telemetry:
        began = time.monotonic()
        time.sleep(0.05)
        ended = time.monotonic()
        summary = telemetry.between(began, ended)
    assert summary.energy_j == pytest.approx(36.5 * (ended - began), rel=1e-6)
    assert summary.limits == Limits(sm_clock_mhz=3003)


def test_what_was_watched_can_be_asked_for_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, GB10)
    with Telemetry(period_s=30.0) as telemetry:
        began = time.monotonic()
    summary = telemetry.between(began, time.monotonic())
    assert summary.samples == 1
    assert summary.power_w == pytest.approx(36.5)


def test_a_gpu_that_tells_no_power_has_clocks_and_no_energy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(monkeypatch, {k: v for k, v in GB10.items() if k != "nvmlDeviceGetPowerUsage"})
    with Telemetry(period_s=30.0) as telemetry:
        began = time.monotonic()
        telemetry.sample()
        summary = telemetry.between(began, time.monotonic())
    assert summary.energy_j is None
    assert summary.sm_clock_mhz is not None
    assert summary.sm_clock_mhz.median == 2411


def test_a_sound_measurement_is_what_the_next_is_held_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(monkeypatch, GB10)
    with Telemetry(period_s=30.0) as telemetry:
        began = time.monotonic()
        telemetry.sample()
        sound = telemetry.between(began, time.monotonic())
        long = sound.model_copy(update={"seconds": 60.0, "samples": 60})
        telemetry.remember(long)
        script(monkeypatch, {**GB10, "nvmlDeviceGetClockInfo": 1800})
        began = time.monotonic()
        telemetry.sample()
        assert telemetry.throttled(long) is None
        told = telemetry.throttled(telemetry.between(began, time.monotonic()))
    assert told is not None
    assert "2411 MHz" in told
    assert reference.load("NVIDIA GB10", "580.173.02") is not None


def test_cooling_ends_when_it_is_cool_and_nothing_slows_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each look, by whichever thread, finds it cooler.
    heat = chain([92, 80, 66], repeat(64))
    slowed = chain([0x40] * 5, repeat(0))
    answers = {
        **GB10,
        "nvmlDeviceGetTemperature": lambda *_: next(heat),
        CLOCKS: lambda *_: next(slowed),
    }
    script(monkeypatch, answers)
    with Telemetry(period_s=0.01) as telemetry:
        assert telemetry.cool_down()
        cool = telemetry.sample()
        assert (cool.temperature_c, cool.reasons) == (64, ())
        script(monkeypatch, {**GB10, "nvmlDeviceGetTemperature": 90})
        assert not telemetry.cool_down(patience_s=0.05)


def test_a_host_without_a_gpu_has_nothing_to_cool() -> None:
    with Telemetry(period_s=30.0) as telemetry:
        assert telemetry.cool_down(patience_s=0.0)


def test_several_gpus_are_as_fast_as_the_slowest_and_as_hot_as_the_hottest() -> None:
    one = GpuLoad(sm_clock_mhz=2400, power_w=40.0, temperature_c=60, reasons=("power_cap",))
    other = GpuLoad(sm_clock_mhz=1900, power_w=30.0, temperature_c=71, reasons=("sw_thermal",))
    sample = as_sample(0.0, 1, (one, other))
    assert (sample.sm_clock_mhz, sample.power_w, sample.temperature_c) == (1900, 70.0, 71)
    assert sample.reasons == ("power_cap", "sw_thermal")


def test_the_power_of_some_gpus_is_not_the_power_of_all() -> None:
    one = GpuLoad(sm_clock_mhz=2400, power_w=40.0, temperature_c=60, reasons=())
    assert as_sample(0.0, 1, (one, one.model_copy(update={"power_w": None}))).power_w is None


def test_limits_of_several_gpus_are_put_together_like_their_samples() -> None:
    gpus = host("discrete_gpu").gpus
    assert gpus is not None
    assert limits_of(gpus) == Limits(sm_clock_mhz=1980, power_w=1400.0)
    silent = gpus[0].model_copy(update={"power_limit_w": None, "max_sm_clock_mhz": None})
    assert limits_of((silent, gpus[1])) == Limits(sm_clock_mhz=1980, power_w=None)
    assert limits_of(()) == Limits()


def test_watching_takes_less_than_a_thousandth_of_a_core() -> None:
    with Telemetry(period_s=30.0) as telemetry:
        began = time.thread_time()
        for _ in range(100):
            telemetry.sample()
        each_s = (time.thread_time() - began) / 100
    assert each_s < 0.001
