"""What MLflow holds of a judged sweep, and whether the searches that the README gives find it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import EXIT_OK
from pipeline.outputs import Outputs
from pipeline.report import Report, write_report
from pipeline.tracking import Tracker
from pipeline.tracking.__main__ import main
from tests.report.composed import Method, composed_start, sweep, troubled, write

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

README = Path(__file__).parents[1] / "README.md"
METHODS = (
    Method("none", 0),
    Method("mtp", 1, {"chat": 0.8, "json": 0.8}, 1.2),
    Method("ngram", 4, {"chat": 0.02, "json": 0.02}, 1.2, coverage=0.3),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outputs, Report, Path]:
    """A composed sweep in a store, told as a sweep tells it."""
    root = tmp_path_factory.mktemp("mlruns")
    outputs = Outputs(tmp_path_factory.mktemp("outputs"), "composed")
    asked = write(outputs, list(sweep(("chat", "json"), METHODS)), extra=troubled())
    report = write_report(outputs, asked)
    tracker = Tracker(outputs, None, root=root)
    tracker.begin(composed_start())
    for record in outputs.cells():
        tracker.cell(record)
    tracker.judged(report.findings)
    tracker.finish(composed_start(), table="| a table |", answer=report.answer)
    assert tracker.problem is None
    return outputs, report, root


def search(root: Path, query: str = "") -> list[Any]:
    """The runs that MLflow's own client finds."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("composed")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], query))


def labels(root: Path, query: str) -> set[str]:
    return {run.data.tags["label"].removeprefix("composed-135m/") for run in search(root, query)}


def files(run: Any) -> dict[str, str]:
    place = Path(run.info.artifact_uri.removeprefix("file://"))
    return {
        path.relative_to(place).as_posix(): path.read_text()
        for path in place.rglob("*")
        if path.is_file()
    }


def everything(root: Path) -> list[Any]:
    return sorted(
        (
            run.info.run_id,
            run.info.status,
            sorted(run.data.tags.items()),
            sorted(run.data.metrics.items()),
            sorted(files(run).items()),
        )
        for run in search(root)
    )


def test_a_cells_run_holds_its_verdicts_with_their_evidence(
    told: tuple[Outputs, Report, Path],
) -> None:
    _, report, root = told
    [run] = search(root, "tags.label = 'composed-135m/mtp-k1/chat/c1'")
    [comparison] = [
        one.comparison
        for one in report.findings.cells
        if one.record.at.label == "composed-135m/mtp-k1/chat/c1"
    ]
    assert comparison is not None
    assert comparison.estimate is not None
    assert run.data.metrics["speedup/vs_baseline"] == comparison.estimate.ratio
    assert run.data.metrics["speedup/low"] == comparison.estimate.low
    assert run.data.metrics["speedup/high"] == comparison.estimate.high
    assert run.data.metrics["n/speedup/vs_baseline"] == 20
    assert run.data.metrics["lossless/largest_gap_nat"] < 0.2
    assert run.data.tags["verdict"] == "better"
    assert run.data.tags["lossless"] == "lossless"
    assert run.data.tags["advised"] == "yes"
    assert run.data.tags["mlflow.note.content"] == comparison.sentence


def test_a_baseline_has_no_verdict_and_a_failure_keeps_its_reason(
    told: tuple[Outputs, Report, Path],
) -> None:
    root = told[2]
    [plain] = search(root, "tags.label = 'composed-135m/none/chat/c1'")
    assert "verdict" not in plain.data.tags
    assert not [name for name in plain.data.metrics if name.startswith(("speedup", "lossless"))]
    [dead] = search(root, "tags.label = 'composed-135m/mtp-k4/code/c1'")
    assert "verdict" not in dead.data.tags
    assert dead.data.tags["mlflow.note.content"].startswith("FAILED, EngineStartError")


def test_the_parent_holds_the_answer_and_the_report(told: tuple[Outputs, Report, Path]) -> None:
    outputs, report, root = told
    [parent] = search(root, "tags.role = 'start'")
    assert parent.data.tags["mlflow.note.content"].endswith(f"\n\n{report.answer}")
    kept = files(parent)
    assert kept["report.md"] == report.markdown
    assert kept["report.html"] == report.html.read_text()
    for path in report.figures:
        assert kept[path.relative_to(outputs.folder).as_posix()] == path.read_text()


def test_every_search_that_the_readme_gives_finds_what_it_says(
    told: tuple[Outputs, Report, Path],
) -> None:
    table = README.read_text().partition("| search | finds |")[2].partition("\n\n")[0]
    given = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    found = {query: labels(told[2], query) for query in given}
    assert found == {
        "tags.advised = 'yes'": {"mtp-k1/chat/c1", "mtp-k1/json/c1"},
        "tags.verdict = 'worse'": {"ngram-k4/chat/c1", "ngram-k4/json/c1"},
        "metrics.\"speedup/low\" > 1.1 and params.dataset = 'chat'": {"mtp-k1/chat/c1"},
        "tags.role = 'cell' and tags.status != 'OK'": {
            *("mtp-k4/code/c1", "mtp-k4/json/c1"),
            "eagle3-k2/chat/c1",
        },
        "tags.lossless = 'not lossless'": set(),
        "params.method = 'mtp' and metrics.\"accept/rate\" > 0.5": {
            *("mtp-k1/chat/c1", "mtp-k1/json/c1"),
        },
    }


def test_a_replay_tells_the_same_and_telling_again_changes_nothing(
    told: tuple[Outputs, Report, Path],
) -> None:
    outputs, _, root = told
    before = everything(root)
    assert main(["replay", str(outputs.folder), f"uri=sqlite:///{root}/mlflow.db"]) == EXIT_OK
    after = everything(root)
    assert [run[3] for run in after] == [run[3] for run in before]
    assert [run[2] for run in after] == [run[2] for run in before]


def test_a_report_written_after_the_sweep_reaches_mlflow_by_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a new experiment's artifacts go
    outputs = Outputs(tmp_path, "composed")
    asked = write(outputs, list(sweep(("chat",), METHODS[:2])))
    command = ["replay", str(outputs.folder), f"uri=sqlite:///{tmp_path}/mlflow.db"]
    assert main(command) == EXIT_OK
    [parent] = search(tmp_path, "tags.role = 'start'")
    assert "report.html" not in files(parent)
    assert "use mtp K=1" in parent.data.tags["mlflow.note.content"]
    report = write_report(outputs, asked)
    assert main(command) == EXIT_OK
    assert files(parent)["report.html"] == report.html.read_text()
