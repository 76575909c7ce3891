"""The script that runs a night as a Ray job, on a real Ray with its job server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SERVER, PORT = 8297, 6397

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A head node on loopback; in the folder, what the night's interpreter was asked for.

    The interpreter is a stand-in, which ends with the code that stands in the folder.
    """
    folder = tmp_path_factory.mktemp("head")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\necho "$PWD: $@" >> {folder}/asked\nexit $(cat {folder}/code)\n')
    python.chmod(0o755)
    command = [
        str(BIN / "ray"),
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
        "--num-cpus=1",
    ]
    command += ["--node-ip-address=127.0.0.1", f"--port={PORT}", "--dashboard-host=127.0.0.1"]
    command += [f"--dashboard-port={SERVER}", "--object-store-memory=100000000"]
    env = {**os.environ, "PYTHON": str(python), "RAY_AUTH_MODE": "disabled"}
    log = folder / "log"
    with log.open("wb") as file:
        node = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env)
    try:
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert node.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield folder
    finally:
        below = psutil.Process(node.pid).children(recursive=True)
        node.terminate()
        for left in psutil.wait_procs(below, 15)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        node.kill()
        node.wait(10)


def submitted(head: Path, code: int) -> subprocess.CompletedProcess[str]:
    (head / "code").write_text(str(code))
    return subprocess.run(
        [ROOT / "jobs" / "schedules" / "ray-submit", "demo"],
        env={
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "CHECKOUT": str(ROOT),
            "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{SERVER}",
            "RAY_AUTH_MODE": "disabled",
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_night_runs_in_the_checkout_on_the_cluster_it_was_sent_to(head: Path) -> None:
    done = submitted(head, 0)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = (head / "asked").read_text().splitlines()
    assert asked[-1] == f"{ROOT}: -m jobs.nightly suite=demo ray.address=auto"


def test_a_night_that_found_something_does_not_end_with_0(head: Path) -> None:
    done = submitted(head, 4)
    assert done.returncode != 0
    assert "exit code 4" in done.stdout + done.stderr
