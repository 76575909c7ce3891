"""The real command, real Ray and a real engine, with processes killed under it."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.test_main import Sweep

pytestmark = [
    pytest.mark.engine,
    # MLflow's own use of SQLAlchemy.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"),
]
ARGUMENTS = ("dataset=echo", "method=ngram", "sweep.axes.concurrency=[1,2]", "tracking=off")
GONE_S = 15.0


def killed(sweep: Sweep, name: str) -> psutil.Process:
    """Kill one process of the sweep that runs, by its name."""
    (found,) = [p for p in sweep.processes() if p.name() == name]
    found.kill()
    return found


def test_a_killed_driver_leaves_no_process_and_a_killed_raylet_no_cell(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    process = sweep.start(*ARGUMENTS)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[1/2]"):
            process.kill()
            break
    sent = time.monotonic()
    process.communicate(timeout=60)
    while sweep.processes() and time.monotonic() < sent + GONE_S:
        time.sleep(0.2)
    assert sweep.processes() == []
    ((label, first),) = sweep.cells().items()

    process = sweep.start(*ARGUMENTS)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("engine 1/1 starts") and "attempt" not in line:
            killed(sweep, "raylet")
    process.communicate(timeout=60)
    assert process.returncode == 0, "".join(said)
    cells = sweep.cells()
    assert cells.pop(label) == first
    ((_, second),) = cells.items()
    assert (second.status, second.attempt) == ("OK", 2)
    # Ray tells of the worker first where that dies with its raylet before the raylet is missed.
    assert [f.kind for f in second.earlier] in (["RAYLET_LOST"], ["WORKER_LOST"])
    assert f"{second.earlier[0].kind}, to be tried once more" in " ".join("".join(said).split())
    assert sweep.processes() == []
