"""One look at a host, as a record: what decides whether an engine starts and measures well there.

So a host can be written down in one place and checked in another. Pure; `look` is what looks.
"""

from __future__ import annotations

from typing import Literal

from pipeline.host.gpus import Gpu
from pipeline.spec import Record

_AVX512 = {"avx512bw", "avx512dq", "avx512vl"}


class Memory(Record):
    """The host's, in bytes; `available` is `free` plus what caches can give back."""

    total: int
    available: int
    free: int
    cached: int


class Disk(Record):
    """The file system that a folder is on, or will be made on."""

    folder: str
    free_bytes: int


class Interface(Record):
    """A network interface; `driver` is mlx5_core for a ConnectX card's."""

    name: str
    driver: str | None
    up: bool
    speed_mbit_s: int
    addresses: tuple[str, ...]


class Raylet(Record):
    """A Ray node that runs here, with its memory monitor's settings; None where they are default.

    Attributes:
        monitor_ms: period in milliseconds; `0` is off.
        threshold: share of memory from which it kills.
    """

    pid: int
    monitor_ms: str | None
    threshold: str | None


class HostReading(Record):
    """A host at one moment.

    Attributes:
        gpus: None where NVML is missing, empty where it finds none.
        gpu_device_files: whether the kernel offers an NVIDIA GPU, whatever NVML says.
        driver_cuda: the newest CUDA the driver runs; torch_cuda: the one PyTorch was built for.
        vllm: version of the installed vLLM, None where there is none.
        vllm_for_cpu: whether it is the CPU build.
        bf16: whether the processor multiplies matrices of bf16; None where that cannot be told.
    """

    schema_version: Literal[1] = 1
    node: str
    memory: Memory
    gpus: tuple[Gpu, ...] | None
    gpu_device_files: bool
    driver: str | None
    driver_cuda: str | None
    torch_cuda: str | None
    vllm: str | None
    vllm_for_cpu: bool
    bf16: bool | None = None
    disks: tuple[Disk, ...]
    interfaces: tuple[Interface, ...]
    raylets: tuple[Raylet, ...]
    environment: dict[str, str]

    @property
    def visible_gpus(self) -> tuple[Gpu, ...]:
        """Those that an engine started here would see."""
        return tuple(gpu for gpu in self.gpus or () if gpu.visible)


def parse_bf16(text: str) -> bool | None:
    """Whether oneDNN has bf16 products for the processor of a /proc/cpuinfo.

    On x86 from AVX-512 on or with AVX-NE-CONVERT, on ARM with the extension of that name
    (oneDNN's `cpu_isa`: avx512_core, avx2_vnni_2).
    """
    for line in text.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            known = set(flags.split())
            return bool(known & {"bf16", "avx_ne_convert"}) or known >= _AVX512
    return None


def parse_meminfo(text: str) -> Memory:
    """Memory from the text of /proc/meminfo, whose kB are KiB."""
    sizes = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        sizes[name] = int(rest.split()[0]) * 1024
    return Memory(
        total=sizes["MemTotal"],
        available=sizes["MemAvailable"],
        free=sizes["MemFree"],
        cached=sizes["Cached"],
    )
