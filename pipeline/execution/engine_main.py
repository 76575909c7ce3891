"""The engine process: `python -m pipeline.execution.engine_main`, started by `EngineProcess`.

It reads commands from standard input and answers on what was standard output; vLLM's own output
goes to standard error, the group's log. When standard input closes, whoever started this process is
gone: the whole process group ends then, since vLLM's engine core does not notice by itself. That is
watched before vLLM is imported, which takes many seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import threading
import time
import traceback
from multiprocessing.connection import wait
from typing import IO, TYPE_CHECKING

from pipeline.execution.leftovers import die_with_parent, end_own_group, note_self
from pipeline.execution.messages import (
    COMMAND,
    EngineStart,
    PassDone,
    Problem,
    Progress,
    Ready,
    Scored,
    ScoreJob,
)
from pipeline.spec import Record

if TYPE_CHECKING:
    from pipeline.execution.engine import Engine

_TELL_EVERY_S = 1.0
# How long vLLM has to say why its core ended, where it knows.
_OWN_WORDS_S, _OWN_WORDS_AT_START_S = 3.0, 10.0
# What vLLM calls its core; other processes that it starts on the way come and go.
_CORE = "EngineCore"


class Replies:
    """The way back to the worker: one record a line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._last = 0.0

    def send(self, record: Record) -> None:
        """Write one reply."""
        self._file.write(record.model_dump_json() + "\n")
        self._file.flush()
        self._last = time.monotonic()

    def progress(self, tokens: int) -> None:
        """Say that tokens come out, at most once a second."""
        if time.monotonic() - self._last >= _TELL_EVERY_S:
            self.send(Progress(tokens=tokens))


def main() -> None:
    """Serve one worker until it closes the pipe."""
    replies = Replies(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    commands: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_follow_stdin, args=(commands,), daemon=True).start()
    engine: Engine | None = None
    try:
        while True:
            engine = _obey(commands.get(), engine, replies)
    except Exception as error:  # noqa: BLE001 - whatever vLLM raises is logged and told
        # Into the log first: the worker ends this process as soon as it is told.
        traceback.print_exc()
        sys.stderr.flush()
        replies.send(Problem(error_type=type(error).__name__, message=str(error)))
        sys.exit(1)


def _obey(line: str, engine: Engine | None, replies: Replies) -> Engine:
    from pipeline.execution.engine import Engine

    command = COMMAND.validate_json(line)
    if isinstance(command, EngineStart):
        ready = threading.Event()
        threading.Thread(target=follow_cores, args=(ready,), daemon=True).start()
        engine = Engine(command)
        ready.set()
        replies.send(Ready(vllm_version=engine.version))
        return engine
    assert engine is not None, "work was asked for before the engine was started"
    if isinstance(command, ScoreJob):
        replies.send(Scored(outputs=engine.score(command, replies.progress)))
    else:
        replies.send(PassDone(record=engine.run(command, replies.progress)))
    return engine


def follow_cores(ready: threading.Event) -> None:
    """End this process as its engine core ended, where that has a process of its own.

    vLLM's synchronous client would wait for the core's answer for ever: what watches the core
    closes the client's sockets and wakes nobody who waits at them.

    Args:
        ready: set when the engine has started, and with it all of its cores.
    """
    while not (cores := _cores()):
        if ready.wait(0.2) and not _cores():
            return
    wait([core.sentinel for core in cores])
    time.sleep(_OWN_WORDS_S if ready.is_set() else _OWN_WORDS_AT_START_S)
    code = next((core.exitcode for core in cores if core.exitcode), 1)
    sys.stderr.write(f"the engine core ended (exit code {code})\n")
    sys.stderr.flush()
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def _cores() -> list[multiprocessing.process.BaseProcess]:
    return [p for p in multiprocessing.active_children() if p.name.startswith(_CORE)]


def _follow_stdin(commands: queue.Queue[str]) -> None:
    """Queue each command; when the pipe closes, end this process and all it started."""
    for line in sys.stdin:
        commands.put(line)
    end_own_group()


if __name__ == "__main__":
    note_self()
    main()
elif __name__ == "__mp_main__":
    # vLLM's core and its workers, which import this anew: they do not notice that who started them
    # is gone, and where that is killed while its worker looks elsewhere, nobody ends them.
    note_self()
    die_with_parent(freeing=True)
