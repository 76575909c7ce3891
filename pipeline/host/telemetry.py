"""The host watched at 1 Hz while something is measured on it.

    with Telemetry() as telemetry:
        began = time.monotonic()
        ...
        summary = telemetry.between(began, time.monotonic())
        reason = telemetry.throttled(summary)

A thread of the measuring process reads /proc/meminfo and asks NVML four questions per GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from pipeline.host import reference
from pipeline.host.gpus import SLOWDOWNS, Gpu, GpuLoad
from pipeline.host.look import read_memory
from pipeline.host.nvml import Nvml, session
from pipeline.host.series import Limits, Sample, TelemetrySummary, summarise, within
from pipeline.host.throttling import Reference, throttled

PERIOD_S = 1.0
# From where a GPU gets through minutes of full load before the driver slows it down.
COOL_C = 65
COOLING_PATIENCE_S = 600.0


class Telemetry:
    """Samples the host until the block ends; what is asked of it is thread-safe."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._samples: list[Sample] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._nvml: Nvml | None = None
        self._gpu: str | None = None
        self._driver: str | None = None
        self._limits = Limits()
        self._reference: Reference | None = None

    def __enter__(self) -> Telemetry:
        with ExitStack() as opened:
            self._nvml = opened.enter_context(session())
            if self._nvml is not None:
                self._driver = self._nvml.driver
                gpus = [gpu for gpu in self._nvml.gpus() if gpu.visible]
                self._gpu = gpus[0].name if gpus else None
                self._limits = limits_of(gpus)
            self._reference = reference.load(self._gpu, self._driver)
            self.sample()
            self._thread.start()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.sample()
        self._opened.close()

    def sample(self) -> Sample:
        """Look once more, now."""
        with self._lock:
            loads = self._nvml.loads() if self._nvml is not None else ()
            taken = as_sample(time.monotonic(), read_memory().available, loads)
            self._samples.append(taken)
        return taken

    def between(self, start_s: float, end_s: float) -> TelemetrySummary:
        """What the host did between two readings of `time.monotonic`, both past."""
        return summarise(self._until(end_s), start_s, end_s, self._limits)

    def series(self, start_s: float, end_s: float) -> tuple[Sample, ...]:
        """The samples of an interval, their times counted from its start."""
        return tuple(
            sample.model_copy(update={"at_s": round(sample.at_s - start_s, 3)})
            for sample in within(self._until(end_s), start_s, end_s)
        )

    def throttled(self, summary: TelemetrySummary) -> str | None:
        """Why a measurement is to be made again, or None; see `pipeline.host.throttling`."""
        return throttled(summary, self._reference)

    def remember(self, summary: TelemetrySummary) -> None:
        """Let a sound measurement raise the node's reference."""
        self._reference = reference.remember(summary, self._gpu, self._driver)

    def cool_down(self, patience_s: float = COOLING_PATIENCE_S) -> bool:
        """Wait until the GPU is cool and nothing slows it down; False when patience ends first."""
        deadline = time.monotonic() + patience_s
        while not _is_cool(self.sample()):
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(self._period_s, patience_s))
        return True

    def _until(self, end_s: float) -> list[Sample]:
        """The samples so far, the end of an interval that has just passed included."""
        with self._lock:
            last = self._samples[-1].at_s
        if last < end_s and not self._over.is_set():
            self.sample()
        with self._lock:
            return list(self._samples)

    def _run(self) -> None:
        due = time.monotonic() + self._period_s
        while not self._over.wait(max(0.0, due - time.monotonic())):
            self.sample()
            # From the plan, not from the end of the last look: the period does not drift.
            due = max(due + self._period_s, time.monotonic())


def as_sample(at_s: float, memory_available_bytes: int, loads: Sequence[GpuLoad]) -> Sample:
    """Several GPUs as the one number that an engine on all of them feels."""
    clocks = [load.sm_clock_mhz for load in loads if load.sm_clock_mhz is not None]
    powers = [load.power_w for load in loads if load.power_w is not None]
    heats = [load.temperature_c for load in loads if load.temperature_c is not None]
    reasons = [load.reasons for load in loads if load.reasons is not None]
    return Sample(
        at_s=at_s,
        memory_available_bytes=memory_available_bytes,
        sm_clock_mhz=min(clocks, default=None),
        # A sum of some of them would not be the power of all.
        power_w=sum(powers) if powers and len(powers) == len(loads) else None,
        temperature_c=max(heats, default=None),
        reasons=tuple(sorted({r for each in reasons for r in each})) if reasons else None,
    )


def limits_of(gpus: Sequence[Gpu]) -> Limits:
    """The specifications of several GPUs, put together like their samples."""
    clocks = [gpu.max_sm_clock_mhz for gpu in gpus if gpu.max_sm_clock_mhz is not None]
    powers = [gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None]
    whole = powers and len(powers) == len(gpus)
    return Limits(sm_clock_mhz=min(clocks, default=None), power_w=sum(powers) if whole else None)


def _is_cool(sample: Sample) -> bool:
    slowed = any(reason in SLOWDOWNS for reason in sample.reasons or ())
    return not slowed and (sample.temperature_c is None or sample.temperature_c <= COOL_C)
