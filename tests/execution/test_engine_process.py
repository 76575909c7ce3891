"""What happens to the process of a real engine when things go wrong around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from pipeline.execution import engine_process
from pipeline.execution.engine_process import (
    MARK,
    CrashError,
    EngineError,
    EngineProcess,
    HangError,
    RefusedError,
    StartTimeoutError,
    engine_environment,
    find_libraries,
)
from pipeline.execution.events import Tokenised
from pipeline.execution.leftovers import FOLDER, mark_of, temporary_folder
from pipeline.execution.messages import PassJob, PromptJob, Ready
from pipeline.plan import EngineConfig
from pipeline.spec import Sampling
from tests.factories import coordinates, plan

engine = pytest.mark.engine


def marked(pid: int) -> list[int]:
    """Processes of engines that were started by a process."""
    found = []
    for process in psutil.process_iter():
        try:
            owner = process.environ().get(MARK, "").partition(".")[0]
            if owner == str(pid) and process.status() != "zombie":
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_until_gone(pid: int, seconds: float = 15.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := marked(pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


@pytest.fixture
def others() -> list[int]:
    """Engines that other tests share in this session."""
    return marked(os.getpid())


def test_the_platform_environment_wins_and_ray_s_single_thread_is_dropped(
    ngram_config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    env = engine_environment(ngram_config, ("/lib/a.so", "/lib/b.so"))
    assert "OMP_NUM_THREADS" not in env
    assert env["VLLM_CPU_KVCACHE_SPACE"] == ngram_config.env["VLLM_CPU_KVCACHE_SPACE"]
    assert env["LD_PRELOAD"].startswith("/lib/a.so:/lib/b.so")
    assert env["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert env[MARK] == mark_of(os.getpid())


class Deaf(EngineProcess):
    """An engine process that takes no command."""

    def __init__(self, config: EngineConfig) -> None:
        self._config, self._buffer = config, b""
        self._process = subprocess.Popen(
            ["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._folder = temporary_folder()


def test_an_engine_s_sockets_and_files_have_a_folder_that_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = holding(f"spec-decode-test-folder-{os.getpid()}", tmp_path, monkeypatch)
    folder = Path(psutil.Process(process._process.pid).environ()["TMPDIR"])
    (folder / "socket").touch()
    process.stop()
    assert not folder.exists()


def test_a_folder_whose_name_is_too_long_for_a_socket_is_not_given_to_an_engine(
    ngram_config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")
    # Which torch sets in the process that it is imported in.
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    for length, given in ((70, True), (71, False)):
        folder = "/tmp/".ljust(length, "x")
        env = engine_environment(ngram_config, (), folder)
        assert env["TMPDIR"] == (folder if given else "/tmp")
        assert ("TORCHINDUCTOR_CACHE_DIR" in env) == given


def test_a_command_that_a_stuck_engine_does_not_take_is_a_hang(ngram_config: EngineConfig) -> None:
    deaf = Deaf(ngram_config.model_copy(update={"token_deadline_s": 1.0}))
    prompts = tuple(
        PromptJob(prompt_id=f"p{i}", category="c", token_ids=(1000,) * 1000, max_tokens=8)
        for i in range(40)
    )
    sampling = Sampling(temperature=0.0)
    job = PassJob(repeat=0, prompts=prompts, concurrency=4, sampling=sampling)
    assert len(job.model_dump_json()) > 1 << 16  # what a pipe holds
    try:
        with pytest.raises(HangError):
            deaf.run(job)
    finally:
        deaf.stop()
    assert psutil.pid_exists(os.getpid())


def test_a_library_that_is_not_installed_is_left_out() -> None:
    assert find_libraries(("libno-such-thing.so",)) == ()
    assert find_libraries(("libc.so.6",)) == ("libc.so.6",)


# Stands in for an engine: it is ready, holds shared memory, and does not follow its input.
HOLDS_MEMORY = (
    "#!{python}\nimport time; from multiprocessing import shared_memory, resource_tracker\n"
    "s = shared_memory.SharedMemory(name='{name}', create=True, size=4096)\n"
    "resource_tracker.unregister(s._name, 'shared_memory')\n"
    "import os, pathlib; own = pathlib.Path('/dev/shm')\n"
    "(own / f'__KMP_REGISTERED_LIB_{{os.getpid()}}_0').touch()\n"
    "(own / f'sem.loky-{{os.getpid()}}-x').touch()\n"
    "print('{ready}', flush=True)\ntime.sleep(60)\n"
)


def holding(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineProcess:
    """Such an engine, with shared memory of that name."""
    program = tmp_path / "engine"
    ready = Ready(vllm_version="none").model_dump_json()
    program.write_text(HOLDS_MEMORY.format(python=sys.executable, name=name, ready=ready))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return EngineProcess(plan(coordinates()).groups[0].engine, tmp_path / "log")


def test_the_shared_memory_of_an_engine_is_freed_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"spec-decode-test-stop-{os.getpid()}"
    monkeypatch.setattr(engine_process, "_END_S", 1.0)
    process = holding(name, tmp_path, monkeypatch)
    assert (Path("/dev/shm") / name).exists()
    assert len(named_by(process._process.pid)) == 2
    process.stop()
    assert not (Path("/dev/shm") / name).exists()
    assert named_by(process._process.pid) == []


def test_what_a_killed_engine_s_libraries_left_under_its_number_goes_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"spec-decode-test-killed-{os.getpid()}"
    process = holding(name, tmp_path, monkeypatch)
    os.kill(process._process.pid, signal.SIGKILL)
    process.stop()
    # Found only where its one holder, killed a moment ago, has not ended yet.
    (Path("/dev/shm") / name).unlink(missing_ok=True)
    assert named_by(process._process.pid) == []


def test_what_a_killed_core_s_libraries_left_goes_when_its_engine_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = holding(f"spec-decode-test-core-{os.getpid()}", tmp_path, monkeypatch)
    folder = psutil.Process(process._process.pid).environ()[FOLDER]
    with subprocess.Popen(["true"]) as core:
        mark = f"{core.pid}.1.{mark_of(os.getpid()).rpartition('.')[2]}"
    (Path(folder) / "processes").write_text(f"half a li\n{mark}\n")
    (Path("/dev/shm") / f"__KMP_REGISTERED_LIB_{core.pid}_0").touch()
    process.stop()
    assert named_by(core.pid) == []


def named_by(pid: int) -> list[str]:
    return [
        path.name
        for path in Path("/dev/shm").iterdir()
        if str(pid) in path.name.split("_") or f"-{pid}-" in path.name
    ]


@engine
def test_an_engine_that_is_not_ready_in_time_is_ended(
    ngram_config: EngineConfig, tmp_path: Path, others: list[int]
) -> None:
    hasty = ngram_config.model_copy(update={"start_deadline_s": 0.5})
    with pytest.raises(StartTimeoutError, match=r"not ready after.*start_deadline_s"):
        EngineProcess(hasty, tmp_path / "log")
    assert marked(os.getpid()) == others


@engine
def test_what_vllm_refuses_is_told_in_its_own_words(
    ngram_config: EngineConfig, tmp_path: Path, others: list[int]
) -> None:
    wrong = ngram_config.model_copy(update={"engine_args": {"max_model_len": 10_000_000}})
    with pytest.raises(RefusedError, match="vLLM raised") as caught:
        EngineProcess(wrong, tmp_path / "log")
    assert caught.value.kind == "REFUSED"
    assert "Traceback" in (tmp_path / "log").read_text()
    assert marked(os.getpid()) == others


@engine
def test_a_process_that_dies_while_its_engine_loads_takes_it_along(
    ngram_config: EngineConfig, tmp_path: Path
) -> None:
    script = (
        "import sys; from pathlib import Path; from pipeline.plan import EngineConfig;"
        "from pipeline.execution.engine_process import EngineProcess;"
        "EngineProcess(EngineConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]))"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, ngram_config.model_dump_json(), str(tmp_path / "log")]
    )
    deadline = time.monotonic() + 60
    while not marked(owner.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(owner.pid)
    owner.kill()
    owner.wait()
    assert not wait_until_gone(owner.pid)


@engine
def test_an_engine_that_stops_answering_is_a_hang_and_a_killed_one_a_crash(
    ngram_config: EngineConfig, tokens: Tokenised, tmp_path: Path, others: list[int]
) -> None:
    config = ngram_config.model_copy(update={"token_deadline_s": 4.0})
    process = EngineProcess(config, tmp_path / "log")
    job = PassJob(
        repeat=0, prompts=tokens.datasets["echo"], concurrency=1, sampling=Sampling(temperature=0)
    )
    try:
        (pid,) = set(marked(os.getpid())) - set(others)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(HangError, match="no token for 4 s"):
            process.run(job)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(CrashError, match="signal 9") as caught:
            process.run(job)
        assert caught.value.kind == "CRASH"
    finally:
        process.stop()
    process.stop()  # a second time is harmless
    assert marked(os.getpid()) == others


@engine
def test_a_core_in_a_process_of_its_own_that_is_killed_amid_a_pass_is_a_crash_at_once(
    ngram_config: EngineConfig, tokens: Tokenised, tmp_path: Path
) -> None:
    config = ngram_config.model_copy(update={"engine_core": "own_process"})
    job = PassJob(
        repeat=0, prompts=tokens.datasets["echo"], concurrency=1, sampling=Sampling(temperature=0)
    )
    process = EngineProcess(config, tmp_path / "log")
    try:
        below = psutil.Process().children(recursive=True)
        (core,) = [one for one in below if "EngineCore" in " ".join(one.cmdline())]
        core.suspend()
        threading.Timer(1.0, core.kill).start()
        began = time.monotonic()
        with pytest.raises(EngineError) as caught:
            process.run(job)
        assert caught.value.kind == "CRASH"
        assert time.monotonic() - began < config.token_deadline_s / 4
    finally:
        process.stop()
