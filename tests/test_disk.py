"""A disk that is full or read-only in the middle of a sweep: the disk is real, groups simulated."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE, EXIT_OK
from pipeline.execution.events import CellDone, Event, GroupJob
from pipeline.execution.runner import Measure
from pipeline.outputs import Outputs, WriteError
from pipeline.records import CellRecord
from pipeline.sweep import UnwritableOutputsError
from tests.execution.simulated import simulated_group
from tests.sweeps import SimulatedSweep

SIZE_MB = 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "none", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system needs root ({mounted.stderr.strip()})")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def sweep(disk: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedSweep:
    return SimulatedSweep(monkeypatch, disk / "outputs", "tracking=off", "method=ngram")


def cells(disk: Path) -> dict[str, CellRecord]:
    """What is durable; every one of them is read whole."""
    return {r.at.label: r for r in Outputs(disk / "outputs", "smoke").cells()}


def before_the_second_cell(change: list[str]) -> Measure:
    """A simulated group that changes the disk after its first cell."""

    def measure(job: GroupJob) -> Iterator[Event]:
        seen = 0
        for event in simulated_group(job):
            seen += isinstance(event, CellDone)
            if seen == 2 and change:
                subprocess.run(change, check=False, capture_output=True)
                change.clear()
            yield event

    return measure


def test_a_full_disk_ends_the_sweep_and_what_was_durable_stays(
    disk: Path, sweep: SimulatedSweep
) -> None:
    ballast = disk / "ballast"
    fill = ["dd", "if=/dev/zero", f"of={ballast}", "bs=4096"]
    with pytest.raises(WriteError, match=r"No space left on device.*make room") as caught:
        sweep.run(measure=before_the_second_cell(fill))
    assert caught.value.exit_code == EXIT_NO_INFRASTRUCTURE
    (label,) = cells(disk)
    ballast.unlink()
    assert not list((disk / "outputs").rglob(".*.tmp"))
    first = cells(disk)[label].started_at, cells(disk)[label].start_id
    assert sweep.run() == EXIT_OK
    assert len(cells(disk)) == 2
    assert (cells(disk)[label].started_at, cells(disk)[label].start_id) == first


def starts_nothing(job: GroupJob) -> Iterator[Event]:
    raise AssertionError("nothing may be started")
    yield


@pytest.mark.skipif(os.geteuid() != 0, reason="changing a mount needs root")
@pytest.mark.parametrize("used_before", [False, True], ids=["new", "used before"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_starts(
    disk: Path, sweep: SimulatedSweep, used_before: bool
) -> None:
    if used_before:
        sweep.run("dataset=echo")
    before = cells(disk)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(UnwritableOutputsError) as caught:
        sweep.run(measure=starts_nothing)
    assert caught.value.exit_code == EXIT_BAD_CONFIG
    assert str(caught.value) == (
        f"{disk}/outputs/smoke: results cannot be written here (Read-only file system);"
        " choose another place with output_dir=FOLDER"
    )
    assert cells(disk) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="changing a mount needs root")
def test_a_disk_that_becomes_read_only_ends_the_sweep_and_what_was_durable_stays(
    disk: Path, sweep: SimulatedSweep
) -> None:
    place = disk / "outputs" / "smoke" / "cells"
    change = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
    with pytest.raises(WriteError, match=r"Read-only file system.*rights"):
        sweep.run(measure=before_the_second_cell(["sh", "-c", change]))
    subprocess.run(["umount", str(place)], check=True)
    assert len(cells(disk)) == 1
    assert sweep.run() == EXIT_OK
    assert len(cells(disk)) == 2
