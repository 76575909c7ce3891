from __future__ import annotations

import os
from pathlib import Path

import pynvml
import pytest

from pipeline.execution import host
from pipeline.locks import held


def gpus(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(host, "gpu_names", lambda: names)


def test_a_machine_without_a_gpu_is_a_cpu_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch)
    assert host.detect_platform() == "cpu"


def test_a_gb10_is_a_dgx_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "NVIDIA GB10")
    assert host.detect_platform() == "dgx_spark"


def test_another_gpu_is_named_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "NVIDIA H200")
    with pytest.raises(host.UnknownMachineError, match=r"NVIDIA H200.*platform=NAME"):
        host.detect_platform()


def test_no_nvml_means_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert host.gpu_names() == ()
    assert host.facts()["gpu_driver"] is None


def test_facts_of_this_machine_are_filled_in() -> None:
    facts = host.facts()
    assert facts["node"]
    assert isinstance(facts["cores"], int)
    assert facts["cores"] >= 1
    assert isinstance(facts["memory_bytes"], int)
    assert facts["memory_bytes"] > 2**20
    assert host.peak_memory_bytes() > 2**20


def test_a_command_confined_to_one_core_says_so() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        confined = host.facts()
    finally:
        os.sched_setaffinity(0, before)
    assert confined["usable_cores"] == 1
    assert confined["cores"] == host.facts()["cores"]
    assert host.facts()["usable_cores"] == len(before)


def test_a_machine_takes_one_engine_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "LOCK", tmp_path / "lock")
    with (
        held(host.LOCK, "sweep nightly", 0, host.MachineBusyError),
        pytest.raises(host.MachineBusyError, match="sweep nightly"),
        host.machine_lock("sweep mine", patience_s=0),
    ):
        pass
