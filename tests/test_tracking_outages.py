"""MLflow down, slow, and restarted during a sweep: the stores are real, the groups simulated."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import EXIT_OK
from pipeline.execution.events import Event, GroupJob, GroupStarting
from pipeline.outputs import Outputs
from pipeline.tracking import Tracker, background, replay
from tests import postgresql
from tests.execution.simulated import simulated_group
from tests.sweeps import SimulatedSweep

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
WHY_NOT = postgresql.why_not()
needs_postgresql = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def server() -> Iterator[postgresql.PostgreSql]:
    server = postgresql.PostgreSql()
    yield server
    server.remove()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port at which everyone is let in and nobody is answered."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        let_in: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    let_in.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        for connection in let_in:
            connection.close()


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedSweep:
    # Artifacts of a database lie beside where the command runs.
    monkeypatch.chdir(tmp_path)
    return SimulatedSweep(monkeypatch, tmp_path / "outputs")


def runs(uri: str, root: Path) -> dict[str, tuple[str, str]]:
    """Of every run that the store has of the sweep, what it is called, its status and identity."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("smoke")
    assert experiment is not None
    found: list[Any] = client.search_runs([experiment.experiment_id])
    return {r.info.run_id: (r.info.run_name, r.info.status) for r in found}


def test_a_store_that_lets_everyone_in_and_never_answers_costs_a_sweep_little(
    sweep: SimulatedSweep,
    silent: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(background.Background.__init__, "__defaults__", (1.0,))
    began = time.monotonic()
    assert sweep.run(f"tracking.uri=http://127.0.0.1:{silent}") == EXIT_OK
    assert time.monotonic() - began < 60
    said = capsys.readouterr().err
    assert "no answer for 1 s" in said
    assert "python -m pipeline.tracking replay" in said


def test_a_store_that_is_merely_slow_is_waited_for_only_so_long(tmp_path: Path) -> None:
    tracker = Tracker(Outputs(tmp_path, "slow"), None, root=tmp_path / "mlruns")
    told: list[int] = []

    def slow(number: int, tracker: Tracker) -> None:
        time.sleep(0.2)
        told.append(number)

    telling = background.Background(tracker, patience_s=5.0)
    for number in range(50):
        telling.tell(partial(slow, number))
    began = time.monotonic()
    problem = str(telling.settle(1.0))
    assert time.monotonic() - began < 3
    assert "too slow to take all of them in 1 s), which are whole on disk" in problem
    assert f"python -m pipeline.tracking replay {tmp_path / 'slow'}" in problem
    assert "\n" not in problem
    assert 0 < len(told) < 20
    time.sleep(0.5)
    so_far = len(told)
    time.sleep(0.5)
    assert len(told) == so_far  # nothing goes on behind the back of who was told so


def test_what_a_store_takes_in_time_leaves_nothing_to_replay(tmp_path: Path) -> None:
    tracker = Tracker(Outputs(tmp_path, "quick"), None, root=tmp_path / "mlruns")
    told: list[Tracker] = []
    telling = background.Background(tracker)
    for _ in range(50):
        telling.tell(told.append)
    assert telling.settle() is None
    assert told == [tracker] * 50


@needs_postgresql
def test_a_database_that_is_down_for_a_whole_sweep_is_completed_by_a_replay(
    sweep: SimulatedSweep, server: postgresql.PostgreSql, tmp_path: Path
) -> None:
    outputs = Outputs(tmp_path / "outputs", "smoke")
    server.stop()
    try:
        assert sweep.run(f"tracking.uri={server.uri}") == EXIT_OK
    finally:
        server.start()
    assert replay(outputs, server.uri) == 4
    once = runs(server.uri, tmp_path)
    assert len(once) == 5
    assert {status for _, status in once.values()} == {"FINISHED"}
    replay(outputs, server.uri)
    assert runs(server.uri, tmp_path) == once


@needs_postgresql
def test_a_database_restarted_in_the_middle_holds_everything_after_a_replay(
    sweep: SimulatedSweep,
    server: postgresql.PostgreSql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarted: list[str] = []

    def restarting(job: GroupJob) -> Iterator[Event]:
        """A simulated group; the database is restarted when the second one begins."""
        for event in simulated_group(job):
            if isinstance(event, GroupStarting):
                restarted.append(job.group.id)
                if len(restarted) == 2:
                    server.stop()
                    server.start()
            yield event

    arguments = (f"tracking.uri={server.uri}", "sweep.name=restarted")
    assert sweep.run(*arguments, measure=restarting) == EXIT_OK
    outputs = Outputs(tmp_path / "outputs", "restarted")
    assert replay(outputs, server.uri) == 4
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    experiment = client.get_experiment_by_name("restarted")
    assert experiment is not None
    found: list[Any] = client.search_runs([experiment.experiment_id])
    cells = [
        r for r in found if "fingerprint" in r.data.tags or "mlflow.parentRunId" in r.data.tags
    ]
    assert len(cells) == 4
    assert {r.info.status for r in found} == {"FINISHED"}
    assert all("speed/decode_tok_s" in r.data.metrics for r in cells)
