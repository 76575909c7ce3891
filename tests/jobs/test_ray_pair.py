"""A real pair of Ray nodes, each in a network of its own, joined by one cable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.jobs.tools import CLUSTER, private_token, run, tool

A, B = f"spark-a-{os.getpid()}", f"spark-b-{os.getpid()}"
HEAD, WORKER = "192.168.100.10", "192.168.100.11"
# Run inside the pair: what each node is, and what a task of full weight meets on it.
PROGRAM = """
import json, os, sys, time
import ray

ray.init(address=sys.argv[1], log_to_driver=False)
deadline = time.monotonic() + 120
while sum(n["Alive"] for n in ray.nodes()) < 2 and time.monotonic() < deadline:
    time.sleep(1)

@ray.remote(num_cpus=0, num_gpus=1, resources={"machine": 1}, max_retries=0)
def met(seconds):
    time.sleep(seconds)
    names = ("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    return {"nice": os.nice(0), **{name: os.environ[name] for name in names}}

print(json.dumps(ray.get([met.remote(5), met.remote(5)], timeout=120)))
"""


@pytest.fixture
def sparks() -> Iterator[None]:
    """Two network namespaces with a cable between them, whose ends have different names."""
    ip = tool("ip")
    tool("ss")
    commands = [
        f"netns add {A}",
        f"netns add {B}",
        f"link add cx-a netns {A} type veth peer name cx-b netns {B}",
        *(f"-n {spark} link set lo up" for spark in (A, B)),
        f"-n {A} link set cx-a up",
        f"-n {B} link set cx-b up",
        f"-n {A} addr add {HEAD}/24 dev cx-a",
        f"-n {B} addr add {WORKER}/24 dev cx-b",
    ]
    try:
        for command in commands:
            if run(ip, *command.split()).returncode:
                pytest.skip("this user may not make network namespaces")
        yield
    finally:
        for name in (A, B):
            run(ip, "netns", "del", name)


class Inside:
    """Commands inside the Sparks, each with a log; all they started ends with the test."""

    def __init__(self, folder: Path, ray: str) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "HEAD_ADDRESS": HEAD,
            "OBJECT_STORE_BYTES": "100000000",
            "RAY": ray,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(private_token(folder)),
            # Beside other tests Ray's own processes take long to start.
            "RAY_raylet_start_wait_time_s": "150",
            "RAY_agent_register_timeout_ms": "150000",
        }

    def start(self, spark: str, *command: str, **more: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", spark, *command],
                env={**self._environment, **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        return (self._folder / f"{self._started.index(process)}.log").read_text()

    def end(self) -> None:
        for process in self._started:
            for left in session(process.pid):
                os.kill(left, signal.SIGKILL)
            process.wait()


@pytest.fixture
def inside(sparks: None, tmp_path: Path) -> Iterator[Inside]:
    commands = Inside(tmp_path, tool("ray"))
    yield commands
    commands.end()


@pytest.fixture
def short() -> Iterator[str]:
    """A folder of a short name, as Ray's sockets need it."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


def session(leader: int) -> list[int]:
    """The processes of a session that are not zombies."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.5)
    return condition()


@pytest.mark.cluster
def test_two_sparks_join_over_their_cable_and_leave_nothing(
    inside: Inside, short: str, tmp_path: Path
) -> None:
    node = str(CLUSTER / "ray-node")
    head = inside.start(A, node, "head", "--block", f"--temp-dir={short}")
    assert wait_until(lambda: "runtime started" in inside.said(head), 180), inside.said(head)
    worker = inside.start(B, node, "worker", "--block")

    asked = inside.start(A, sys.executable, "-c", PROGRAM, f"{HEAD}:6379")
    assert asked.wait(timeout=300) == 0, inside.said(asked) + inside.said(worker)
    met = json.loads(inside.said(asked).splitlines()[-1])
    assert sorted(met, key=lambda node: str(node["VLLM_HOST_IP"])) == [
        {"nice": 0, "VLLM_HOST_IP": ip, "NCCL_SOCKET_IFNAME": cx, "GLOO_SOCKET_IFNAME": cx}
        for ip, cx in ((HEAD, "cx-a"), (WORKER, "cx-b"))
    ]

    listening = run("ip", "netns", "exec", A, "ss", "-Hltn", "sport = :8265").stdout
    assert "127.0.0.1:8265" in listening
    assert f"{HEAD}:8265" not in listening

    (tmp_path / "wrong").write_text("1" * 32)
    wrong = {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "wrong")}
    refused = inside.start(A, sys.executable, "-c", PROGRAM, f"{HEAD}:6379", **wrong)
    assert refused.wait(timeout=120) != 0

    for process in (worker, head):
        process.terminate()
    assert wait_until(lambda: not session(worker.pid) + session(head.pid), 90)
