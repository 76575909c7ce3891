"""What the same command measures again, and what not; nothing here gets as far as an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.config import read_command_line
from pipeline.driver import Driver
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_OK
from pipeline.outputs import OtherVersionError, Outputs
from pipeline.plan import Cell, Plan, make_plan
from pipeline.prompts import load_prompts
from pipeline.records import CellRecord
from pipeline.sources import identity
from pipeline.spec import SweepConfig
from pipeline.sweep import run
from tests.factories import cell_record, failed_record, start_record

COMMAND = ("+sweep=smoke", "tracking=off")


def config(folder: Path, *arguments: str) -> SweepConfig:
    argv = [*COMMAND, f"output_dir={folder}", *arguments]
    found = read_command_line(argv, lambda: "cpu")
    assert found is not None
    return found


def planned(sweep: SweepConfig) -> Plan:
    prompts = {d.name: load_prompts(d, sweep.measure.max_tokens) for d in sweep.datasets}
    return make_plan(sweep, prompts, identity)


def record(cell: Cell, made: CellRecord) -> CellRecord:
    return made.model_copy(update={"fingerprint": cell.fingerprint, "at": cell.at})


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    """A sweep of four cells, finished."""
    outputs = Outputs(tmp_path, "smoke")
    for cell in planned(config(tmp_path)).cells:
        outputs.write_cell(record(cell, cell_record(cell.at)), [])
    return outputs


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The labels of what a start would measure."""
    labels: list[str] = []

    def measure(driver: Driver, plan: Plan, todo: Plan, *rest: object) -> None:
        labels.extend(cell.at.label for cell in todo.cells)

    monkeypatch.setattr(Driver, "measure", measure)
    return labels


def cell_file(outputs: Outputs, part: str) -> Path:
    (path,) = [p for p in (outputs.folder / "cells").glob("*.json") if part in p.name]
    return path


def test_a_finished_sweep_starts_nothing(
    outputs: Outputs, tmp_path: Path, asked: list[str]
) -> None:
    assert run(config(tmp_path), []) == EXIT_OK
    assert asked == []


def test_what_was_not_ok_is_measured_again_unless_it_is_told_otherwise(
    outputs: Outputs, tmp_path: Path, asked: list[str]
) -> None:
    bad = planned(config(tmp_path)).cells[1]
    outputs.write_cell(record(bad, failed_record()), [])
    assert run(config(tmp_path, "retry=none"), []) == EXIT_CELLS_FAILED
    assert asked == []
    run(config(tmp_path), [])
    assert asked == [bad.at.label]


def test_a_changed_configuration_measures_only_what_changed(
    outputs: Outputs, tmp_path: Path, asked: list[str]
) -> None:
    run(config(tmp_path, "sweep.axes.k=[4,5]"), [])
    assert asked == [f"smollm2-135m/ngram-k5/{name}/c1" for name in ("chat", "echo")]


def torn(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize("damage", [torn, lambda text: "", lambda text: "\0" * len(text)])
def test_a_damaged_record_is_set_aside_named_and_its_cell_measured_again(
    outputs: Outputs,
    tmp_path: Path,
    asked: list[str],
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[str], str],
) -> None:
    path = cell_file(outputs, "ngram-k4--echo")
    damaged = damage(path.read_text())
    path.write_text(damaged)
    run(config(tmp_path), [])
    assert asked == ["smollm2-135m/ngram-k4/echo/c1"]
    aside = path.with_name(f"{path.name}.damaged")
    assert aside.read_text() == damaged
    assert not path.exists()
    assert aside.name in capsys.readouterr().err.replace("\n", "")


def test_a_dry_run_touches_no_damaged_record(outputs: Outputs, tmp_path: Path) -> None:
    path = cell_file(outputs, "ngram-k4--echo")
    path.write_text("")
    assert run(config(tmp_path, "dry_run=true"), []) == EXIT_OK
    assert path.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [({"schema_version": 0}, "schema 0, this one reads 1"), ({"novel": 1}, "it holds 'novel'")],
)
def test_a_record_of_another_version_is_refused_by_name_and_left_where_it_is(
    outputs: Outputs, tmp_path: Path, asked: list[str], change: dict[str, int], said: str
) -> None:
    path = cell_file(outputs, "none--chat")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(OtherVersionError, match=f"{path.name}.*another version.*{said}"):
        run(config(tmp_path), [])
    assert path.exists()
    assert asked == []


def test_what_a_killed_start_left_half_written_goes_and_it_is_told_as_interrupted(
    outputs: Outputs, tmp_path: Path, asked: list[str]
) -> None:
    killed = start_record("20260101T000000000000-aaaaaa").model_copy(update={"outcome": "running"})
    outputs.write_start(killed)
    half_written = outputs.folder / "cells" / ".cell.json.123.tmp"
    half_written.write_text("{")
    run(config(tmp_path), [])
    assert not half_written.exists()
    assert [s.outcome for s in outputs.starts()] == ["interrupted"]
