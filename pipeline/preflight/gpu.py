"""The GPUs: there, free of others, at their clocks, cool. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.host.gpus import SLOWDOWNS, Gpu, GpuProcess
from pipeline.host.reading import HostReading
from pipeline.host.throttling import DENIED, Reference
from pipeline.preflight.demand import Demand
from pipeline.preflight.findings import Finding, gib, ok, stop, warn

# A context that nobody computes in holds some hundred MB.
_IDLE_PROCESS_BYTES = 1024**3
_IDLE_PERCENT = 10
# Before a start. Under load a GB10 is slowed down from 81 °C on.
_WARM_C, _HOT_C = 70, 85


def check_gpus(demand: Demand, host: HostReading, reference: Reference | None) -> Iterator[Finding]:
    """Whether the GPUs an engine will take can do what they should."""
    if demand.device == "cpu":
        return
    yield from _there(demand, host)
    for gpu in host.visible_gpus[: demand.gpus]:
        yield from _others(gpu)
        yield _clock(gpu, reference)
        yield _heat(gpu)
        yield from _slowed(gpu)


def _there(demand: Demand, host: HostReading) -> Iterator[Finding]:
    if host.gpus is None and host.gpu_device_files:
        yield warn(
            "gpu",
            "the driver's library NVML is missing",
            "an engine may start, but clocks, power and heat are not seen: a slow GPU would pass",
            "install the driver's libnvidia-ml; in a container, give it the utility capability",
        )
    elif len(host.visible_gpus) < demand.gpus:
        hidden = host.environment.get("CUDA_VISIBLE_DEVICES")
        shown = f" (CUDA_VISIBLE_DEVICES={hidden})" if hidden is not None else ""
        yield stop(
            "gpu",
            f"{len(host.visible_gpus)} GPUs are visible{shown}, the model needs {demand.gpus}",
            "the engine could not start",
            "nvidia-smi says what the driver sees; without a GPU use platform=cpu",
        )
    else:
        names = ", ".join(gpu.name for gpu in host.visible_gpus[: demand.gpus])
        yield ok("gpu", f"{names}, driver {host.driver or 'unknown'}")


def _others(gpu: Gpu) -> Iterator[Finding]:
    others = [process for process in gpu.processes or () if not process.ours]
    busy = (gpu.utilisation_percent or 0) >= _IDLE_PERCENT
    for process in others:
        harmless = process.memory_bytes is not None and process.memory_bytes < _IDLE_PROCESS_BYTES
        held = "" if process.memory_bytes is None else f" and holds {gib(process.memory_bytes)}"
        yield (warn if harmless and not busy else stop)(
            "gpu_processes",
            f"{_named(process)} computes on GPU {gpu.index}{held}",
            "it takes memory, bandwidth and clock from every measurement",
            f"end it (kill {process.pid}), or wait until it has ended",
        )
    if gpu.processes is not None and not others:
        yield ok("gpu_processes", f"GPU {gpu.index}: no other process computes on it")


def _named(process: GpuProcess) -> str:
    return f"process {process.pid}" + (f" ({process.name})" if process.name != "?" else "")


def _clock(gpu: Gpu, reference: Reference | None) -> Finding:
    """Seen only while something runs: an idle GPU lowers its clock whatever its power supply."""
    clock, state = gpu.load.sm_clock_mhz, gpu.pstate
    if clock is None:
        return warn(
            "clocks",
            f"GPU {gpu.index} does not tell its SM clock",
            "a GPU that was denied its power would not be noticed",
            "update the driver",
        )
    expected = reference.sm_clock_mhz if reference is not None else gpu.max_sm_clock_mhz
    basis = "this node has sustained" if reference is not None else "specified are"
    known = f", {basis} {expected:.0f} MHz" if expected is not None else ""
    power = f" at {gpu.load.power_w:.0f} W" if gpu.load.power_w is not None else ""
    what = f"GPU {gpu.index}: SM clock {clock} MHz{power}{known}"
    idle = state != 0 or "idle" in (gpu.load.reasons or ())
    if idle or expected is None or clock >= DENIED * expected:
        return ok("clocks", what + (" (idle; watched while measuring)" if idle else ""))
    return stop(
        "clocks",
        f"{what}, in its highest performance state",
        "it is denied its power, as after a fault in the USB-C power negotiation; nothing reports"
        " an error and everything runs several times slower",
        "shut down, unplug the power supply from the wall and from the machine for a minute, and"
        " start again",
    )


def _heat(gpu: Gpu) -> Finding:
    heat = gpu.load.temperature_c
    what = f"GPU {gpu.index}: {heat} °C" if heat is not None else f"GPU {gpu.index}: no temperature"
    if heat is None or heat < _WARM_C:
        return ok("temperature", what)
    if heat < _HOT_C:
        why = "under load it may reach the temperature from which the driver slows it down"
        return warn("temperature", what, why, "wait a few minutes, and see to its ventilation")
    why = "it is slowed down at this temperature: what is measured would be its cooling"
    return stop("temperature", what, why, "wait until it has cooled, and see to its ventilation")


def _slowed(gpu: Gpu) -> Iterator[Finding]:
    active = [reason for reason in gpu.load.reasons or () if reason in SLOWDOWNS]
    if active:
        yield warn(
            "slowdown",
            f"the driver slows GPU {gpu.index} down now: {', '.join(active)}",
            "cells measured like this would count as THROTTLED and be measured again",
            "nvidia-smi -q -d PERFORMANCE says since when; see to ventilation and power supply",
        )
