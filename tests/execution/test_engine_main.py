"""The engine process's own watch over its engine core, on processes without vLLM."""

import signal
import subprocess
import sys

import pytest

# As vLLM's synchronous client does, it waits for ever for what only the core could say.
WAITING = """
import multiprocessing, os, queue, signal, sys, threading, time
from pipeline.execution.engine_main import follow_cores

def core(watched):
    watched.wait()
    time.sleep(1)
    {core}

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    watched = multiprocessing.Event()
    if {cores}:
        multiprocessing.Process(target=core, args=(watched,)).start()
    threading.Thread(target=follow_cores, daemon=True).start()
    watched.set()
    try:
        queue.Queue().get(timeout=12)
    except queue.Empty:
        sys.exit(77)
"""


def ended(core: str, cores: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WAITING.format(core=core, cores=cores)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("core", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("sys.exit(3)", 3),
        ("pass", 1),
    ],
    ids=["killed", "gave up", "went away"],
)
def test_an_engine_process_ends_as_its_core_ended(core: str, code: int) -> None:
    done = ended(core)
    assert done.returncode == code
    assert "the engine core ended" in done.stderr


def test_an_engine_without_a_core_in_another_process_is_left_alone() -> None:
    assert ended("pass", cores=0).returncode == 77
