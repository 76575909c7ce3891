"""Ray nodes with addresses and host names of their own on one machine, by network namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

RAY = str(Path(sys.executable).with_name("ray"))
BRIDGE, HEAD, PORT = "specdec0", "10.77.0.1", 6399
ADDRESS = f"{HEAD}:{PORT}"


def why_not() -> str:
    """Why this machine cannot hold several nodes, or nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need ip and unshare"
    made = subprocess.run(["ip", "link", "add", "specdecp", "type", "bridge"], capture_output=True)
    subprocess.run(["ip", "link", "del", "specdecp"], capture_output=True, check=False)
    return "" if made.returncode == 0 else f"no network bridge ({made.stderr.decode().strip()})"


def command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


class Machines:
    """A head on this machine's own side of a bridge, and nodes behind it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.clear()
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "addr", "add", f"{HEAD}/24", "dev", BRIDGE)
        command("ip", "link", "set", BRIDGE, "up")
        head = ("--head", "--include-dashboard=false", f"--port={PORT}")
        self._start("head", "spark0", *head, f"--node-ip-address={HEAD}")

    def add(self, number: int) -> str:
        """Start a node and wait until it is up; its host's name."""
        name, space, outside = f"spark{number}", f"specdec{number}", f"specdec-v{number}"
        address = f"10.77.0.{number + 1}"
        command("ip", "netns", "add", space)
        command("ip", "link", "add", outside, "type", "veth", "peer", "eth0", "netns", space)
        command("ip", "link", "set", outside, "master", BRIDGE, "up")
        inside = ("ip", "netns", "exec", space)
        command(*inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        command(*inside, "ip", "link", "set", "eth0", "up")
        command(*inside, "ip", "link", "set", "lo", "up")
        self._start(
            name, name, f"--address={ADDRESS}", f"--node-ip-address={address}", before=inside
        )
        return name

    def kill(self, number: int) -> None:
        """End every process of a node at once, as a power failure would."""
        space = f"specdec{number}"
        pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, check=True)
        for pid in pids.stdout.split():
            subprocess.run(["kill", "-9", pid.decode()], capture_output=True, check=False)
        self._nodes.pop(f"spark{number}").wait(10)

    def stop(self) -> None:
        """End every node."""
        below = [child for node in self._nodes.values() for child in _children(node)]
        for node in self._nodes.values():
            node.terminate()
        for left in psutil.wait_procs(below, 10)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        for node in self._nodes.values():
            node.kill()
            node.wait(10)
        self.clear()

    def clear(self) -> None:
        """Remove the network of this or an earlier run."""
        for number in range(1, 6):
            for kind, name in (("link", f"specdec-v{number}"), ("netns", f"specdec{number}")):
                subprocess.run(["ip", kind, "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)

    def _start(self, key: str, host: str, *options: str, before: tuple[str, ...] = ()) -> None:
        ray = [RAY, "start", "--block", "--num-cpus=1", "--num-gpus=1", "--disable-usage-stats"]
        ray += ['--resources={"machine": 1}', "--object-store-memory=100000000", *options]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh", *ray]
        log = self._folder / f"{host}.log"
        with log.open("wb") as file:
            # Only this machine reaches the bridge, and a driver that has imported Ray cannot turn
            # to tokens.
            env = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_memory_monitor_refresh_ms": "0"}
            self._nodes[key] = subprocess.Popen(
                [*before, *named], stdout=file, stderr=subprocess.STDOUT, env=env
            )
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            if self._nodes[key].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.2)


def _children(node: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(node.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
