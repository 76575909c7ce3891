"""The GPU driver's management library (NVML). The only module that imports it.

Nothing here raises: without the library there is no session, and a query that this GPU or driver
does not support (a GB10 has no memory of its own to report) is None.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pynvml

from pipeline.host.gpus import Gpu, GpuLoad, GpuProcess

# Why a clock is below its highest, by NVML's bit.
REASONS = {
    pynvml.nvmlClocksEventReasonGpuIdle: "idle",
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "clock_setting",
    pynvml.nvmlClocksEventReasonSwPowerCap: "power_cap",
    pynvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksEventReasonDisplayClockSetting: "display_setting",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power_brake",
}


class Nvml:
    """An open session; made by `session`."""

    def __init__(self) -> None:
        count = _ask(pynvml.nvmlDeviceGetCount) or 0
        found = ((i, _ask(pynvml.nvmlDeviceGetHandleByIndex, i)) for i in range(count))
        self._handles = [(i, handle) for i, handle in found if handle is not None]
        self._visible = [handle for i, handle in self._handles if is_visible(i, _uuid(handle))]

    @property
    def driver(self) -> str | None:
        """The driver's version."""
        version = _ask(pynvml.nvmlSystemGetDriverVersion)
        return None if version is None else str(version)

    @property
    def cuda(self) -> str | None:
        """The newest CUDA that the driver runs, such as `13.0`."""
        version = _ask(pynvml.nvmlSystemGetCudaDriverVersion)
        return None if version is None else f"{version // 1000}.{version % 1000 // 10}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all GPUs."""
        return tuple(str(_ask(pynvml.nvmlDeviceGetName, handle)) for _, handle in self._handles)

    def gpus(self) -> tuple[Gpu, ...]:
        """Everything about every GPU."""
        return tuple(_gpu(i, handle, handle in self._visible) for i, handle in self._handles)

    def loads(self) -> tuple[GpuLoad, ...]:
        """What the visible GPUs do now; the few queries that are asked every second."""
        return tuple(_load(handle) for handle in self._visible)


@contextmanager
def session() -> Iterator[Nvml | None]:
    """NVML while the block runs; None where there is none."""
    try:
        pynvml.nvmlInit()
        opened = True
    except pynvml.NVMLError:
        opened = False
    try:
        yield Nvml() if opened else None
    finally:
        if opened:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def is_visible(index: int, uuid: str) -> bool:
    """Whether CUDA_VISIBLE_DEVICES, a list of indices or of UUIDs' beginnings, lets a GPU through.

    CUDA stops reading the list at the first entry that names no GPU, such as -1.
    """
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return True
    names = [name.strip() for name in asked.split(",")]
    before_stop = names[: names.index("-1")] if "-1" in names else names
    return any(
        n == str(index) or (n.startswith("GPU-") and uuid.startswith(n)) for n in before_stop
    )


def _ask(query: Callable[..., Any], *arguments: object) -> Any:
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def _uuid(handle: Any) -> str:
    return str(_ask(pynvml.nvmlDeviceGetUUID, handle))


def _gpu(index: int, handle: Any, visible: bool) -> Gpu:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    used = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    energy_mj = _ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    return Gpu(
        index=index,
        name=str(_ask(pynvml.nvmlDeviceGetName, handle)),
        visible=visible,
        memory_total_bytes=memory and memory.total,
        memory_free_bytes=memory and memory.free,
        max_sm_clock_mhz=_ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        power_limit_w=_watts(_ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        pstate=_ask(pynvml.nvmlDeviceGetPerformanceState, handle),
        utilisation_percent=used and used.gpu,
        energy_j=None if energy_mj is None else energy_mj / 1000,
        processes=_processes(handle),
        load=_load(handle),
    )


def _load(handle: Any) -> GpuLoad:
    bits = _ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    return GpuLoad(
        sm_clock_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        power_w=_watts(_ask(pynvml.nvmlDeviceGetPowerUsage, handle)),
        temperature_c=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        reasons=None if bits is None else tuple(n for bit, n in REASONS.items() if bits & bit),
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _processes(handle: Any) -> tuple[GpuProcess, ...] | None:
    running = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if not running:
        return None if running is None else ()
    own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return tuple(
        GpuProcess(
            pid=process.pid,
            name=_name(process.pid),
            memory_bytes=process.usedGpuMemory,
            ours=process.pid in own,
        )
        for process in running
    )


def _name(pid: int) -> str:
    """A process' name; from inside a container, another's is not known."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "?"
