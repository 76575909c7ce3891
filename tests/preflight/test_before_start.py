from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import preflight, zoo
from pipeline.host.reading import HostReading
from pipeline.preflight import before_start
from pipeline.preflight.demand import demand_of
from pipeline.preflight.findings import GIB, stopped
from pipeline.spec import Resources
from tests.checkpoints.folders import trap
from tests.preflight.engines import engine
from tests.preflight.hosts import host

NO_GPU = Resources()
ONE_GPU = Resources(gpus=1)


def hosts(monkeypatch: pytest.MonkeyPatch, *readings: HostReading) -> None:
    """Let the next looks at the host find these."""
    left: Iterator[HostReading] = iter(readings)
    monkeypatch.setattr(preflight, "read_host", lambda _: next(left))


def hook(flag: Path, code: int = 0) -> tuple[str, ...]:
    """A command in place of one that drops caches: leaves a file, complains, ends."""
    program = (
        f"import pathlib, sys; pathlib.Path({str(flag)!r}).touch();"
        f"print('not allowed', file=sys.stderr); sys.exit({code})"
    )
    return (sys.executable, "-c", program)


def test_the_zoos_target_can_be_started_on_this_very_host() -> None:
    config = engine(zoo.materialise("smollm2-135m-instruct"), env={"VLLM_CPU_KVCACHE_SPACE": "1"})
    assert stopped(before_start(config, NO_GPU)) == ()


def test_an_engine_for_a_gpu_is_not_started_on_a_host_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(monkeypatch, host("no_gpu"))
    found = before_start(engine(trap(tmp_path / "model"), device="cuda"), ONE_GPU)
    assert [f.check for f in stopped(found)] == ["vllm", "gpu"]


def test_page_cache_in_the_way_is_dropped_where_there_is_a_command_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(monkeypatch, host("gb10_page_cache"), host("gb10"))
    config = engine(
        trap(tmp_path / "model"), device="cuda", engine_args={"gpu_memory_utilization": 0.88}
    )
    found = before_start(config, ONE_GPU, drop_caches=hook(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()
    assert {f.severity for f in found} == {"ok"}


def test_caches_are_left_alone_where_they_are_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(monkeypatch, host("gb10"))
    config = engine(trap(tmp_path / "model"), device="cuda")
    before_start(config, ONE_GPU, drop_caches=hook(tmp_path / "ran"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("missing", [False, True], ids=["refused", "missing"])
def test_a_command_that_fails_is_told_and_nothing_is_lost(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts(monkeypatch, host("gb10_page_cache"), host("gb10_page_cache"))
    config = engine(trap(tmp_path / "model"), device="cuda", engine_args={})
    command = ("/no/such/command",) if missing else hook(tmp_path / "ran", code=1)
    found = before_start(config, ONE_GPU, drop_caches=command)
    (told,) = [f for f in found if f.check == "drop_caches"]
    assert told.severity == "warn"
    assert ("No such file" if missing else "not allowed") in told.what


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"engine_args": {}}, "memory_utilisation", 0.92),
        ({"engine_args": {"gpu_memory_utilization": 0.5}}, "memory_utilisation", 0.5),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "3"}}, "kv_cache_bytes", 3 * GIB),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "auto"}}, "kv_cache_bytes", 0),
        ({"engine_args": {"kv_cache_memory_bytes": 7}}, "kv_cache_bytes", 7),
        ({"device": "cuda"}, "gpus", 1),
        ({"device": "cpu"}, "gpus", 0),
    ],
)
def test_the_demand_is_read_from_the_engines_arguments(
    changed: dict[str, object], field: str, value: object
) -> None:
    assert getattr(demand_of(engine("/m", **changed), NO_GPU, 5), field) == value
