"""The engine process's own watch over its engine core, on processes without vLLM."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
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
    watched, ready = multiprocessing.Event(), threading.Event()
    threading.Thread(target=follow_cores, args=(ready,), daemon=True).start()
    multiprocessing.Process(target=int).start()  # one that vLLM asks something of on the way
    time.sleep(0.5)
    if {cores}:
        multiprocessing.Process(target=core, args=(watched,), name="EngineCore").start()
    if {ready}:
        ready.set()
    watched.set()
    try:
        queue.Queue().get(timeout=20)
    except queue.Empty:
        sys.exit(77)
"""


def ended(core: str, cores: int = 1, ready: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WAITING.format(core=core, cores=cores, ready=ready)],
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


def test_an_engine_process_whose_core_ends_before_the_engine_is_ready_ends_too() -> None:
    done = ended("os.kill(os.getpid(), signal.SIGKILL)", ready=False)
    assert done.returncode == -signal.SIGKILL


# As multiprocessing starts a core: the main module is imported anew under another name.
CORE = """
import multiprocessing, os, runpy, sys, time

def core(told):
    told.send(os.getpid())
    time.sleep(60)

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    hears, tells = multiprocessing.Pipe()
    multiprocessing.Process(target=core, args=(tells,)).start()
    print(hears.recv(), flush=True)
    time.sleep(60)
elif __name__ == "__mp_main__":
    runpy.run_module("pipeline.execution.engine_main", run_name="__mp_main__")
"""


def test_an_engine_core_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = tmp_path / "engine.py"
    program.write_text(CORE)
    owner = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    core = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    gone, _ = psutil.wait_procs([core], timeout=10)
    assert gone == [core]


def test_an_engine_without_a_core_in_another_process_is_left_alone() -> None:
    assert ended("pass", cores=0).returncode == 77
