"""The command itself: real Ray, a real engine, real MLflow, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mlflow.tracking import MlflowClient

from pipeline.outputs import Outputs, cell_name
from pipeline.records import CellRecord

pytestmark = [
    pytest.mark.engine,
    # MLflow's own use of SQLAlchemy.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"),
]

NARROW = ["+sweep=smoke", "dataset.limit=3", "measure.max_tokens=12"]


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Sweep:
    """One folder in which the command is run, again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *NARROW, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "SWEEP_UNDER_TEST": str(self.folder)},
            # A test run in the background ignores Ctrl-C, and would have its children do so.
            preexec_fn=heed_interrupts,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=500)
        return process.returncode, said

    def cells(self) -> dict[str, CellRecord]:
        return {r.at.label: r for r in Outputs(self.folder / "outputs", "smoke").cells()}

    def processes(self) -> list[psutil.Process]:
        """Everything that any start in this folder has left running, Ray and engine included."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("SWEEP_UNDER_TEST") == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return [p for p in found if p.pid != os.getpid() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return Sweep(tmp_path_factory.mktemp("echo"))


@pytest.fixture(scope="module")
def finished(echo: Sweep) -> str:
    """A sweep of two engines over one dataset, interrupted and killed before it is completed."""
    interrupt(echo, signal.SIGINT, 130)
    assert len(echo.cells()) == 1
    interrupt(echo, signal.SIGTERM, 143, wait_for="engine 1/1 starts")
    code, said = echo.run("dataset=echo")
    assert code == 0, said
    return said


def interrupt(sweep: Sweep, sign: signal.Signals, code: int, wait_for: str = "[1/2]") -> None:
    process = sweep.start("dataset=echo")
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(wait_for):
            break
    assert any(line.startswith(wait_for) for line in said), "".join(said)
    process.send_signal(sign)
    sent = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == code
    while sweep.processes() and time.monotonic() < sent + 15:
        time.sleep(0.2)
    assert not sweep.processes()


def test_a_sweep_that_was_interrupted_is_completed_by_the_same_command(
    finished: str, echo: Sweep
) -> None:
    assert "1 of 2 cells are recorded already" in finished
    assert {label: r.status for label, r in echo.cells().items()} == {
        "smollm2-135m/none/echo/c1": "OK",
        "smollm2-135m/ngram-k4/echo/c1": "OK",
    }


def test_a_finished_sweep_is_shown_again_without_starting_anything(
    finished: str, echo: Sweep
) -> None:
    before = {label: r.started_at for label, r in echo.cells().items()}
    code, said = echo.run("dataset=echo")
    assert code == 0
    assert "starts:" not in said
    assert "smollm2-135m" in said
    assert {label: r.started_at for label, r in echo.cells().items()} == before


def test_the_baseline_has_no_drafts_and_the_method_has(finished: str, echo: Sweep) -> None:
    baseline, ngram = (
        echo.cells().values()
        if "none" in next(iter(echo.cells()))
        else reversed(list(echo.cells().values()))
    )
    assert baseline.counts is not None
    assert baseline.counts.drafts == 0
    assert ngram.counts is not None
    assert ngram.counts.drafts > 0
    assert "accept/rate" in ngram.metrics
    assert "accept/rate" not in baseline.metrics


def test_each_record_tells_how_to_serve_what_it_measured(finished: str, echo: Sweep) -> None:
    context = echo.cells()["smollm2-135m/ngram-k4/echo/c1"].context
    assert context is not None
    assert "vllm serve" in context.serve_command
    assert '"method":"ngram"' in context.serve_command


def test_requests_prompts_log_and_provenance_are_kept(finished: str, echo: Sweep) -> None:
    outputs = Outputs(echo.folder / "outputs", "smoke")
    for record in outputs.cells():
        assert len(outputs.requests(cell_name(record))) == 3
        assert "vllm" in outputs.log_path(record.group).read_text().lower()
    prompts = (outputs.folder / "prompts" / "smollm2-135m--echo.jsonl").read_text().splitlines()
    assert all(json.loads(line)["token_ids"] for line in prompts)
    starts = outputs.starts()
    assert [s.outcome for s in starts] == ["interrupted", "interrupted", "finished"]
    assert starts[-1].packages["ray"]
    assert starts[-1].host["cores"]
    # The method's, and its baseline's beside it.
    assert starts[-1].engine_starts == 2


def test_mlflow_holds_the_parents_the_children_and_their_metrics(
    finished: str, echo: Sweep
) -> None:
    client = MlflowClient(f"sqlite:///{echo.folder}/mlruns/mlflow.db")
    experiment = client.get_experiment_by_name("smoke")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    children = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
    parents = {r.info.run_id for r in runs} - {r.info.run_id for r in children}
    assert {r.data.tags["mlflow.parentRunId"] for r in children} <= parents
    ngram = next(r for r in children if r.data.params["method"] == "ngram")
    assert ngram.data.params["k"] == "4"
    assert ngram.data.metrics["speed/decode_tok_s"] > 0
    assert "accept/joint_0" in ngram.data.metrics


def test_outputs_without_a_score_are_scored_and_nothing_is_measured_for_it(
    finished: str, echo: Sweep
) -> None:
    outputs = Outputs(echo.folder / "outputs", "smoke")
    cells = outputs.cells()
    name = next(cell_name(record) for record in cells if record.at.k)
    before = outputs.rescored(name)
    (outputs.folder / "rescored" / f"{name}.jsonl").unlink()
    code, said = echo.run("dataset=echo")
    assert code == 0, said
    assert "engine 1/1 starts: smollm2-135m--none.scoring" in said
    assert outputs.cells() == cells
    assert outputs.starts()[-1].engine_starts == 1
    again = outputs.rescored(name)
    assert [(o.prompt_id, len(o.gaps)) for o in again] == [
        (o.prompt_id, len(o.gaps)) for o in before
    ]


def test_an_engine_that_cannot_start_fails_its_cells_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    sweep = Sweep(tmp_path)
    code, said = sweep.run(
        "dataset=chat",
        "method=none",
        "+model.engine_args.kv_cache_dtype=no_such_type",
        "model=smollm2-135m",
        "tracking=off",
    )
    assert code == 3, said
    (record,) = sweep.cells().values()
    assert record.status == "FAILED"
    assert record.failure is not None
    assert record.failure.kind == "REFUSED"
    assert record.failure.log_tail
    assert "Traceback" not in said


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "echo" in request.fixturenames:
        assert not request.getfixturevalue("echo").processes()
