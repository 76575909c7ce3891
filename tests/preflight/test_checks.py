"""Every finding, by a host that leads to it."""

from __future__ import annotations

import pytest

from pipeline.host.gpus import GpuProcess
from pipeline.host.reading import HostReading, Memory, Raylet
from pipeline.host.throttling import Reference
from pipeline.preflight import check_host
from pipeline.preflight.memory import DROP_CACHES
from tests.preflight.hosts import (
    FOLDER,
    GIB,
    ON_CPU,
    ON_SPARK,
    finding,
    host,
    troubles,
    with_gpu,
    with_load,
)

SPARK = host("gb10")
PAIR = ON_SPARK.model_copy(update={"nodes": 2})
PINNED = {
    "VLLM_HOST_IP": "192.168.100.10",
    "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
    "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gb10", {}),
        ("gb10_page_cache", {"page_cache": "warn"}),
        ("gb10_memory_taken", {"memory": "stop"}),
        ("gb10_throttling", {"temperature": "stop", "slowdown": "warn"}),
        ("gb10_power_capped", {"clocks": "stop"}),
        ("gb10_orphan", {"gpu_processes": "stop"}),
        ("discrete_gpu", {}),
    ],
)
def test_a_host_has_the_troubles_it_was_composed_with(name: str, expected: dict[str, str]) -> None:
    assert troubles(host(name)) == expected


def test_every_composed_host_is_looked_at() -> None:
    names = {path.stem.removeprefix("composed_") for path in FOLDER.glob("*.json")}
    assert names == {
        *("gb10", "gb10_page_cache", "gb10_memory_taken", "gb10_throttling"),
        *("gb10_power_capped", "gb10_orphan", "discrete_gpu", "no_gpu"),
    }


def test_a_host_without_a_gpu_serves_the_cpu_platform() -> None:
    assert troubles(host("no_gpu"), ON_CPU) == {}
    assert troubles(host("no_gpu", bf16=True), ON_CPU) == {}


def test_a_processor_without_bf16_is_told_of_float32() -> None:
    slow = host("no_gpu", bf16=False)
    found = finding(slow, "bf16", ON_CPU)
    assert found.severity == "warn"
    assert "platform.engine_args.dtype=float32" in found.cure
    assert troubles(slow, ON_CPU.model_copy(update={"bf16": False})) == {}
    # On a GPU the processor computes nothing.
    on_gpu = ON_SPARK.model_copy(update={"bf16": True})
    assert troubles(SPARK.model_copy(update={"bf16": False}), on_gpu) == {}


@pytest.mark.parametrize("name", ["gb10_page_cache", "gb10_memory_taken", "gb10_power_capped"])
def test_every_trouble_says_why_it_matters_and_what_to_do(name: str) -> None:
    told = [f for f in check_host(ON_SPARK, host(name), None) if f.severity != "ok"]
    assert told
    assert all(f.why and f.cure for f in told)


# --- memory ---------------------------------------------------------------------------------


def memory(available: float, free: float = 100.0) -> Memory:
    return Memory(
        total=SPARK.memory.total,
        available=int(available * GIB),
        free=int(free * GIB),
        cached=5 * GIB,
    )


@pytest.mark.parametrize(
    ("available", "severity"), [(107.0, "stop"), (107.2, "warn"), (116.0, "warn"), (116.2, "ok")]
)
def test_shared_memory_must_hold_the_demand_and_the_start_before_it(
    available: float, severity: str
) -> None:
    # 0.88 of 121.69 GiB are 107.1 GiB.
    of = SPARK.model_copy(update={"memory": memory(available, free=available)})
    assert finding(of, "memory").severity == severity


def test_page_cache_in_the_way_is_cured_by_dropping_it() -> None:
    found = finding(host("gb10_page_cache"), "page_cache")
    assert "72.6 GiB are page cache" in found.what
    assert found.cure == DROP_CACHES


def test_asking_for_nearly_all_shared_memory_is_warned_of() -> None:
    greedy = ON_SPARK.model_copy(update={"memory_utilisation": 0.95})
    assert troubles(SPARK, greedy)["memory_share"] == "warn"


def test_a_gpu_with_memory_of_its_own_must_have_it_free() -> None:
    of = host("discrete_gpu")
    assert finding(of, "memory").severity == "ok"
    taken = with_gpu(of, memory_free_bytes=100 * GIB)
    found = finding(taken, "memory")
    assert found.severity == "stop"
    assert "GPU 0 has 100.0 GiB free" in found.what


def test_only_the_gpus_an_engine_takes_are_looked_at() -> None:
    of = host("discrete_gpu")
    assert of.gpus is not None
    second_taken = of.model_copy(
        update={"gpus": (of.gpus[0], of.gpus[1].model_copy(update={"memory_free_bytes": 0}))}
    )
    assert troubles(second_taken) == {}
    both = ON_SPARK.model_copy(update={"gpus": 2})
    assert troubles(second_taken, both) == {"memory": "stop"}


def test_without_a_gpu_weights_and_cache_must_fit() -> None:
    large = ON_CPU.model_copy(update={"weights_bytes": 20 * GIB})
    assert troubles(host("no_gpu"), large) == {"memory": "stop"}


@pytest.mark.parametrize(
    ("raylet", "severity"),
    [
        (Raylet(pid=9, monitor_ms="0", threshold=None), None),
        (Raylet(pid=9, monitor_ms="250", threshold="0.98"), "warn"),
        (Raylet(pid=9, monitor_ms=None, threshold="0.90"), "stop"),
        (Raylet(pid=9, monitor_ms=None, threshold="many"), "warn"),
    ],
    ids=["off", "high threshold", "low threshold", "unreadable threshold"],
)
def test_rays_memory_monitor_must_not_kill_the_model(raylet: Raylet, severity: str | None) -> None:
    # 4.5 of 121.69 GiB are taken before the engine takes 88 %.
    of = SPARK.model_copy(update={"raylets": (raylet,)})
    assert troubles(of).get("ray_memory_monitor") == severity


def test_rays_memory_monitor_does_not_see_the_memory_of_a_discrete_gpu() -> None:
    on = (Raylet(pid=9, monitor_ms=None, threshold=None),)
    assert troubles(host("discrete_gpu", raylets=on)) == {}


# --- GPUs -----------------------------------------------------------------------------------


def test_a_platform_with_gpus_needs_one() -> None:
    none = host("no_gpu", vllm_for_cpu=False)
    assert troubles(none) == {"gpu": "stop"}


def test_a_hidden_gpu_is_told_with_what_hides_it() -> None:
    hidden = with_gpu(SPARK, visible=False)
    hidden = hidden.model_copy(update={"environment": {"CUDA_VISIBLE_DEVICES": ""}})
    found = finding(hidden, "gpu")
    assert found.severity == "stop"
    assert "(CUDA_VISIBLE_DEVICES=)" in found.what


def test_a_gpu_without_nvml_may_be_used_and_is_not_watched() -> None:
    blind = SPARK.model_copy(update={"gpus": None, "driver": None, "driver_cuda": None})
    assert troubles(blind) == {"gpu": "warn"}


def process(gib: float | None, *, ours: bool = False) -> GpuProcess:
    size = None if gib is None else int(gib * GIB)
    return GpuProcess(pid=77, name="ollama", memory_bytes=size, ours=ours)


@pytest.mark.parametrize(
    ("running", "utilisation", "severity"),
    [
        (process(0.3), 0, "warn"),
        (process(0.3), 50, "stop"),
        (process(30.0), 0, "stop"),
        (process(None), 0, "stop"),
        (process(30.0, ours=True), 50, None),
    ],
    ids=["idle", "busy", "large", "of unknown size", "ours"],
)
def test_what_others_compute_on_the_gpu_counts_by_what_it_takes(
    running: GpuProcess, utilisation: int, severity: str | None
) -> None:
    of = with_gpu(SPARK, processes=(running,), utilisation_percent=utilisation)
    assert troubles(of).get("gpu_processes") == severity


def test_a_process_is_named_with_the_command_that_ends_it() -> None:
    found = finding(host("gb10_orphan"), "gpu_processes")
    assert "process 41725 (VLLM::EngineCore)" in found.what
    assert "76.9 GiB" in found.what
    assert "kill 41725" in found.cure


def test_a_power_capped_gpu_is_held_against_the_nodes_own_reference() -> None:
    known = Reference(
        gpu="NVIDIA GB10", driver=None, sm_clock_mhz=2411, power_w=36.0, measured_at="then"
    )
    capped = host("gb10_power_capped")
    (found,) = [f for f in check_host(ON_SPARK, capped, known) if f.check == "clocks"]
    assert found.severity == "stop"
    assert "611 MHz at 30 W, this node has sustained 2411 MHz" in found.what
    assert "unplug the power supply" in found.cure


@pytest.mark.parametrize(
    "idle",
    [
        with_load(SPARK, sm_clock_mhz=208),
        with_load(with_gpu(SPARK, pstate=0), sm_clock_mhz=345, reasons=("idle",)),
        host("discrete_gpu"),
    ],
    ids=["low state", "highest state", "discrete"],
)
def test_a_low_clock_of_an_idle_gpu_says_nothing(idle: HostReading) -> None:
    assert finding(idle, "clocks").severity == "ok"


def test_a_gpu_that_keeps_its_clock_to_itself_is_warned_of() -> None:
    assert troubles(with_load(SPARK, sm_clock_mhz=None)) == {"clocks": "warn"}


@pytest.mark.parametrize(
    ("heat", "severity"), [(69, None), (70, "warn"), (84, "warn"), (85, "stop"), (None, None)]
)
def test_a_hot_gpu_is_left_to_cool(heat: int | None, severity: str | None) -> None:
    assert troubles(with_load(SPARK, temperature_c=heat)).get("temperature") == severity


# --- software and disks -----------------------------------------------------------------------


def test_an_environment_without_vllm_starts_nothing() -> None:
    assert troubles(SPARK.model_copy(update={"vllm": None})) == {"vllm": "stop"}


def test_each_platform_needs_its_build_of_vllm() -> None:
    assert troubles(SPARK.model_copy(update={"vllm_for_cpu": True})) == {"vllm": "stop"}
    assert troubles(host("no_gpu", vllm_for_cpu=False), ON_CPU) == {"vllm": "stop"}


@pytest.mark.parametrize(
    ("driver", "torch", "severity"),
    [
        ("13.0", "13.2", None),
        ("12.8", "13.0", "stop"),
        ("13.0", "12.8", None),
        (None, "13.0", None),
    ],
)
def test_the_driver_must_run_the_cuda_of_pytorch(
    driver: str | None, torch: str | None, severity: str | None
) -> None:
    of = SPARK.model_copy(update={"driver_cuda": driver, "torch_cuda": torch})
    assert troubles(of).get("driver") == severity


@pytest.mark.parametrize(("free", "severity"), [(0.9, "stop"), (4.9, "warn"), (5.1, None)])
def test_a_disk_must_have_room(free: float, severity: str | None) -> None:
    disk = SPARK.disks[0].model_copy(update={"free_bytes": int(free * GIB)})
    assert troubles(SPARK.model_copy(update={"disks": (disk,)})).get("disk") == severity


# --- pairs ------------------------------------------------------------------------------------


def test_one_node_needs_no_network() -> None:
    assert troubles(SPARK.model_copy(update={"interfaces": ()})) == {}


def test_a_pair_that_is_pinned_to_its_fast_cards_is_well() -> None:
    assert troubles(SPARK.model_copy(update={"environment": PINNED}), PAIR) == {}


def test_what_the_platform_sets_counts_like_the_environment() -> None:
    assert troubles(SPARK, PAIR.model_copy(update={"env": PINNED})) == {}


@pytest.mark.parametrize(
    ("variable", "value", "severity"),
    [
        ("VLLM_HOST_IP", None, "warn"),
        ("VLLM_HOST_IP", "10.0.0.21", "warn"),
        ("VLLM_HOST_IP", "192.168.100.99", "stop"),
        ("NCCL_SOCKET_IFNAME", None, "warn"),
        ("NCCL_SOCKET_IFNAME", "enP7s7", "warn"),
        ("NCCL_SOCKET_IFNAME", "eth0", "stop"),
        ("NCCL_SOCKET_IFNAME", "=enp1s0", "stop"),
        ("NCCL_SOCKET_IFNAME", "enp1s0", None),
        ("NCCL_SOCKET_IFNAME", "^lo,enP7s7", None),
        ("GLOO_SOCKET_IFNAME", "eth0", "stop"),
    ],
)
def test_each_pin_of_a_pair_is_held_against_the_nodes_interfaces(
    variable: str, value: str | None, severity: str | None
) -> None:
    pins = {k: v for k, v in {**PINNED, variable: value}.items() if v is not None}
    of = SPARK.model_copy(update={"environment": pins})
    assert troubles(of, PAIR).get("network") == severity


def test_a_pair_without_a_fast_card_is_told_how_to_give_it_an_address() -> None:
    slow = tuple(i for i in SPARK.interfaces if i.driver != "mlx5_core")
    of = SPARK.model_copy(update={"interfaces": slow})
    told = [f for f in check_host(PAIR, of, None) if f.check == "network"]
    assert "no ConnectX interface is up" in told[0].what
    assert "ip addr" in told[0].cure
