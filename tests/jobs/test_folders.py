"""Where nights lie, and how long one that was cut has taken."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs import folders
from pipeline.outputs import Outputs
from tests.factories import cell_record, start_record
from tests.jobs.nights import MTP, NGRAM

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("started", "judged", "goes_on"),
    [
        ("20261129T020000", False, True),
        ("20261129T020000", True, False),
        ("20261128T020000", False, False),
    ],
)
def test_a_night_that_was_cut_short_goes_on_within_twelve_hours(
    started: str, judged: bool, goes_on: bool, tmp_path: Path
) -> None:
    (tmp_path / started).mkdir()
    (tmp_path / "last").mkdir()
    if judged:
        (tmp_path / started / "judged").touch()
    now = datetime(2026, 11, 29, 8, tzinfo=UTC)
    assert folders.unfinished(tmp_path, now) == (started if goes_on else None)


def test_the_first_night_of_all_is_new(tmp_path: Path) -> None:
    assert folders.unfinished(tmp_path / "none", NOW) is None


def test_what_people_put_beside_the_nights_is_no_night(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    night = root / "20261129T010000"
    night.mkdir(parents=True)
    for name in ("20261130T134444.old", "20261399T000000", "2026113T13444", "last", "T", "copyTo"):
        (root / name / "first").mkdir(parents=True)
    (root / "20261201T010000").touch()
    assert folders.nights(root) == [night]
    assert folders.unfinished(root, NOW) == night.name


def test_a_night_s_starts_have_taken_their_time_and_a_killed_one_that_of_its_cells(
    tmp_path: Path,
) -> None:
    first, more = (Outputs(tmp_path / name, "demo") for name in ("first", "start-2"))
    first.write_start(start_record())
    first.write_cell(cell_record(NGRAM), ())
    more.write_start(start_record("killed", "interrupted").model_copy(update={"split": None}))
    more.write_cell(cell_record(MTP, start_id="killed"), ())
    assert folders.taken_s(tmp_path, "demo") == 60.0 + 9.0
    assert folders.taken_s(tmp_path / "none", "demo") == 0.0


def test_a_damaged_record_of_a_round_is_left_for_those_who_tell_of_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path / "first", "demo")
    outputs.write_start(start_record())
    (outputs.folder / "starts" / "torn.json").write_text("{")
    assert folders.taken_s(tmp_path, "demo") == 60.0
    assert (outputs.folder / "starts" / "torn.json").exists()
