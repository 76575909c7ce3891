"""This machine: what it is, and the lock that keeps a second engine off it."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import socket
import tempfile
from pathlib import Path

import psutil
from pydantic import JsonValue

from pipeline.errors import InfrastructureError, InputError
from pipeline.host import nvml
from pipeline.locks import held

LOCK = Path(tempfile.gettempdir()) / "spec-decode-pipeline.machine.lock"


class UnknownMachineError(InputError):
    """A GPU for which no platform is written."""

    def __init__(self, gpu: str) -> None:
        super().__init__(
            f"this machine has a {gpu}, for which there is no platform",
            where="platform",
            allowed="cpu, dgx_spark",
            remedy="name one with platform=NAME; your own goes into a folder given by --config-dir",
        )


class MachineBusyError(InfrastructureError):
    """Another sweep measures on this machine."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"another sweep measures here ({owner})",
            where=platform.node(),
            remedy="wait for it to end: two engines at once would spoil both measurements",
        )


def gpu_names() -> tuple[str, ...]:
    """The names of the GPUs that NVML reports; empty where there is no NVML."""
    with nvml.session() as found:
        return () if found is None else found.names


def detect_platform() -> str:
    """The platform this machine is: `dgx_spark` for a GB10, `cpu` without a GPU.

    Raises:
        UnknownMachineError: there is a GPU of another kind.
    """
    names = gpu_names()
    if not names:
        return "cpu"
    if any("GB10" in name for name in names):
        return "dgx_spark"
    raise UnknownMachineError(names[0])


def facts() -> dict[str, JsonValue]:
    """What a record says of the machine it was made on."""
    return {
        "node": socket.gethostname(),
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count() or 0,
        # Fewer where a container or `taskset` confines what runs here.
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": list(gpu_names()),
        "gpu_driver": _gpu_driver(),
    }


def peak_memory_bytes() -> int:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _gpu_driver() -> str | None:
    with nvml.session() as found:
        return None if found is None else found.driver


def machine_lock(owner: str, patience_s: float = 30.0) -> contextlib.AbstractContextManager[None]:
    """Hold this machine for one engine.

    Raises:
        MachineBusyError: somebody else holds it for longer than `patience_s`.
    """
    return held(LOCK, owner, patience_s, MachineBusyError)
