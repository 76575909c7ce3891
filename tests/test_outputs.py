from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import EXIT_NO_INFRASTRUCTURE
from pipeline.host.series import Sample
from pipeline.outputs import (
    OtherVersionError,
    Outputs,
    RecordError,
    cell_name,
    read,
    write_atomically,
)
from pipeline.records import CellRecord
from tests.factories import cell_record, coordinates, failed_record, one_pass, plan, start_record


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path, "demo")


def test_a_cell_comes_back_as_it_was_written_with_its_requests(outputs: Outputs) -> None:
    record = cell_record()
    outputs.write_cell(record, [one_pass()])
    assert outputs.cells() == (record,)
    assert outputs.requests(cell_name(record)) == one_pass().requests


LINES = ("requests", "telemetry")


def test_a_failed_cell_has_a_record_and_no_requests(outputs: Outputs) -> None:
    outputs.write_cell(failed_record(), [])
    assert [r.status for r in outputs.cells()] == ["FAILED"]
    assert outputs.requests(cell_name(failed_record())) == ()


def test_a_cell_that_failed_where_it_was_measured_before_keeps_nothing_of_that(
    outputs: Outputs,
) -> None:
    throttled = cell_record().model_copy(update={"status": "THROTTLED"})
    outputs.write_cell(
        throttled,
        [one_pass()],
        companion=[one_pass()],
        series=[Sample(at_s=0.0, memory_available_bytes=5)],
    )
    written = {folder: [*(outputs.folder / folder).iterdir()] for folder in LINES}
    assert all(written.values())
    failed = throttled.model_copy(update={"status": "FAILED"})
    outputs.write_cell(failed, [])
    assert {folder: [*(outputs.folder / folder).iterdir()] for folder in LINES} == {
        folder: [] for folder in LINES
    }


def test_measuring_a_cell_again_replaces_its_record(outputs: Outputs) -> None:
    outputs.write_cell(failed_record(), [])
    outputs.write_cell(cell_record(), [one_pass()])
    assert [r.status for r in outputs.cells()] == ["OK"]


def test_cells_of_the_same_name_with_another_fingerprint_stand_beside_each_other(
    outputs: Outputs,
) -> None:
    outputs.write_cell(cell_record(), [])
    outputs.write_cell(cell_record().model_copy(update={"fingerprint": "f" * 64}), [])
    assert len(outputs.cells()) == 2


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[: len(text) // 2], lambda text: "", lambda text: '{"schema_version": 1}'],
    ids=["torn", "empty", "another record"],
)
def test_a_damaged_record_is_named_and_never_half_read(outputs: Outputs, damage: object) -> None:
    outputs.write_cell(cell_record(), [])
    (path,) = (outputs.folder / "cells").iterdir()
    assert callable(damage)
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=f"{path.name}.*move it away") as caught:
        outputs.cells()
    assert caught.value.exit_code == EXIT_NO_INFRASTRUCTURE


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cell.json"
    newer = json.loads(cell_record().model_dump_json()) | {"schema_version": 2}
    path.write_text(json.dumps(newer))
    with pytest.raises(OtherVersionError, match="schema 2, this one reads 1"):
        read(path, CellRecord)


def test_a_write_that_fails_leaves_the_file_before_it_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "after \ud800")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_plan_and_the_starts_are_kept(outputs: Outputs) -> None:
    outputs.write_plan(plan(coordinates()))
    outputs.write_start(start_record("20260101T000000-a", "interrupted"))
    outputs.write_start(start_record("20260102T000000-b"))
    assert [s.outcome for s in outputs.starts()] == ["interrupted", "finished"]
    assert (outputs.folder / "plan.json").is_file()


def test_a_file_name_tells_a_person_which_cell_it_is() -> None:
    assert cell_name(cell_record()).startswith("tiny--ngram-k2--echo--c1.")
