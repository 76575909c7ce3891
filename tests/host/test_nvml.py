from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pynvml
import pytest

from pipeline.host.nvml import REASONS, is_visible, session
from tests.host.scripted import GB10, script


def test_without_the_library_there_is_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    with session() as nvml:
        assert nvml is None


def test_a_gb10_shares_the_hosts_memory_and_tells_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(monkeypatch, GB10)
    with session() as nvml:
        assert nvml is not None
        (gpu,) = nvml.gpus()
        assert (nvml.driver, nvml.cuda, nvml.names) == ("580.173.02", "13.0", ("NVIDIA GB10",))
    assert gpu.unified
    assert gpu.power_limit_w is None
    assert (gpu.load.sm_clock_mhz, gpu.load.power_w, gpu.load.temperature_c) == (2411, 36.5, 61)
    assert (gpu.energy_j, gpu.pstate, gpu.utilisation_percent) == (81_250.5, 0, 96)
    assert gpu.load.reasons == ()


@pytest.mark.parametrize("query", sorted(set(GB10) - {"nvmlInit", "nvmlDeviceGetCount"}))
def test_one_query_that_is_not_supported_costs_only_its_own_answer(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, {name: answer for name, answer in GB10.items() if name != query})
    with session() as nvml:
        assert nvml is not None
        gpus, loads = nvml.gpus(), nvml.loads()
    assert len(gpus) == len(loads) == (0 if query == "nvmlDeviceGetHandleByIndex" else 1)


def test_a_discrete_gpu_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(total=80 * 2**30, free=70 * 2**30, used=10 * 2**30)
    script(monkeypatch, {**GB10, "nvmlDeviceGetMemoryInfo": memory})
    with session() as nvml:
        assert nvml is not None
        (gpu,) = nvml.gpus()
    assert not gpu.unified
    assert gpu.memory_free_bytes == 70 * 2**30


def test_every_reason_that_is_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, {**GB10, "nvmlDeviceGetCurrentClocksEventReasons": sum(REASONS)})
    with session() as nvml:
        assert nvml is not None
        (load,) = nvml.loads()
    assert load.reasons == tuple(REASONS.values())


def test_processes_of_ours_are_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        running = [
            SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in (os.getpid(), child.pid, 1)
        ]
        script(monkeypatch, {**GB10, "nvmlDeviceGetComputeRunningProcesses": running})
        with session() as nvml:
            assert nvml is not None
            (gpu,) = nvml.gpus()
    finally:
        child.communicate()
    assert [process.ours for process in gpu.processes or ()] == [True, True, False]


def test_a_process_that_is_gone_keeps_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(pid=2**22 + 1, usedGpuMemory=1)
    script(monkeypatch, {**GB10, "nvmlDeviceGetComputeRunningProcesses": [gone]})
    with session() as nvml:
        assert nvml is not None
        (gpu,) = nvml.gpus()
    assert gpu.processes is not None
    assert gpu.processes[0].name == "?"


@pytest.mark.parametrize(
    ("asked", "visible"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("0,2", [0, 2]),
        (" 1 ", [1]),
        ("GPU-b", [1]),
        ("1,-1,2", [1]),
        ("10", []),
    ],
)
def test_what_cuda_hides_an_engine_does_not_see(
    asked: str | None, visible: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    uuids = ("GPU-a1", "GPU-b2", "GPU-c3")
    assert [i for i, uuid in enumerate(uuids) if is_visible(i, uuid)] == visible
