"""The processes of a command under test: what runs, what may be killed, and what is nobody's."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

# In the environment of all that a command starts: its folder.
MARK = "CHAOS_UNDER_TEST"
VICTIMS = ("driver", "raylet", "worker", "measuring", "core")
TITLES, BEGAN = ("ray::", "VLLM::"), time.time()


def found(folder: Path, victim: str, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    if victim == "driver":
        return [psutil.Process(process.pid)] if process.poll() is None else []
    return [p for p in marked(folder) if is_a(victim, p)]


def is_a(victim: str, process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return {
            "raylet": process.name() == "raylet",
            "worker": line.startswith("ray::on_node"),
            "measuring": "pipeline.execution.engine_main" in line,
            "core": "EngineCore" in line,
        }[victim]
    return False


def marked(folder: Path) -> list[psutil.Process]:
    """Everything that a command in the folder has running."""
    here = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK, "")
            if process.status() != psutil.STATUS_ZOMBIE and (
                mark == str(folder) or (not mark and titled(process))
            ):
                here.append(process)
    return here


def titled(process: psutil.Process) -> bool:
    """Whether it has a title of Ray's or vLLM's and is younger than this script.

    Who sets a title may write it over its environment. So nothing else may run Ray here meanwhile,
    unless in a namespace of its own, as a container.
    """
    title = " ".join(process.cmdline()) or process.name()
    ours = Path(f"/proc/{process.pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    return process.create_time() > BEGAN and title.startswith(TITLES) and ours


def nobodys(folder: Path, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """What runs of the command outside its tree; all of it where the command has ended."""
    own: set[psutil.Process] = set()
    with suppress(psutil.Error):
        if process.poll() is None:
            driver = psutil.Process(process.pid)
            own = {driver, *driver.children(recursive=True)}
    return [p for p in marked(folder) if p not in own]


def gone_by(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while marked(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
