"""What a GPU says of itself: records, without the library that asks."""

from __future__ import annotations

from pipeline.spec import Record

# Reasons for a lowered clock that slow a measurement down. A power cap (`power_cap`) is how many
# GPUs run at full load, and idle is no trouble at all.
SLOWDOWNS = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")


class GpuProcess(Record):
    """A process that computes on a GPU; `ours` where the reading process started it."""

    pid: int
    name: str
    memory_bytes: int | None
    ours: bool


class GpuLoad(Record):
    """What changes from second to second."""

    sm_clock_mhz: int | None
    power_w: float | None
    temperature_c: int | None
    reasons: tuple[str, ...] | None


class Gpu(Record):
    """One GPU.

    Attributes:
        visible: False where CUDA_VISIBLE_DEVICES hides it from this process.
        memory_total_bytes, memory_free_bytes: None where it shares the host's memory.
        pstate: performance state, 0 the highest.
        energy_j: since the driver was loaded.
    """

    index: int
    name: str
    visible: bool
    memory_total_bytes: int | None
    memory_free_bytes: int | None
    max_sm_clock_mhz: int | None
    power_limit_w: float | None
    pstate: int | None
    utilisation_percent: int | None
    energy_j: float | None
    processes: tuple[GpuProcess, ...] | None
    load: GpuLoad

    @property
    def unified(self) -> bool:
        """Whether it takes its memory from the host's."""
        return self.memory_total_bytes is None
