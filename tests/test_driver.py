"""What a start writes of what its groups tell: everything is real but the groups themselves."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from pipeline.__main__ import main
from pipeline.driver import Driver
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_NO_INFRASTRUCTURE, EXIT_OK
from pipeline.execution import host, leftovers, scheduler
from pipeline.execution.events import CellDone, Event, GroupJob
from pipeline.execution.host import MachineBusyError
from pipeline.execution.runner import Measure
from pipeline.locks import held
from pipeline.outputs import Outputs
from pipeline.tracking import Tracker
from tests.execution.simulated import simulated_fault, simulated_group
from tests.paired import noting
from tests.sweeps import SimulatedSweep

BRACKETED = "platform.pairing=bracketed"


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedSweep:
    return SimulatedSweep(monkeypatch, tmp_path / "outputs", "tracking=off")


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "outputs", "smoke")


def remembering(jobs: list[GroupJob]) -> Measure:
    return noting(jobs, simulated_group)


def test_where_engines_fit_together_a_method_is_given_its_baselines_engine(
    sweep: SimulatedSweep,
) -> None:
    jobs: list[GroupJob] = []
    sweep.run(measure=remembering(jobs))
    baseline, method = jobs
    assert (baseline.companion, method.companion) == (None, baseline.group.engine)
    assert {job.role for job in jobs} == {"cells"}


def test_a_baseline_that_is_measured_already_still_accompanies(sweep: SimulatedSweep) -> None:
    jobs: list[GroupJob] = []
    sweep.run("method=none")
    sweep.run(measure=remembering(jobs))
    (method,) = jobs
    assert method.group.method == "ngram"
    assert method.companion is not None


def test_a_method_without_its_baseline_in_the_sweep_goes_alone(sweep: SimulatedSweep) -> None:
    jobs: list[GroupJob] = []
    sweep.run("method=ngram", measure=remembering(jobs))
    assert [job.companion for job in jobs] == [None]


def test_baselines_at_both_ends_are_references_and_the_first_is_the_cell_too(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[GroupJob] = []
    assert sweep.run(BRACKETED, measure=remembering(jobs)) == EXIT_OK
    assert [job.role for job in jobs] == ["opening", "cells", "closing"]
    assert "[4/4]" in capsys.readouterr().out
    assert len(outputs.cells()) == 4
    references = outputs.references()
    assert sorted(r.role for r in references) == ["closing", "closing", "opening", "opening"]
    names = {p.name for p in (outputs.folder / "references").iterdir()}
    start = outputs.starts()[0].start_id
    assert any(name.endswith(f".{start}.simulated.opening.json") for name in names)


def test_a_closing_is_given_what_the_methods_before_it_put_out(sweep: SimulatedSweep) -> None:
    jobs: list[GroupJob] = []
    sweep.run(BRACKETED, measure=remembering(jobs))
    assert [len(job.rescore) for job in jobs] == [0, 0, 2]
    assert all(one.outputs for one in jobs[-1].rescore)


def test_each_role_and_attempt_has_a_log_of_its_own(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    sweep.run(BRACKETED, measure=simulated_fault("CRASH"))
    names = sorted(p.name for p in (outputs.folder / "logs").iterdir())
    assert "smollm2-135m--ngram-k4.log" in names
    assert "smollm2-135m--ngram-k4.attempt2.log" in names
    assert "smollm2-135m--none.simulated.opening.log" in names


def test_a_cell_lost_twice_is_recorded_with_both_attempts_and_the_others_are_ok(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.run("method=ngram", measure=simulated_fault("HANG")) == EXIT_CELLS_FAILED
    assert "HANG, to be tried once more" in capsys.readouterr().out
    bad, good = sorted(outputs.cells(), key=lambda r: r.status)
    assert good.status == "OK"
    assert (bad.status, bad.attempt, bad.node) == ("FAILED", 2, "simulated")
    assert [failure.kind for failure in bad.earlier] == ["HANG"]


def test_what_failed_points_to_the_log_of_the_attempt_and_role_that_failed(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    sweep.run(BRACKETED, measure=simulated_fault("HANG"))
    logs = {r.at.method: r.log for r in outputs.cells() if r.status == "FAILED"}
    assert logs == {
        "none": "smollm2-135m--none.simulated.opening.attempt2",
        "ngram": "smollm2-135m--ngram-k4.attempt2",
    }
    report = (outputs.folder / "report.md").read_text()
    for name in logs.values():
        assert name is not None
        assert outputs.log_path(name).is_file()
        assert f"See logs/{name}.log." in report


def test_a_start_killed_before_it_reported_leaves_that_to_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outputs: Outputs
) -> None:
    sweep = SimulatedSweep(monkeypatch, tmp_path / "outputs")
    told: list[str] = []
    monkeypatch.setattr(Tracker, "begin", lambda self, start: None)
    monkeypatch.setattr(Tracker, "cell", lambda self, record: told.append(record.status))
    monkeypatch.setattr(Tracker, "judged", lambda self, findings: told.append("judged"))
    finished = lambda self, start, table="", answer="": told.append(start.start_id)  # noqa: E731
    monkeypatch.setattr(Tracker, "finish", finished)
    report = outputs.folder / "report.md"
    assert sweep.run("method=ngram", measure=simulated_fault("HANG")) == EXIT_CELLS_FAILED
    assert "FAILED" in report.read_text()
    with monkeypatch.context() as killed:
        killed.setattr(Driver, "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            sweep.run("method=ngram")
    assert not report.exists()
    told.clear()
    assert sweep.run("method=ngram") == EXIT_OK
    assert "FAILED" not in report.read_text()
    first, second = (start.start_id for start in outputs.starts())
    assert told == ["OK", "OK", first, "judged", second]
    told.clear()
    assert sweep.run("method=ngram") == EXIT_OK
    assert told == []


def stopped(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def jumping(seconds: float, patch: pytest.MonkeyPatch) -> Callable[[GroupJob], Iterator[Event]]:
    def measure(job: GroupJob) -> Iterator[Event]:
        for event in simulated_group(job):
            if isinstance(event, CellDone):
                patch.setattr(time, "time", partial(float, time.time() + seconds))
            yield event

    return measure


@pytest.mark.parametrize("seconds", [-7200.0, 7200.0], ids=["back", "ahead"])
def test_a_clock_that_jumps_changes_no_duration(
    sweep: SimulatedSweep, outputs: Outputs, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    assert sweep.run(measure=jumping(seconds, monkeypatch)) == EXIT_OK
    (start,) = outputs.starts()
    assert start.split is not None
    assert 0 < start.split.wall_s < 600
    assert min(start.split.engine_start_s, start.split.generation_s, start.split.other_s) >= 0


@pytest.mark.usefixtures("sweep")
def test_a_second_sweep_into_the_same_folder_is_told_who_writes_there(
    outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs.folder.mkdir(parents=True)
    argv = ["+sweep=smoke", "tracking=off", "platform=cpu", f"output_dir={outputs.folder.parent}"]
    with held(outputs.folder / ".lock", "sweep smoke", 0.0, MachineBusyError):
        assert main(argv) == EXIT_NO_INFRASTRUCTURE
    said = capsys.readouterr().err
    assert f"{outputs.folder}: another run writes here (sweep smoke, process {os.getpid()})" in said
    assert "give this one an output_dir of its own" in said
    assert [path.name for path in outputs.folder.iterdir()] == [".lock"]


@pytest.fixture
def leave() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Leaves a process on this machine whose marked owner has ended."""
    left: list[subprocess.Popen[bytes]] = []

    def leave() -> subprocess.Popen[bytes]:
        owner = subprocess.Popen(["sleep", "60"])
        mark = leftovers.mark_of(owner.pid)
        owner.kill()
        owner.wait()
        left.append(subprocess.Popen(["sleep", "60"], env={**os.environ, leftovers.MARK: mark}))
        time.sleep(0.2)  # until the new program stands in /proc with its environment
        return left[-1]

    yield leave
    for process in left:
        process.kill()
        process.wait()


def test_what_an_earlier_run_left_is_ended_by_name_before_a_sweep_starts(
    sweep: SimulatedSweep,
    leave: Callable[[], subprocess.Popen[bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = leave()
    alive: list[bool] = []

    def measure(job: GroupJob) -> Iterator[Event]:
        alive.append(psutil.pid_exists(left.pid))
        yield from simulated_group(job)

    assert sweep.run(measure=measure) == EXIT_OK
    assert set(alive) == {False}
    said = " ".join(capsys.readouterr().err.split())
    assert f"left over from an earlier run, and ended: process {left.pid} (sleep 60, since " in said


def test_what_an_earlier_run_left_on_a_node_is_ended_by_name_before_it_measures(
    sweep: SimulatedSweep,
    leave: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # This process is no worker: it neither takes a node's name nor ends with its parent.
    monkeypatch.setattr(scheduler, "call_this_node", lambda name: None)
    monkeypatch.setattr(leftovers, "die_with_parent", lambda: None)
    left: list[subprocess.Popen[bytes]] = []

    def on_a_node_where_something_is_left(job: GroupJob) -> Iterator[Event]:
        if not left:
            left.append(leave())
        for event in scheduler.on_node(simulated_group, job):
            assert not psutil.pid_exists(left[0].pid)
            yield event

    assert sweep.run(measure=on_a_node_where_something_is_left) == EXIT_OK
    said = " ".join(capsys.readouterr().err.split())
    name = f"process {left[0].pid} (sleep 60, since "
    assert f"left over on simulated, and ended: {name}" in said


def test_a_second_sweep_on_the_machine_is_told_who_measures_there(sweep: SimulatedSweep) -> None:
    with (
        held(host.LOCK, "sweep nightly", 0.0, MachineBusyError),
        pytest.raises(MachineBusyError, match=r"another sweep measures here \(sweep nightly, pro"),
    ):
        sweep.run()
