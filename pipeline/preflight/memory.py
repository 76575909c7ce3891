"""Memory: what is free against what an engine will ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.host.gpus import Gpu
from pipeline.host.reading import HostReading
from pipeline.preflight.demand import Demand
from pipeline.preflight.findings import Finding, gib, ok, stop, warn

DROP_CACHES = "sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'"
# Ray's own default.
_RAY_THRESHOLD = 0.95
# NVML counts a little more memory as a GPU's than CUDA, and so vLLM, does.
_TOLERANCE = 0.98
# Owners of a GB10 see MemAvailable fall by 8 to 9 GiB between an idle host and vLLM's own count.
_UNIFIED_START_BYTES = 9 * 1024**3
# Above this share of memory that the system shares, hosts were reported to freeze.
_UNIFIED_SHARE = 0.90


def check_memory(demand: Demand, host: HostReading) -> Iterator[Finding]:
    """Enough memory, where the engine will take it from."""
    if demand.device == "cpu":
        yield _of_the_host(demand, host)
        return
    for gpu in host.visible_gpus[: demand.gpus]:
        if gpu.unified:
            yield from _unified(demand, host)
        else:
            yield _of_a_gpu(demand, gpu)
    yield from _ray(demand, host)


def _of_the_host(demand: Demand, host: HostReading) -> Finding:
    needed, free = demand.weights_bytes + demand.kv_cache_bytes, host.memory.available
    if free < needed:
        return stop(
            "memory",
            f"{gib(free)} are available, weights and KV cache alone take {gib(needed)}",
            "the engine would be killed while it loads, or swap while it measures",
            "end what else runs here (ps aux --sort=-rss | head), or lower VLLM_CPU_KVCACHE_SPACE",
        )
    return ok("memory", f"{gib(free)} available, weights and KV cache take {gib(needed)}")


def _of_a_gpu(demand: Demand, gpu: Gpu) -> Finding:
    total, free = gpu.memory_total_bytes or 0, gpu.memory_free_bytes or 0
    asked = demand.memory_utilisation * total
    if free < _TOLERANCE * asked:
        return stop(
            "memory",
            f"GPU {gpu.index} has {gib(free)} free, vLLM will ask for {gib(asked)}"
            f" ({demand.memory_utilisation:.2f} of {gib(total)})",
            "vLLM refuses to start with less",
            "end what holds it (nvidia-smi lists it), or lower engine_args.gpu_memory_utilization",
        )
    return ok("memory", f"GPU {gpu.index}: {gib(free)} free, vLLM will ask for {gib(asked)}")


def _unified(demand: Demand, host: HostReading) -> Iterator[Finding]:
    memory = host.memory
    asked = demand.memory_utilisation * memory.total
    state = (
        f"{gib(memory.available)} are available, vLLM will ask for {gib(asked)}"
        f" ({demand.memory_utilisation:.2f} of {gib(memory.total)} shared with the system)"
    )
    lower = "end what else runs here (ps aux --sort=-rss | head), or lower gpu_memory_utilization"
    if memory.available < asked:
        yield stop("memory", state, "vLLM refuses to start with less", lower)
    elif memory.available < asked + _UNIFIED_START_BYTES:
        why = "starting up takes 8 to 9 GiB before vLLM counts, and with less it refuses to start"
        yield warn("memory", state, why, lower)
    else:
        yield ok("memory", state)
    if demand.memory_utilisation > _UNIFIED_SHARE:
        yield warn(
            "memory_share",
            f"vLLM will ask for {demand.memory_utilisation:.2f} of all memory",
            "the system has the rest, and a host whose shared memory runs out freezes",
            "set engine_args.gpu_memory_utilization to 0.80 to 0.88",
        )
    if memory.free < asked <= memory.available:
        yield warn(
            "page_cache",
            f"{gib(memory.cached)} are page cache, which leaves {gib(memory.free)} free",
            "some builds of vLLM count page cache as taken and refuse to start",
            DROP_CACHES,
        )


def _ray(demand: Demand, host: HostReading) -> Iterator[Finding]:
    """Ray kills its workers over memory that, where it is shared, the model is meant to take."""
    shared = any(gpu.unified for gpu in host.visible_gpus[: demand.gpus])
    for raylet in host.raylets:
        if raylet.monitor_ms == "0" or not shared:
            continue
        threshold = _share(raylet.threshold)
        taken = host.memory.total - host.memory.available
        expected = taken / host.memory.total + demand.memory_utilisation
        what = (
            f"the memory monitor of Ray's node process {raylet.pid} is on: it kills at"
            f" {threshold:.0%}, memory will be about {min(expected, 1.0):.0%} taken"
        )
        why = "the model counts as Ray's worker's memory, and the worker is killed with it"
        cure = "stop Ray there and start it with RAY_memory_monitor_refresh_ms=0"
        yield (stop if expected > threshold else warn)("ray_memory_monitor", what, why, cure)


def _share(text: str | None) -> float:
    try:
        return float(text) if text is not None else _RAY_THRESHOLD
    except ValueError:
        return _RAY_THRESHOLD
