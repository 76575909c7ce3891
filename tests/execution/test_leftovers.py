"""Real processes with and without a mark: only those that serve nobody are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.execution import leftovers
from pipeline.execution.leftovers import MARK, SWEEP_MARK, end, mark_of, orphans

Start = Callable[..., subprocess.Popen[bytes]]
HOLDS_MEMORY = (
    "import sys, time; from multiprocessing import shared_memory, resource_tracker;"
    "s = shared_memory.SharedMemory(name=sys.argv[1], create=True, size=4096);"
    "resource_tracker.unregister(s._name, 'shared_memory'); print('ready', flush=True);"
    "time.sleep(60)"
)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def marked(*command: str, **marks: str) -> subprocess.Popen[bytes]:
        program = command or ("sleep", "60")
        process = subprocess.Popen(program, env={**os.environ, **marks}, stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield marked
    for process in started:
        process.kill()
        process.communicate()


def gone() -> str:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return str(process.pid)


def namespace() -> str:
    return mark_of(os.getpid()).rpartition(".")[2]


def found(*processes: subprocess.Popen[bytes]) -> list[bool]:
    time.sleep(0.2)  # until the new programs stand in /proc with their environment
    serving_nobody = {p.pid for p in orphans()}
    return [p.pid in serving_nobody for p in processes]


def test_an_engine_whose_worker_is_gone_is_found_and_one_whose_worker_lives_is_not(
    start: Start,
) -> None:
    left = start(**{MARK: f"{gone()}.123.{namespace()}"})
    at_work, anybodys = start(**{MARK: mark_of(os.getpid())}), start()
    assert found(left, at_work, anybodys) == [True, False, False]


@pytest.mark.parametrize("mark", [MARK, SWEEP_MARK])
def test_what_a_leftover_started_is_one_too_whatever_became_of_its_own_mark(
    start: Start, mark: str
) -> None:
    """As Ray's agents, which write their title over their environment."""
    owner = f"{gone()}.123.{namespace()}"
    left = start("sh", "-c", "env -i sleep 60 & echo $!; wait", **{mark: owner})
    assert left.stdout is not None
    bare = psutil.Process(int(left.stdout.readline()))
    time.sleep(0.2)
    assert mark not in bare.environ()
    assert bare in orphans()
    assert (bare in leftovers.marked_by(owner)) == (mark == SWEEP_MARK)
    end(orphans())
    assert not bare.is_running()


# A process without a mark, and whose parent is gone, that wrote itself down, with names of its own.
NOTES_ITSELF = """
import os, sys
from pipeline.execution.leftovers import note_self
if os.fork() == 0:
    note_self()
    for kept in sys.argv[1:]:
        open(f"/dev/shm/{kept.format(os.getpid())}", "w").close()
    print(os.getpid(), flush=True)
    os.close(1)
    os.execve("/bin/sleep", ["sleep", "60"], {})
"""
KEPT = ("__KMP_REGISTERED_LIB_{}_0", "sem.loky-{}-x")
MAKES_AT_ITS_END = """
import os, signal, sys, time
def end(*_):
    open(f"/dev/shm/__KMP_REGISTERED_LIB_{os.getpid()}_0", "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""
MADE_BY_A_KILLED_ONE = """
import os, signal, sys
from multiprocessing import resource_tracker, shared_memory
from pipeline.execution.leftovers import end_own_group
resource_tracker.ensure_running()
if (child := os.fork()) == 0:
    shared_memory.SharedMemory(name=sys.argv[1], create=True, size=4096)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
assert os.path.exists(f"/dev/shm/{sys.argv[1]}")
print(resource_tracker._resource_tracker._pid, flush=True)
end_own_group()
"""


def noting(folder: Path) -> int:
    """Start such a process of an engine with that folder; its number."""
    command = [sys.executable, "-c", NOTES_ITSELF, *sorted(KEPT)]
    env = {**os.environ, leftovers.FOLDER: str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as engine:
        assert engine.stdout is not None
        return int(engine.stdout.readline())


def kill(pid: int) -> None:
    """Kill a process that is no child of this one, and wait for its end."""
    os.kill(pid, signal.SIGKILL)
    while leftovers._started(pid) is not None:
        time.sleep(0.05)


def named_by(pid: int) -> list[str]:
    return sorted(p.name for p in Path("/dev/shm").iterdir() if p.name in kept_by(pid))


def kept_by(pid: int) -> list[str]:
    return sorted(name.format(pid) for name in KEPT)


def test_what_wrote_itself_down_is_ended_though_it_lost_mark_and_parent(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As vLLM's engine core, which writes its title over its environment."""
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    folders = [tmp_path / f"spec-decode-{owner}-x" for owner in (f"{gone()}.123.{namespace()}", "")]
    folders[1] = tmp_path / f"spec-decode-{mark_of(os.getpid())}-x"
    bare = []
    for folder in folders:
        folder.mkdir()
        bare.append(psutil.Process(noting(folder)))
        assert named_by(bare[-1].pid) == kept_by(bare[-1].pid)
    assert not set(bare) & set(orphans())
    assert [str(bare[0].pid) in name for name in leftovers.clear()] == [True]
    assert [p.is_running() for p in bare] == [False, True]
    assert [named_by(p.pid) for p in bare] == [[], kept_by(bare[1].pid)]
    end(bare)
    assert named_by(bare[1].pid) == []


def test_what_a_killed_process_left_under_its_number_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"spec-decode-{gone()}.123.{namespace()}-x"
    folder.mkdir()
    pid = noting(folder)
    kill(pid)
    assert named_by(pid) == kept_by(pid)
    assert leftovers.clear() == ()
    assert named_by(pid) == []


def test_what_a_process_makes_on_its_way_to_its_end_is_freed_too(start: Start) -> None:
    left = start(sys.executable, "-c", MAKES_AT_ITS_END)
    assert left.stdout is not None
    left.stdout.readline()
    end([psutil.Process(left.pid)])
    assert named_by(left.pid) == []


def test_what_a_killed_process_of_a_group_had_made_goes_with_the_group(start: Start) -> None:
    """As vLLM's message queue, of which nobody has a map once core and worker were killed."""
    name = f"spec-decode-test-tracked-{os.getpid()}"
    group = subprocess.Popen(
        [sys.executable, "-c", MADE_BY_A_KILLED_ONE, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with group:
        assert group.stdout is not None
        tracker = psutil.Process(int(group.stdout.readline()))
        group.stdout.read()
    assert group.returncode == -signal.SIGKILL
    psutil.wait_procs([tracker], 10)
    assert not tracker.is_running()
    assert not (Path("/dev/shm") / name).exists()


def test_marks_of_before_that_are_a_bare_number_are_still_read(start: Start) -> None:
    left, at_work = start(**{MARK: gone()}), start(**{MARK: str(os.getpid())})
    assert found(left, at_work) == [True, False]


@pytest.mark.parametrize("mark", [MARK, SWEEP_MARK])
def test_what_belongs_to_a_container_is_let_be_since_its_numbers_mean_nothing_here(
    start: Start, mark: str
) -> None:
    theirs, ours = (start(**{mark: f"{gone()}.123.{where}"}) for where in ("1", namespace()))
    assert found(theirs, ours) == [False, True]


CONTAINED = (
    "import os, subprocess; from pipeline.execution.leftovers import SWEEP_MARK, mark_of\n"
    "sleep = ['sleep', '60']; env = {**os.environ, SWEEP_MARK: mark_of(os.getpid())}\n"
    "with subprocess.Popen(sleep, env=env): print('ready', flush=True)"
)


def test_what_a_real_namespace_of_its_own_runs_is_seen_here_and_let_be(start: Start) -> None:
    alone = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    contained = start(*alone, sys.executable, "-c", CONTAINED)
    assert contained.stdout is not None
    if not contained.stdout.readline():
        pytest.skip("a namespace of its own needs root")
    time.sleep(0.2)  # until the new program stands in /proc with its environment
    inside = psutil.Process(contained.pid).children(recursive=True)
    (theirs,) = [p for p in inside if SWEEP_MARK in p.environ()]
    assert theirs.name() == "sleep"
    assert theirs not in orphans()


def test_what_a_killed_driver_started_is_found_even_when_its_number_was_given_away(
    start: Start,
) -> None:
    me = mark_of(os.getpid())
    pid, began, where = me.split(".")
    earlier = f"{pid}.{int(began) - 1}"
    before, left = start(**{SWEEP_MARK: earlier}), start(**{SWEEP_MARK: f"{earlier}.{where}"})
    assert found(before, left, start(**{SWEEP_MARK: me})) == [True, True, False]


def test_a_leftover_is_named_and_ended_even_when_it_is_stopped(start: Start) -> None:
    left = start(**{MARK: gone()})
    time.sleep(0.2)
    left.send_signal(signal.SIGSTOP)
    (name,) = end([psutil.Process(left.pid)])
    assert name.startswith(f"process {left.pid} (sleep 60, since ")
    assert not psutil.pid_exists(left.pid)


def test_the_shared_memory_that_only_a_leftover_held_is_freed(start: Start) -> None:
    name = f"spec-decode-test-{os.getpid()}"
    left = start(sys.executable, "-c", HOLDS_MEMORY, name, **{MARK: gone()})
    assert left.stdout is not None
    assert left.stdout.readline() == b"ready\n"
    assert (Path("/dev/shm") / name).exists()
    end([psutil.Process(left.pid)])
    assert not (Path("/dev/shm") / name).exists()


READS_MEMORY = (
    "import sys, time; from multiprocessing import shared_memory, resource_tracker;"
    "s = shared_memory.SharedMemory(name=sys.argv[1]);"
    "resource_tracker.unregister(s._name, 'shared_memory'); print('ready', flush=True);"
    "time.sleep(60)"
)


def test_the_shared_memory_that_somebody_else_holds_too_stays(start: Start) -> None:
    name = f"spec-decode-test-shared-{os.getpid()}"
    left = start(sys.executable, "-c", HOLDS_MEMORY, name, **{MARK: gone()})
    assert left.stdout is not None
    left.stdout.readline()
    other = start(sys.executable, "-c", READS_MEMORY, name)
    assert other.stdout is not None
    other.stdout.readline()
    end([psutil.Process(left.pid)])
    assert (Path("/dev/shm") / name).exists()
    end([psutil.Process(other.pid)])
    assert not (Path("/dev/shm") / name).exists()


def test_the_shared_memory_of_an_engines_group_goes_when_its_worker_does(start: Start) -> None:
    name = f"spec-decode-test-group-{os.getpid()}"
    group = '"$0" -c "$1" "$2" & exec "$0" -m pipeline.execution.engine_main'
    command = ["sh", "-c", group, sys.executable, HOLDS_MEMORY, name]
    engine = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert engine.stdout is not None
    assert engine.stdout.readline() == b"ready\n"
    assert (Path("/dev/shm") / name).exists()
    engine.communicate(timeout=60)  # closes its standard input, as the end of its worker does
    assert engine.returncode == -signal.SIGKILL
    assert not (Path("/dev/shm") / name).exists()


def test_a_process_told_to_does_not_outlive_its_parent(start: Start) -> None:
    program = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time;"
        "from pipeline.execution.leftovers import die_with_parent; die_with_parent();"
        "time.sleep(60)']); print(p.pid, flush=True); import time; time.sleep(2)"
    )
    parent = start(sys.executable, "-c", program)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.wait()
    _, alive = psutil.wait_procs([child], timeout=10)
    assert not alive


def test_folders_of_killed_workers_are_removed_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    elsewhere = f"spec-decode-{gone()}.123.1-abc"
    for name in (f"{gone()}.123-abc", f"{gone()}.123.{namespace()}-abc", "another-program"):
        (tmp_path / f"spec-decode-{name}").mkdir()
    (tmp_path / elsewhere).mkdir()
    with leftovers.temporary_folder() as own:
        leftovers.clear()
        assert {p.name for p in tmp_path.iterdir()} == {
            "spec-decode-another-program",
            elsewhere,
            Path(own).name,
        }


def test_the_folder_of_a_killed_worker_stays_while_its_engine_runs_and_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folders = [tmp_path / f"spec-decode-{gone()}.123.{namespace()}-{x}" for x in "ab"]
    pids = []
    for folder in folders:
        folder.mkdir()
        pids.append(noting(folder))
    kill(pids[0])
    leftovers.remove_folders()
    assert [folder.exists() for folder in folders] == [False, True]
    assert [named_by(pid) for pid in pids] == [[], kept_by(pids[1])]
    assert leftovers.clear()
    assert not folders[1].exists()
    assert named_by(pids[1]) == []
