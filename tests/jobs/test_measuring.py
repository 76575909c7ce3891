"""What a night measures, by the hours it has."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jobs import folders, measuring, nightly
from jobs.measuring import Measuring, NoRoomError, OwnPlaceError, SearchError
from jobs.night import Measured
from jobs.reading import Planned
from jobs.suite import ConsoleChannel, Suite
from tests.jobs.nights import cell
from tests.jobs.test_budget import PLAN, seconds
from tests.jobs.test_nightly import suite_in

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """By sweep that a night runs, the cells that it does not skip; they take what is stated."""
    rounds: list[set[str]] = []

    def run(config: object, argv: object, skip: object) -> int:
        skipped = skip(PLAN, {})  # type: ignore[operator]
        rounds.append({c.at.label for c in PLAN.cells if c.fingerprint not in skipped})
        return 0

    def reported(_: object, planned: Planned) -> tuple[Measured, ...]:
        return tuple(
            cell(c.at).model_copy(update={"fingerprint": c.fingerprint})
            for c in planned.plan.cells
            if c.at.label in rounds[-1]
        )

    monkeypatch.setattr(measuring, "run", run)
    monkeypatch.setattr(measuring, "measured", reported)
    monkeypatch.setattr(Measuring, "_seconds", lambda self, plan, prompts: seconds(plan))
    return rounds


def suite_of(sweep: str = "smoke", **changes: Any) -> Suite:
    command, tell = (f"+sweep={sweep}",), (ConsoleChannel(kind="console"),)
    return Suite(**{"name": "mine", "command": command, "budget_hours": 1, "tell": tell} | changes)


def night_of(budget_s: float, *priority: str, starts: int = 1) -> Measuring:
    suite = suite_of(budget_hours=budget_s / 3600, priority=priority, starts=starts)
    return Measuring(suite, (), NOW)


def test_a_fifth_of_the_hours_is_kept_for_what_is_measured_again(
    measured: list[set[str]],
) -> None:
    whole = night_of(seconds(PLAN) / 0.8 + 1)
    whole.first()
    assert whole.left_out == ()
    tight = night_of(seconds(PLAN) + 1)
    tight.first()
    assert tight.left_out


def test_where_not_all_doubts_fit_the_dearest_are_measured_again(measured: list[set[str]]) -> None:
    night = night_of(seconds(PLAN) / 0.8 + 1, "*/mtp-*/b/*")
    night.first()
    night._began -= seconds(PLAN) / 0.8 + 1 - 100  # it took so long that 100 s are left
    night.again([c.fingerprint for c in PLAN.cells])
    assert measured[1:] == [{"tiny/mtp-k1/b/c1"}]


def test_where_no_doubt_fits_nothing_is_measured_again(measured: list[set[str]]) -> None:
    night = night_of(seconds(PLAN) / 0.8 + 1)
    night.first()
    night._began -= seconds(PLAN) / 0.8
    assert night.again([c.fingerprint for c in PLAN.cells]) == ()
    assert len(measured) == 1


def test_hours_with_room_for_no_cell_are_refused(measured: list[set[str]]) -> None:
    with pytest.raises(NoRoomError, match="has room for no cell") as caught:
        night_of(1.0).first()
    # A start and a cell, 90 s, are four fifths of 0.03125 h; the whole plan, 360 s, of 0.125 h.
    assert "0.04 h or more for the shortest cell, 0.13 h for all" in str(caught.value)
    assert "dry_run=true" in str(caught.value)
    night_of(0.04 * 3600).first()


def test_hours_that_are_named_for_all_cells_leave_none_out(measured: list[set[str]]) -> None:
    whole = night_of(0.13 * 3600)
    whole.first()
    assert whole.left_out == ()


def test_every_further_start_measures_what_the_first_one_did(measured: list[set[str]]) -> None:
    night = night_of(2 * seconds(PLAN) / 0.8, starts=3)
    night.first()
    assert night.left_out
    night.more()
    assert len(measured) == 3
    assert measured[0] == measured[1] == measured[2]


def test_cells_that_a_further_start_has_no_time_for_are_named(measured: list[set[str]]) -> None:
    night = night_of(3 * seconds(PLAN) / 0.8 + 1, starts=3)
    night.first()
    night._began -= 3 * seconds(PLAN) - 100
    night.more()
    assert [len(cells) for cells in measured[1:]] == [1, 1]
    assert {one.label for one in night.fewer_starts} == measured[0] - measured[1]
    assert len(night.fewer_starts) == len(PLAN.cells) - 1
    assert all(o.reason.startswith("start 2 of 3 of each engine: ") for o in night.fewer_starts)


def test_what_a_night_that_was_cut_has_is_never_left_out_and_its_hours_are_gone(
    measured: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {cell.fingerprint for cell in PLAN.cells[:2]}
    monkeypatch.setattr(folders, "taken_s", lambda *_: seconds(PLAN))
    monkeypatch.setattr(folders, "measured_in", lambda _: there)
    night = night_of(0.04 * 3600, starts=2)
    night.first()
    assert {one.label for one in night.left_out} == measured[0] ^ {c.at.label for c in PLAN.cells}
    assert {c.at.label for c in PLAN.cells[:2]} <= measured[0]
    monkeypatch.setattr(folders, "measured_in", lambda _: frozenset())
    assert night.more() == ()
    assert {one.label for one in night.fewer_starts} == measured[0]


def test_a_search_whose_cells_are_other_ones_every_night_is_refused() -> None:
    suite = suite_of("choose_k")
    with pytest.raises(SearchError, match="sweep choose_k searches for the best K"):
        Measuring(suite, (), NOW)
    Measuring(suite, ["sweep.search=grid"], NOW)


def test_a_further_start_that_cannot_be_made_costs_no_night(
    measured: list[set[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_of(10 * seconds(PLAN), starts=3)
    night.first()

    def busy(*_: object, **__: object) -> int:
        raise nightly.NightBusyError("another sweep")

    monkeypatch.setattr(measuring, "run", busy)
    assert night.more() == ()
    assert capsys.readouterr().err.count("start 2 of 3 of each engine: a night is running") == 1
    assert [one.at for one in night.fewer_starts] == [cell.at for cell in PLAN.cells]
    assert "a night is running" in night.fewer_starts[0].reason


def test_a_priority_that_no_cell_goes_by_is_named(
    measured: list[set[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    night_of(3600.0, "*/none/*", "*/mpt-*").first()
    told = "suite mine: priority: '*/mpt-*' matches no cell tonight\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("given", ["output_dir=x", "++output_dir=x"])
def test_a_night_keeps_its_own_place(given: str, measured: list[set[str]]) -> None:
    with pytest.raises(OwnPlaceError, match="a night is kept in outputs/nights/mine"):
        Measuring(suite_of(), [given], NOW)


def test_the_command_ends_with_2_before_any_engine_where_no_cell_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert nightly.main(suite_in(tmp_path / "conf", budget_hours=0.0001)) == 2
    assert "has room for no cell" in capsys.readouterr().err
