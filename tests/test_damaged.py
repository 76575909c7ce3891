"""Files of a sweep that a disk or a person damaged, and files that cannot be read at all.

Everything is real but the groups, which are simulated.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import EXIT_NO_INFRASTRUCTURE, EXIT_OK
from pipeline.execution.events import GroupJob
from pipeline.outputs import OtherVersionError, Outputs, UnreadableError
from pipeline.report.__main__ import main as report
from pipeline.tracking.__main__ import main as tracking
from tests.paired import noting, paired_group
from tests.sweeps import SimulatedSweep

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

BRACKETED = "platform.pairing=bracketed"
KINDS = {
    "a start": "starts/*.json",
    "a reference": "references/*.closing.json",
    "a cell": "cells/*ngram*.json",
    "requests": "requests/*ngram*.jsonl",
    "scores": "rescored/*ngram*.jsonl",
}
each_kind = pytest.mark.parametrize("pattern", KINDS.values(), ids=KINDS)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedSweep:
    """A finished sweep of four cells between a baseline's two ends."""
    sweep = SimulatedSweep(monkeypatch, tmp_path / "outputs", "tracking=off", BRACKETED)
    assert sweep.run(measure=paired_group) == EXIT_OK
    return sweep


@pytest.fixture
def folder(sweep: SimulatedSweep, tmp_path: Path) -> Path:
    return tmp_path / "outputs" / "smoke"


def torn(folder: Path, pattern: str) -> Path:
    """Cut one file short, as a disk may that was switched off."""
    path = min(folder.glob(pattern))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def is_set_aside(path: Path) -> bool:
    return path.with_name(f"{path.name}.damaged").is_file() and not path.exists()


def named(path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    return path.name in capsys.readouterr().err.replace("\n", "")


@each_kind
def test_the_same_command_goes_on_and_makes_up_for_what_was_damaged(
    sweep: SimulatedSweep, folder: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = torn(folder, pattern)
    (folder / "report.html").unlink()
    assert sweep.run(measure=paired_group) == EXIT_OK
    assert named(path, capsys)
    assert path.with_name(f"{path.name}.damaged").is_file()
    assert sweep.run(measure=paired_group) == EXIT_OK
    assert report([str(folder)]) == EXIT_OK
    assert not capsys.readouterr().err


@pytest.mark.parametrize("pattern", [KINDS["a start"], KINDS["a reference"], KINDS["a cell"]])
def test_a_dry_run_names_what_is_damaged_and_leaves_it(
    sweep: SimulatedSweep, folder: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = torn(folder, pattern)
    sweep.run("dry_run=true")
    assert path.exists()
    assert named(path, capsys) or pattern == KINDS["a start"]


@each_kind
def test_a_report_is_written_without_what_is_damaged(
    folder: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = torn(folder, pattern)
    assert report([str(folder)]) == EXIT_OK
    assert is_set_aside(path)
    assert named(path, capsys)


@each_kind
def test_a_replay_tells_the_rest(
    folder: Path, tmp_path: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = torn(folder, pattern)
    store = f"uri=sqlite:///{tmp_path / 'mlflow.db'}"
    assert tracking(["replay", str(folder), store]) == EXIT_OK
    assert is_set_aside(path)
    told = capsys.readouterr()
    assert path.name in told.err.replace("\n", "")
    assert f"{3 if pattern == KINDS['a cell'] else 4} cells of" in told.out
    assert tracking(["replay", str(folder), store]) == EXIT_OK


def test_scores_that_a_report_set_aside_are_made_anew(sweep: SimulatedSweep, folder: Path) -> None:
    path = torn(folder, KINDS["scores"])
    report([str(folder)])
    jobs: list[GroupJob] = []
    assert sweep.run(measure=noting(jobs)) == EXIT_OK
    assert [(len(job.group.cells), len(job.rescore)) for job in jobs] == [(0, 1)]
    assert path.is_file()


def failing(number: int, broken: Path, patch: pytest.MonkeyPatch) -> None:
    """Have reading one file fail as a disk or its rights would."""
    whole: Callable[[Path], bytes] = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path == broken:
            raise OSError(number, os.strerror(number), str(path))
        return whole(path)

    patch.setattr(Path, "read_bytes", read_bytes)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=["disk", "rights"])
@pytest.mark.parametrize(
    "pattern", [KINDS["a start"], KINDS["a reference"], KINDS["a cell"]], ids=list(KINDS)[:3]
)
def test_what_cannot_be_read_ends_the_command_and_stays_where_it_is(
    sweep: SimulatedSweep,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    number: int,
) -> None:
    path = min(folder.glob(pattern))
    failing(number, path, monkeypatch)
    with pytest.raises(UnreadableError, match=f"{path.name}: it cannot be read"):
        sweep.run(measure=paired_group)
    assert path.exists()


@each_kind
def test_what_cannot_be_read_ends_a_report_in_one_sentence(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pattern: str,
) -> None:
    path = min(folder.glob(pattern))
    failing(errno.EIO, path, monkeypatch)
    capsys.readouterr()
    assert report([str(folder)]) == EXIT_NO_INFRASTRUCTURE
    error = capsys.readouterr().err
    assert error.startswith(f"{path}: it cannot be read (Input/output error); correct")
    assert path.exists()


def test_a_damaged_plan_leaves_the_report_all_cells(folder: Path) -> None:
    path = torn(folder, "plan.json")
    assert report([str(folder)]) == EXIT_OK
    assert is_set_aside(path)
    assert "ngram" in (folder / "report.md").read_text()


def test_a_line_of_another_version_is_not_taken_for_damage(folder: Path) -> None:
    path = min(folder.glob(KINDS["scores"]))
    path.write_text(path.read_text().replace("{", '{"novel":1,', 1))
    outputs = Outputs(folder.parent, folder.name, lambda damaged: None)
    with pytest.raises(OtherVersionError, match="it holds 'novel'"):
        outputs.rescored(path.stem)
