"""The script that starts a Spark's Ray node: what it asks of Ray, and what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.tools import CLUSTER, private_token, run, tool


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return private_token(tmp_path)


@pytest.fixture
def asked(tmp_path: Path, token: Path) -> Any:
    """Run the script with a `ray` that tells how it was called and in what environment."""
    teller = tmp_path / "ray"
    teller.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\nenv\n')
    teller.chmod(0o755)

    def ask(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {"RAY": str(teller), "RAY_AUTH_TOKEN_PATH": str(token), **environment}
        return run(str(CLUSTER / "ray-node"), *words, **given)

    return ask


def test_a_head_and_a_worker_are_safe_and_of_full_speed(asked: Any) -> None:
    head = asked("head", "--block", HEAD_ADDRESS="127.0.0.1").stdout.splitlines()
    worker = asked("worker", HEAD_ADDRESS="127.0.0.1", GPUS="2", PORT="7").stdout.splitlines()
    for said in (head, worker):
        assert said[0] == "start"
        assert {
            "RAY_AUTH_MODE=token",
            "RAY_memory_monitor_refresh_ms=0",
            "RAY_worker_niceness=0",
            "VLLM_HOST_IP=127.0.0.1",
            "NCCL_SOCKET_IFNAME=lo",
            "GLOO_SOCKET_IFNAME=lo",
            '--resources={"machine": 1}',
            "--object-store-memory=2000000000",
            "--node-ip-address=127.0.0.1",
        } <= set(said)
    assert {"--head", "--port=6379", "--dashboard-host=127.0.0.1", "--block"} <= set(head)
    assert {"--address=127.0.0.1:7", "--num-gpus=2"} <= set(worker)
    assert "--head" not in worker


def test_every_option_of_the_script_is_one_that_ray_has(asked: Any) -> None:
    known = run(tool("ray"), "start", "--help").stdout
    for role in ("head", "worker"):
        for word in asked(role, HEAD_ADDRESS="127.0.0.1").stdout.splitlines():
            if word.startswith("--"):
                assert f"{word.partition('=')[0]} " in known.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        ((), {}, "ray-node head|worker"),
        (("boss",), {}, "ray-node head|worker"),
        (("head",), {"HEAD_ADDRESS": ""}, "HEAD_ADDRESS is not set"),
        (("head",), {"HEAD_ADDRESS": "203.0.113.7"}, "no interface of this machine has"),
        (("head",), {"RAY_AUTH_TOKEN_PATH": "/no/token"}, "there is no token in /no/token"),
    ],
    ids=["no role", "no such role", "no address", "another's address", "no token"],
)
def test_what_would_not_work_is_refused_in_a_sentence(
    asked: Any, words: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    done = asked(*words, **{"HEAD_ADDRESS": "127.0.0.1", **environment})
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stdout == ""


def test_a_token_that_others_may_read_is_refused(asked: Any, token: Path) -> None:
    token.chmod(0o644)
    done = asked("head", HEAD_ADDRESS="127.0.0.1")
    assert done.returncode == 2
    assert f"chmod 600 {token}" in done.stderr


def test_a_worker_does_not_join_through_a_router(asked: Any) -> None:
    """An address of documentation: nothing is sent to it, the kernel is asked for its route."""
    route = run(tool("ip"), "-o", "-4", "route", "get", "203.0.113.7")
    if " via " not in route.stdout:
        pytest.skip("this machine has no default route")
    done = asked("worker", HEAD_ADDRESS="203.0.113.7")
    assert done.returncode == 2
    assert "leads through a router" in done.stderr
