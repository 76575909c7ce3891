"""Real drivers and their guards: what a driver started does not outlive it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from pipeline.execution.guard import guarded
from pipeline.execution.leftovers import end, mark_of, marked_by, of_mark

# The child starts one that has neither mark nor, once the child is gone, a parent that has.
CHILD = ["sh", "-c", "env -i sleep 60 & echo $!; wait"]
GUARDED = (
    "import subprocess, sys, time; from pipeline.execution.guard import guarded\n"
    "with guarded() as guard:\n"
    f"    child = subprocess.Popen({CHILD}, start_new_session=True, stdout=subprocess.PIPE)\n"
    "    bare = int(child.stdout.readline())\n"
    "    guard.note()\n"
    "    print(child.pid, bare, flush=True)\n"
    "    time.sleep(float(sys.argv[1]))"
)


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", GUARDED, str(request.param)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.communicate()


def started_by(driver: subprocess.Popen[bytes]) -> tuple[psutil.Process, psutil.Process]:
    assert driver.stdout is not None
    child, bare = map(int, driver.stdout.readline().split())
    return psutil.Process(child), psutil.Process(bare)


@pytest.mark.parametrize("driver", [0.0, 60.0], indirect=True, ids=["ended", "killed"])
def test_what_a_driver_started_goes_with_it(
    driver: subprocess.Popen[bytes], request: pytest.FixtureRequest
) -> None:
    child, bare = started_by(driver)
    owner = mark_of(driver.pid)
    killed = "killed" in request.node.name
    if killed:
        driver.kill()
    _, said = driver.communicate(timeout=15)
    _, alive = psutil.wait_procs([child, bare], timeout=15)
    assert not alive
    assert marked_by(owner) == []
    assert (b"and the same command goes on" in said) == killed


@pytest.mark.parametrize("driver", [60.0], indirect=True)
def test_what_lost_its_mark_and_its_parent_before_the_driver_was_killed_goes_too(
    driver: subprocess.Popen[bytes],
) -> None:
    child, bare = started_by(driver)
    child.kill()
    driver.kill()
    _, alive = psutil.wait_procs([bare], timeout=15)
    assert not alive


AGENT = "env -i bash -c 'exec -a ray::DashboardAgent sleep 60' & echo $!; wait"
CUT_SHORT = (
    "import subprocess, sys, time; from pipeline.execution.guard import guarded\n"
    "with guarded():\n"
    f"    child = subprocess.Popen(['bash', '-c', {AGENT!r}], stdout=subprocess.PIPE)\n"
    "    bare = int(child.stdout.readline())\n"
    "    print(child.pid, bare, flush=True)\n"
    "    time.sleep(60)"
)


def test_an_agent_whose_raylet_ended_before_anybody_was_told_of_it_goes_with_the_driver() -> None:
    """Ray ends a driver whose raylet is killed while it starts."""
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", CUT_SHORT], stdout=subprocess.PIPE, start_new_session=True
        )
        for _ in range(2)
    ]
    (child, bare), (others, anothers) = map(started_by, drivers)
    time.sleep(0.5)
    child.kill()
    others.kill()
    drivers[0].kill()
    _, alive = psutil.wait_procs([bare], timeout=15)
    assert not alive
    assert anothers.is_running()
    drivers[1].kill()
    _, alive = psutil.wait_procs([anothers], timeout=15)
    assert not alive
    for driver in drivers:
        driver.communicate()


def test_a_driver_ends_what_lost_its_mark_and_its_parent_before_it_starts_anew() -> None:
    with guarded() as guard, subprocess.Popen(CHILD, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        bare = psutil.Process(int(child.stdout.readline()))
        guard.note()
        child.kill()
        child.wait()
        assert bare.is_running()
        guard.end()
        assert not bare.is_running()


def test_a_guard_that_was_killed_does_not_keep_its_driver_from_ending_what_it_started() -> None:
    with guarded() as guard:
        child = subprocess.Popen(["sleep", "60"])
        started = psutil.Process(child.pid)
        end(p for p in psutil.Process().children() if "pipeline.execution.guard" in p.cmdline())
        guard.note()
    assert not started.is_running()
    child.wait()


def test_a_mark_names_a_process_only_while_it_runs() -> None:
    process = subprocess.Popen(["sleep", "60"])
    mark = mark_of(process.pid)
    assert of_mark(mark) == psutil.Process(process.pid)
    pid, began, namespace = mark.split(".")
    assert of_mark(f"{pid}.{int(began) - 1}.{namespace}") is None
    process.kill()
    process.wait()
    assert of_mark(mark) is None
    assert of_mark("no mark") is None
