"""The MLflow sink on a real store: what it holds, told once or twice, and what if there is none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE, EXIT_OK, InputError
from pipeline.host.series import Limits, Sample, TelemetrySummary
from pipeline.outputs import Outputs
from pipeline.passwords import without_password
from pipeline.tracking import Tracker, TrackingError, runs
from pipeline.tracking.__main__ import USAGE, main
from tests.factories import cell_record, coordinates, failed_record, one_pass, plan, start_record

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

NONE, NGRAM, BROKEN = coordinates("none", 0), coordinates(), coordinates("mtp", 3)
CELLS = (cell_record(NONE), cell_record(decode=50.0), failed_record(BROKEN))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one store for all tests, since making its tables takes seconds."""
    return tmp_path_factory.mktemp("mlruns")


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    """A recorded sweep of three cells, one failed; an experiment of its own, by the folder."""
    folder = Outputs(tmp_path.parent, tmp_path.name)
    folder.write_start(start_record())
    folder.write_plan(plan(NONE, NGRAM, BROKEN))
    for record in CELLS:
        folder.write_cell(record, [] if record.failure else [one_pass()])
    log = folder.log_path(CELLS[2].group)
    log.parent.mkdir()
    log.write_text("ValueError: no such head\n")
    return folder


class Seen:
    """What MLflow's own client finds of a sweep."""

    def __init__(self, root: Path, outputs: Outputs) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(f"sqlite:///{root}/mlflow.db")
        experiment = self.client.get_experiment_by_name(outputs.folder.name)
        assert experiment is not None
        self.runs: list[Any] = self.client.search_runs([experiment.experiment_id])

    def parents(self) -> list[Any]:
        return [r for r in self.runs if "mlflow.parentRunId" not in r.data.tags]

    def child(self, name: str) -> Any:
        (run,) = [r for r in self.runs if r.info.run_name == name]
        return run

    def series(self, run: Any, metric: str) -> list[tuple[int, float]]:
        history = self.client.get_metric_history(run.info.run_id, metric)
        return sorted((point.step, point.value) for point in history)

    def files(self, run: Any) -> dict[str, str]:
        place = Path(run.info.artifact_uri.removeprefix("file://"))
        return {path.name: path.read_text() for path in place.iterdir()}

    def everything(self) -> list[object]:
        """All that a second telling could change."""
        return [
            (
                run.info.run_id,
                run.info.status,
                run.info.end_time,
                sorted(run.data.tags.items()),
                sorted(run.data.params.items()),
                [(name, self.series(run, name)) for name in sorted(run.data.metrics)],
                sorted(self.files(run).items()),
            )
            for run in sorted(self.runs, key=lambda r: r.info.run_id)
        ]


def tell(outputs: Outputs, root: Path, answer: str = "") -> None:
    tracker = Tracker(outputs, None, root=root)
    tracker.begin(start_record())
    for record in CELLS:
        tracker.cell(record)
    tracker.finish(start_record(), table="| a table |", answer=answer)
    assert tracker.problem is None


def test_a_start_is_a_parent_run_with_question_answer_time_split_and_files(
    outputs: Outputs, root: Path
) -> None:
    tell(outputs, root, answer="ngram, K=2")
    seen = Seen(root, outputs)
    (parent,) = seen.parents()
    assert parent.info.run_name == "demo 2026-11-29 12:00"
    assert parent.info.status == "FINISHED"
    assert parent.info.end_time - parent.info.start_time == 60_000
    assert parent.data.tags["start_id"] == start_record().start_id
    assert parent.data.tags["outcome"] == "finished"
    note = parent.data.tags["mlflow.note.content"]
    assert note == "**Which method is fastest?**\n\nngram, K=2"
    assert parent.data.metrics["sweep/wall_s"] == 60.0
    assert parent.data.metrics["sweep/other_s"] == 2.0
    files = seen.files(parent)
    assert set(files) == {"plan.json", "start.json", "table.md"}
    assert files["table.md"] == "| a table |"


def test_a_cell_is_a_child_run_with_its_identity_as_parameters_and_tags(
    outputs: Outputs, root: Path
) -> None:
    tell(outputs, root)
    seen = Seen(root, outputs)
    run = seen.child("ngram-k2/echo/c1/tiny")
    assert run.data.tags["mlflow.parentRunId"] == seen.parents()[0].info.run_id
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 9_000
    assert run.data.params == {
        "model": "tiny",
        "method": "ngram",
        "k": "2",
        "dataset": "echo",
        "concurrency": "1",
        "node": "box",
        "vllm_version": "0.32.0",
    }
    assert run.data.tags["fingerprint"] == CELLS[1].fingerprint
    assert run.data.tags["label"] == CELLS[1].at.label
    assert run.data.tags["status"] == "OK"
    assert run.data.tags["checkpoint"] == "/models/tiny"
    assert run.data.tags["drafter"] == "none"
    assert set(seen.files(run)) == {"cell.json", "requests.jsonl"}
    assert seen.files(run)["cell.json"] == CELLS[1].model_dump_json(indent=1)


def test_metrics_hold_the_summary_and_series_have_a_step_per_repeat_and_position(
    outputs: Outputs, root: Path
) -> None:
    tell(outputs, root)
    seen = Seen(root, outputs)
    run = seen.child("ngram-k2/echo/c1/tiny")
    assert run.data.metrics["speed/decode_tok_s"] == 50.0
    assert run.data.metrics["spread/speed/decode_tok_s"] == 1.0
    assert run.data.metrics["n/speed/decode_tok_s"] == 20
    assert seen.series(run, "repeats/speed/decode_tok_s") == [(0, 49.0), (1, 50.0), (2, 51.0)]
    joint = [(0, pytest.approx(0.7)), (1, pytest.approx(0.49))]
    assert seen.series(run, "accept/joint") == joint
    assert [run.data.metrics[f"accept/joint_{i}"] for i in (0, 1)] == [v for _, v in joint]
    assert [step for step, _ in seen.series(run, "accept/conditional")] == [0, 1]


def test_a_baseline_has_no_acceptance_rather_than_one_of_zero(outputs: Outputs, root: Path) -> None:
    tell(outputs, root)
    metrics = Seen(root, outputs).child("none/echo/c1/tiny").data.metrics
    assert "speed/decode_tok_s" in metrics
    assert not [name for name in metrics if "accept" in name]


def test_a_failed_cell_is_a_failed_run_with_its_reason_and_the_engine_log(
    outputs: Outputs, root: Path
) -> None:
    tell(outputs, root)
    seen = Seen(root, outputs)
    run = seen.child("mtp-k3/echo/c1/tiny")
    assert run.info.status == "FAILED"
    assert run.data.tags["status"] == "FAILED"
    assert "the engine process ended with code 1" in run.data.tags["status_reason"]
    assert seen.files(run)["engine.log"] == "ValueError: no such head\n"
    assert run.data.metrics == {}


def test_of_several_attempts_the_log_of_the_last_is_attached(outputs: Outputs, root: Path) -> None:
    name = f"{CELLS[2].group}.attempt2"
    outputs.log_path(name).write_text("KeyError: 'mtp.fc'\n")
    again = CELLS[2].model_copy(update={"attempt": 2, "log": name})
    outputs.write_cell(again, [])
    tracker = Tracker(outputs, f"sqlite:///{root}/mlflow.db", root=root)
    tracker.cell(again)
    assert tracker.problem is None
    seen = Seen(root, outputs)
    assert seen.files(seen.child("mtp-k3/echo/c1/tiny"))["engine.log"] == "KeyError: 'mtp.fc'\n"


def test_telling_the_same_records_twice_changes_nothing(outputs: Outputs, root: Path) -> None:
    tell(outputs, root)
    before = Seen(root, outputs).everything()
    tell(outputs, root)
    assert Seen(root, outputs).everything() == before


def test_a_replay_tells_what_a_sweep_could_not_and_then_changes_nothing(
    outputs: Outputs, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["replay", str(outputs.folder), f"uri=sqlite:///{root}/mlflow.db"]
    assert main(command) == EXIT_OK
    assert capsys.readouterr().out == (
        f"3 cells of {outputs.folder} are in sqlite:///{root}/mlflow.db\n"
    )
    seen = Seen(root, outputs)
    assert len(seen.runs) == 1 + len(CELLS)
    assert "| echo | ngram | 2 | 50.0 ± 1.0 |" in seen.files(seen.parents()[0])["table.md"]
    before = seen.everything()
    assert main(command) == EXIT_OK
    assert Seen(root, outputs).everything() == before


def test_a_cell_half_told_by_a_crash_is_completed(
    outputs: Outputs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def crash(*args: object, **kwargs: object) -> None:
        raise OSError("power cut")

    tracker = Tracker(outputs, None, root=root)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_terminated", crash)
        tracker.cell(CELLS[1])
    assert isinstance(tracker.problem, TrackingError)
    tell(outputs, root)
    seen = Seen(root, outputs)
    run = seen.child("ngram-k2/echo/c1/tiny")
    assert run.info.status == "FINISHED"
    assert len(seen.series(run, "repeats/speed/decode_tok_s")) == 3


def twin(seen: Seen, run: Any) -> str:
    """Make a run again as MLflow does when the first answer came too late; the twin's id."""
    (experiment,) = {r.info.experiment_id for r in seen.runs}
    made = seen.client.create_run(experiment, start_time=run.info.start_time, tags=run.data.tags)
    return str(made.info.run_id)


def test_runs_that_were_made_twice_are_one_again_once_told_again(
    outputs: Outputs, root: Path
) -> None:
    tell(outputs, root)
    seen = Seen(root, outputs)
    before = seen.everything()
    for run in seen.runs:
        twin(seen, run)
    assert len(Seen(root, outputs).runs) == 2 * len(before)
    tell(outputs, root)
    assert Seen(root, outputs).everything() == before
    assert main(["replay", str(outputs.folder), f"uri=sqlite:///{root}/mlflow.db"]) == EXIT_OK
    assert len(Seen(root, outputs).runs) == len(before)


def test_a_start_made_twice_keeps_its_cells_whichever_of_the_two_had_them(
    outputs: Outputs, root: Path
) -> None:
    tracker = Tracker(outputs, None, root=root)
    tracker.begin(start_record())
    tracker.cell(CELLS[0])
    (parent,) = Seen(root, outputs).parents()
    ids = [parent.info.run_id, *(twin(Seen(root, outputs), parent) for _ in range(3))]
    tell(outputs, root)
    seen = Seen(root, outputs)
    (kept,) = seen.parents()
    assert kept.info.run_id == min(ids)
    children = [r for r in seen.runs if "mlflow.parentRunId" in r.data.tags]
    assert {r.data.tags["mlflow.parentRunId"] for r in children} == {kept.info.run_id}
    assert len(children) == len(CELLS)


def test_a_store_that_makes_every_run_twice_ends_with_one_of_each(
    outputs: Outputs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    create = MlflowClient.create_run

    def committed_and_asked_again(*args: Any, **kwargs: Any) -> Any:
        create(*args, **kwargs)
        return create(*args, **kwargs)

    monkeypatch.setattr(MlflowClient, "create_run", committed_and_asked_again)
    tell(outputs, root)
    seen = Seen(root, outputs)
    assert len(seen.runs) == 1 + len(CELLS)
    assert {run.info.status for run in seen.runs} == {"FINISHED", "FAILED"}
    assert "speed/decode_tok_s" in seen.child("ngram-k2/echo/c1/tiny").data.metrics


def test_a_cell_stays_the_child_of_the_start_that_measured_it(outputs: Outputs, root: Path) -> None:
    tell(outputs, root)
    second = start_record(start_id="20261129T130000-0002")
    outputs.write_start(second)
    tracker = Tracker(outputs, None, root=root)
    tracker.begin(second)
    for record in CELLS:
        tracker.cell(record)
    tracker.finish(second)
    seen = Seen(root, outputs)
    assert len(seen.parents()) == 2
    first = next(p for p in seen.parents() if p.data.tags["start_id"] == start_record().start_id)
    children = [r for r in seen.runs if "mlflow.parentRunId" in r.data.tags]
    assert {r.data.tags["mlflow.parentRunId"] for r in children} == {first.info.run_id}
    assert len(children) == len(CELLS)


def test_an_interrupted_start_ends_as_killed_and_a_running_one_stays_open(
    outputs: Outputs, root: Path
) -> None:
    tracker = Tracker(outputs, None, root=root)
    tracker.finish(start_record(outcome="running"))
    assert Seen(root, outputs).parents()[0].info.status == "RUNNING"
    tracker.finish(start_record(outcome="interrupted"))
    assert tracker.problem is None
    assert Seen(root, outputs).parents()[0].info.status == "KILLED"


def test_nothing_is_imported_or_written_when_tracking_is_off(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, "off")
    tracker = Tracker(outputs, None, enabled=False, root=tmp_path / "mlruns")
    tracker.begin(start_record())
    tracker.cell(CELLS[0])
    tracker.finish(start_record())
    assert tracker.problem is None
    assert list(tmp_path.iterdir()) == []


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:{port}",
        "postgresql://me:secret@127.0.0.1:{port}/runs",
        "sqlite:////proc/no/such/folder/mlflow.db",
    ],
    ids=["server", "database", "file"],
)
def test_an_unreachable_store_becomes_one_sentence_and_raises_nothing(
    outputs: Outputs, uri: str
) -> None:
    uri = uri.format(port=closed_port())
    tracker = Tracker(outputs, uri)
    tracker.begin(start_record())
    tracker.cell(CELLS[0])
    tracker.finish(start_record())
    sentence = str(tracker.problem)
    assert sentence.startswith(f"{without_password(uri)}: MLflow did not take the records (")
    assert sentence.endswith(
        f"run python -m pipeline.tracking replay {outputs.folder} uri={without_password(uri)}"
    )
    assert "secret" not in sentence
    assert "\n" not in sentence


def test_a_replay_into_an_unreachable_store_is_the_infrastructures_fault(
    outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"uri=http://127.0.0.1:{closed_port()}"
    assert main(["replay", str(outputs.folder), uri]) == EXIT_NO_INFRASTRUCTURE
    assert capsys.readouterr().err.count("\n") == 1


def test_the_first_telling_prints_nothing_of_mlflows_own(outputs: Outputs, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.tracking", "replay", str(outputs.folder)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout == (
        f"3 cells of {outputs.folder} are in sqlite:///{tmp_path}/mlruns/mlflow.db\n"
    )
    assert (tmp_path / "mlruns" / "artifacts" / outputs.folder.name).is_dir()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], f"one verb and one folder are needed; allowed: {USAGE}"),
        (["replay"], f"one verb and one folder are needed; allowed: {USAGE}"),
        (["repeat", "x"], f"one verb and one folder are needed; allowed: {USAGE}"),
        (["replay", "nowhere"], "nowhere: there is no such folder"),
        (["replay", "{bare}"], "{bare}: no start of a sweep is recorded here"),
        (["replay", "{sweep}", "url=x"], "'url' is not an option, did you mean 'uri'?"),
        (["replay", "{sweep}", "uri=file:///x"], "tracking.uri: 'file:///x' is not a store"),
        (["replay", "{sweep}", "uri=sqlit:///x"], "tracking.uri: 'sqlit:///x' is not a store"),
    ],
)
def test_bad_input_ends_in_one_sentence(
    outputs: Outputs,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    places = {"bare": tmp_path_factory.mktemp("bare"), "sweep": outputs.folder}
    assert main([a.format(**places) for a in arguments]) == EXIT_BAD_CONFIG
    error = capsys.readouterr().err
    assert error.startswith(sentence.format(**places))
    assert error.count("\n") == 1


def test_a_start_whose_record_is_lost_is_named(
    outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(outputs.folder / "starts")
    outputs.write_start(start_record(start_id="another"))
    assert main(["replay", str(outputs.folder)]) == EXIT_BAD_CONFIG
    assert start_record().start_id in capsys.readouterr().err


def test_an_address_that_is_no_store_is_found_before_anything_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a store that runs can be kept in"):
        Tracker(Outputs(tmp_path, "demo"), "databricks")


def test_the_host_s_readings_are_points_and_what_it_does_not_tell_is_absent() -> None:
    host = TelemetrySummary(
        seconds=10.0,
        samples=11,
        sm_clock_mhz=None,
        limits=Limits(),
        power_w=30.0,
        energy_j=300.0,
        temperature_max_c=61,
        throttle_s={"thermal": 2.0},
        memory_available_min_bytes=10**9,
    )
    record = cell_record().model_copy(update={"telemetry": host})
    told = {point.name: point.value for point in runs.cell_points(record)}
    assert told["host/energy_j"] == 300.0
    assert told["host/throttle_s_thermal"] == 2.0
    assert "host/sm_clock_median_mhz" not in told


def test_the_host_second_by_second_is_a_curve_per_reading() -> None:
    series = [
        Sample(at_s=at, memory_available_bytes=5, power_w=watts)
        for at, watts in ((0.1, 30.0), (1.1, 32.0))
    ]
    power = [p for p in runs.series_points(series) if p.name == "host/power_w"]
    assert [(point.step, point.value) for point in power] == [(0, 30.0), (1, 32.0)]
    assert {p.name for p in runs.series_points(series)} == {
        "host/power_w",
        "host/memory_available_bytes",
    }
