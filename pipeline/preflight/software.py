"""Versions and places: vLLM, driver and CUDA, number formats, free disk. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.host.reading import HostReading
from pipeline.preflight.demand import Demand
from pipeline.preflight.findings import GIB, Finding, gib, ok, stop, warn

# Logs, records and what vLLM compiles for a model.
_LEAST_BYTES, _EASY_BYTES = 1 * GIB, 5 * GIB


def check_software(demand: Demand, host: HostReading) -> Iterator[Finding]:
    """The right vLLM, and a driver or a processor that can run it."""
    if host.vllm is None:
        yield stop(
            "vllm",
            "vLLM is not installed in this environment",
            "there is no engine to start",
            "uv run python -m pipeline … installs it; a DGX Spark's image brings its own",
        )
    elif host.vllm_for_cpu != (demand.device == "cpu"):
        build = "CPU" if host.vllm_for_cpu else "CUDA"
        yield stop(
            "vllm",
            f"vLLM {host.vllm} is the {build} build",
            f"it cannot run on platform device {demand.device}",
            "uv run --no-group cpu --extra cuda … for a GPU, plain uv run … without one",
        )
    else:
        yield ok("vllm", f"vLLM {host.vllm}")
    if demand.device == "cuda":
        yield from _cuda(host)
    elif demand.bf16 and host.bf16 is False:
        yield warn(
            "bf16",
            "this processor has no instructions for bf16, which the engine is to compute in",
            "products of more than one token take several times as long as in float32: reading "
            "prompts, and checking drafts, so that drafting pays less",
            "compare with platform.engine_args.dtype=float32, which reads twice the bytes a token",
        )


def _cuda(host: HostReading) -> Iterator[Finding]:
    if host.driver_cuda is None or host.torch_cuda is None:
        return
    what = f"driver {host.driver} runs CUDA {host.driver_cuda}, PyTorch needs {host.torch_cuda}"
    # Within a major version every driver runs every minor one.
    if _major(host.driver_cuda) < _major(host.torch_cuda):
        yield stop("driver", what, "the engine could not use the GPU", "update the NVIDIA driver")
    else:
        yield ok("driver", what)


def _major(version: str) -> int:
    text = version.partition(".")[0]
    return int(text) if text.isdecimal() else 0


def check_disks(host: HostReading) -> Iterator[Finding]:
    """Room where something will be written."""
    for disk in host.disks:
        what = f"{gib(disk.free_bytes)} free for {disk.folder}"
        if disk.free_bytes >= _EASY_BYTES:
            yield ok("disk", what)
            continue
        serious = disk.free_bytes < _LEAST_BYTES
        yield (stop if serious else warn)(
            "disk",
            what,
            "logs, records and compiled kernels are written there; a full disk ends a sweep",
            f"make room: du -xh --max-depth=2 {disk.folder} | sort -h | tail",
        )
