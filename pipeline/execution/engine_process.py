"""The worker's handle on one engine process: start it, give it passes, end all of it.

The process leads a session of its own, so that everything vLLM spawns below it can be ended
together. Waiting for an answer always watches two things: the process (is it dead?) and the clock
(the start deadline while it loads, the token deadline while it runs).
"""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import InfrastructureError
from pipeline.execution.leftovers import FOLDER, group, mark_of, noted_pids, temporary_folder
from pipeline.execution.leftovers import MARK as MARK
from pipeline.execution.messages import (
    REPLY,
    Answer,
    EngineStart,
    Output,
    PassDone,
    PassJob,
    Problem,
    Progress,
    Ready,
    Scored,
    ScoreJob,
)
from pipeline.execution.shared_memory import free_mapped, free_named
from pipeline.plan import EngineConfig
from pipeline.records import PassRecord, RescoredOutput
from pipeline.spec import Record

_END_S = 5.0
# What a socket's path may have, and what vLLM and multiprocessing add to their folder for one.
_LONGEST_PATH, _SOCKET_NAME = 107, 37


class EngineError(InfrastructureError):
    """An engine that did not start, stopped, or stopped answering."""

    kind = "ENGINE"


class StartTimeoutError(EngineError):
    """Loading took longer than the platform's start deadline."""

    kind = "START_TIMEOUT"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the engine was not ready after {seconds:.0f} s",
            remedy="see its log; raise platform.start_deadline_s if the model needs longer",
        )


class HangError(EngineError):
    """No token came out for longer than the platform's token deadline."""

    kind = "HANG"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the engine produced no token for {seconds:.0f} s",
            remedy="see its log; raise platform.token_deadline_s if one step may take longer",
        )


class CrashError(EngineError):
    """The process ended by itself."""

    def __init__(self, code: int, *, starting: bool) -> None:
        self.kind = "CRASH_IN_START" if starting else "CRASH"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        when = "while it started" if starting else "in the middle of a pass"
        super().__init__(f"the engine process ended {when} ({how})", remedy="see its log")


class RefusedError(EngineError):
    """vLLM raised an error of its own."""

    def __init__(self, problem: Problem, *, starting: bool) -> None:
        self.kind = "REFUSED" if starting else "CRASH"
        lines = problem.message.strip().splitlines() or [""]
        super().__init__(f"vLLM raised {problem.error_type}: {lines[0][:300]}")


class EngineProcess:
    """One engine, from its start to the end of its last process.

    Args:
        config: what to load, with this node's paths.
        log: the file that vLLM's own output is appended to.

    Raises:
        EngineError: it did not get ready; nothing of it is left.
    """

    def __init__(self, config: EngineConfig, log: Path) -> None:
        self._config = config
        self.preloaded = find_libraries(config.preload)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._folder = temporary_folder()
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.execution.engine_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=engine_environment(config, self.preloaded, self._folder.name),
                start_new_session=True,
            )
        self._buffer = b""
        try:
            reply = self._asked(_start(config), config.start_deadline_s, starting=True)
        except BaseException:
            self.stop()
            raise
        assert isinstance(reply, Ready)
        self.vllm_version = reply.vllm_version

    def run(self, job: PassJob) -> PassRecord:
        """Run one pass.

        Raises:
            EngineError: the engine died, hung or raised; the process is not usable afterwards.
        """
        reply = self._asked(job, self._config.token_deadline_s)
        assert isinstance(reply, PassDone)
        return reply.record

    def score(self, outputs: Sequence[Output]) -> tuple[RescoredOutput, ...]:
        """How this engine scores each token of some outputs; asked of one without a drafter.

        Raises:
            EngineError: as `run` does.
        """
        reply = self._asked(ScoreJob(outputs=tuple(outputs)), self._config.token_deadline_s)
        assert isinstance(reply, Scored)
        return reply.outputs

    def stop(self) -> None:
        """End the process, all in its session, its memory and files; safe to call twice."""
        number = self._process.pid
        free_mapped(group(number))
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        # Closing its standard input already told it to end; a signal each is for what is stuck.
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(number, sign)
            if self._gone(number, _END_S):
                # Of those that were killed before, too.
                free_named([number, *noted_pids(Path(self._folder.name))])
                self._folder.cleanup()
                return
        raise EngineError(f"process group {number} of an engine could not be ended")

    def _gone(self, number: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # Asked first, which reaps it: an ended child stays in its group until then.
            if self._process.poll() is not None and not _is_alive(number):
                return True
            time.sleep(0.02)
        return False

    def _asked(self, command: Record, seconds: float, *, starting: bool = False) -> Answer:
        """The answer to a command."""
        if not self._send(command.model_dump_json().encode() + b"\n", seconds):
            raise StartTimeoutError(seconds) if starting else HangError(seconds)
        return self._answer(seconds, starting=starting)

    def _send(self, line: bytes, seconds: float) -> bool:
        """Whether the process took a line, which it does not where it is stuck."""
        assert self._process.stdin is not None
        pipe, deadline = self._process.stdin.fileno(), time.monotonic() + seconds
        os.set_blocking(pipe, False)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_WRITE)
            while line:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return False
                try:
                    line = line[os.write(pipe, line) :]
                except BrokenPipeError:
                    break  # it died; the wait for its answer says how
        return True

    def _answer(self, seconds: float, *, starting: bool) -> Answer:
        """Wait for the answer to a command; every new token extends the deadline."""
        deadline, tokens = time.monotonic() + seconds, 0
        while True:
            line = self._line(deadline)
            if line is None:
                raise StartTimeoutError(seconds) if starting else HangError(seconds)
            if line == b"":
                raise CrashError(self._exit_code(), starting=starting)
            reply = REPLY.validate_json(line)
            if isinstance(reply, Problem):
                raise RefusedError(reply, starting=starting)
            if not isinstance(reply, Progress):
                return reply
            if reply.tokens > tokens:
                deadline, tokens = time.monotonic() + seconds, reply.tokens

    def _exit_code(self) -> int:
        """How the process ended; one that closed its end and lives on is as good as killed."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def _line(self, deadline: float) -> bytes | None:
        """The next line; empty when the process closed its end, None when the deadline passed."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    return b""
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def _start(config: EngineConfig) -> EngineStart:
    return EngineStart(
        checkpoint=config.checkpoint,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
        speculative=config.speculative,
        engine_args=config.engine_args,
    )


def engine_environment(
    config: EngineConfig, preloaded: tuple[str, ...], folder: str | None = None
) -> dict[str, str]:
    """The environment an engine process starts with.

    Args:
        folder: what takes its sockets and other temporary files, and goes with it.
    """
    env = dict(os.environ)
    if folder is not None:
        env[FOLDER] = folder
        if len(folder) + _SOCKET_NAME <= _LONGEST_PATH:
            # What torch compiled is to outlast the engine.
            kept = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}"
            env.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kept))
            env["TMPDIR"] = folder
    # Ray gives its workers one OpenMP thread; the engine is to have the whole machine.
    env.pop("OMP_NUM_THREADS", None)
    env["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if config.engine_core == "own_process" else "0"
    env["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    env["VLLM_NO_USAGE_STATS"] = env["DO_NOT_TRACK"] = "1"
    env[MARK] = mark_of(os.getpid())
    if preloaded:
        env["LD_PRELOAD"] = ":".join([*preloaded, env.get("LD_PRELOAD", "")]).rstrip(":")
    return {**env, **config.env}


def find_libraries(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the libraries that exist in the environment's lib folder or for the linker."""
    found = []
    for name in names:
        own = Path(sys.prefix) / "lib" / name
        stem = name.removeprefix("lib").partition(".so")[0]
        path = str(own) if own.exists() else ctypes.util.find_library(stem)
        if path is not None:
            found.append(path)
    return tuple(found)


def _is_alive(number: int) -> bool:
    """Whether any process of a group still runs; all are looked at only where one may."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return bool(group(number))
