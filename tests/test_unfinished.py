"""A cell on disk is not done before its baseline is, and its outputs are scored.

Everything is real but the groups, which are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.analysis.judging import find
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_OK
from pipeline.evidence import gather
from pipeline.execution.events import CellDone, Event, GroupJob, Rescored
from pipeline.execution.measure import failed
from pipeline.execution.runner import Measure
from pipeline.outputs import Outputs
from pipeline.records import Failure
from tests.execution.simulated import simulated_refusal
from tests.paired import (
    noting,
    paired_cell,
    paired_group,
    stopped_before,
    without_scores,
)
from tests.sweeps import SimulatedSweep

BRACKETED = "platform.pairing=bracketed"


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedSweep:
    return SimulatedSweep(monkeypatch, tmp_path / "outputs", "tracking=off")


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "outputs", "smoke")


def jobs_of(sweep: SimulatedSweep, *arguments: str, measure: Measure = paired_group) -> list[str]:
    """What a command had to do: a role, and the number of its cells and of outputs to score."""
    jobs: list[GroupJob] = []
    assert sweep.run(*arguments, measure=noting(jobs, measure)) == EXIT_OK
    return [f"{job.role} {len(job.group.cells)}+{len(job.rescore)}" for job in jobs]


def interrupt(sweep: SimulatedSweep, *arguments: str, measure: Measure) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep.run(*arguments, measure=measure)


def verdicts(outputs: Outputs) -> set[str]:
    return {one.comparison.verdict for one in find(gather(outputs)).cells if one.comparison}


def unchecked(outputs: Outputs) -> list[str]:
    """Methods' cells whose losslessness is not known."""
    cells = find(gather(outputs)).cells
    return [one.record.at.label for one in cells if one.comparison and one.lossless is None]


def after(number: int, *, role: str = "cells") -> Measure:
    """Stopped once so many cells of a role are on disk."""
    seen: list[Event] = []

    def condition(job: GroupJob, event: Event) -> bool:
        if len(seen) == number:
            return True
        if isinstance(event, CellDone) and job.role == role:
            seen.append(event)
        return False

    return stopped_before(condition)


def closing_at(baseline_s: float) -> Measure:
    def measure(job: GroupJob) -> Iterator[Event]:
        cells = iter(range(len(job.group.cells)))
        for event in paired_group(job):
            again = isinstance(event, CellDone) and job.role == "closing"
            yield paired_cell(job, next(cells), baseline_s) if again else event

    return measure


def failing_closing(job: GroupJob) -> Iterator[Event]:
    for event in paired_group(job):
        if isinstance(event, CellDone) and job.role == "closing":
            cell = next(c for c in job.group.cells if c.fingerprint == event.record.fingerprint)
            yield failed(job, cell, Failure(kind="PREFLIGHT", message="simulated"), None, job.place)
        elif not isinstance(event, Rescored):
            yield event


def test_a_bracket_that_was_cut_is_measured_again_with_both_ends_by_the_same_command(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sweep, BRACKETED, measure=after(1))
    assert verdicts(outputs) == {"not comparable"}
    capsys.readouterr()
    assert jobs_of(sweep, BRACKETED) == ["opening 2+0", "cells 2+0", "closing 2+2"]
    told = capsys.readouterr()
    assert (
        "of 1 cell the baseline was not measured before and after, so that nothing can be compared:"
        " it is measured again"
    ) in told.out
    assert "before and after" not in told.err
    assert verdicts(outputs).isdisjoint({"not comparable", "no baseline"})
    assert unchecked(outputs) == []
    assert jobs_of(sweep, BRACKETED) == []


def test_an_interrupt_between_the_cells_and_their_closing_costs_no_verdict(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    interrupt(sweep, BRACKETED, measure=after(1, role="closing"))
    assert jobs_of(sweep, BRACKETED) == ["opening 1+0", "cells 1+0", "closing 1+3"]
    assert verdicts(outputs).isdisjoint({"not comparable", "no baseline"})
    assert jobs_of(sweep, BRACKETED) == []


def test_a_cell_measured_again_for_its_baseline_is_not_lost_where_that_fails(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sweep, BRACKETED, measure=after(2))
    before = {record.fingerprint: record for record in outputs.cells()}
    requests = outputs.names("requests")
    full = simulated_refusal("DISK_FULL", lambda job: job.role == "cells", paired_group)
    jobs_of(sweep, BRACKETED, measure=full)
    now = {record.fingerprint: record for record in outputs.cells()}
    methods = [f for f, record in before.items() if record.at.method != "none"]
    assert [now[f] for f in methods] == [before[f] for f in methods]
    assert requests <= outputs.names("requests")
    assert "they are made up for by the same command" in capsys.readouterr().err
    assert jobs_of(sweep, BRACKETED) == ["opening 2+0", "cells 2+0", "closing 2+2"]


def test_what_is_not_to_be_retried_is_left_without_its_baseline_and_named(
    sweep: SimulatedSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sweep, BRACKETED, measure=after(2))
    assert jobs_of(sweep, BRACKETED, "retry=none") == []
    assert "of 2 cells the baseline" in (out := capsys.readouterr().out)
    assert "they are left so by retry=none" in out


def test_a_dry_run_tells_what_will_be_measured_again(
    sweep: SimulatedSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sweep, BRACKETED, measure=after(2))
    assert jobs_of(sweep, BRACKETED, "dry_run=true") == []
    assert "of 2 cells the baseline" in capsys.readouterr().out


def test_a_whole_bracket_that_drifted_is_not_measured_again(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    assert jobs_of(sweep, BRACKETED, measure=closing_at(0.06))
    assert verdicts(outputs) == {"not comparable"}
    assert jobs_of(sweep, BRACKETED) == []


def test_a_closing_that_failed_is_told_at_the_end_and_made_up_for(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs_of(sweep, BRACKETED, measure=failing_closing)
    assert "they are made up for by the same command" in capsys.readouterr().err
    assert jobs_of(sweep, BRACKETED) == ["opening 2+0", "cells 2+0", "closing 2+2"]
    assert verdicts(outputs).isdisjoint({"not comparable", "no baseline"})


def test_a_method_measured_alone_is_measured_again_once_its_baseline_is_in_the_sweep(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    assert jobs_of(sweep, "method=ngram") == ["cells 2+0"]
    assert jobs_of(sweep, "method=ngram") == []
    assert jobs_of(sweep) == ["cells 2+0", "cells 2+0"]
    assert verdicts(outputs).isdisjoint({"not comparable", "no baseline"})


def test_a_search_over_k_that_was_cut_is_completed_with_its_baselines(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    search = (BRACKETED, "sweep.search=choose_k", "sweep.axes.k=[2,4,6]")
    interrupt(sweep, *search, measure=after(4))
    assert len(outputs.cells()) == 6
    done = jobs_of(sweep, *search)
    assert (done[0], done[-1]) == ("opening 2+0", "closing 2+4")
    assert verdicts(outputs).isdisjoint({"not comparable", "no baseline"})
    assert jobs_of(sweep, *search) == []


def scoring(number: int) -> Measure:
    """Stopped before so many outputs and one are scored."""
    seen: list[Event] = []

    def condition(job: GroupJob, event: Event) -> bool:
        if isinstance(event, Rescored):
            seen.append(event)
        return len(seen) > number

    return stopped_before(condition)


def test_scores_lost_with_cells_left_are_made_up_for_beside_them(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sweep, measure=scoring(0))
    assert jobs_of(sweep) == ["cells 1+2"]
    assert (
        "of 1 cell the outputs are not scored by the baseline's engine yet:"
        " it is scored without being measured again"
    ) in capsys.readouterr().out
    assert unchecked(outputs) == []
    assert jobs_of(sweep) == []


@pytest.mark.parametrize("number", [2, 3], ids=["both sides", "the baseline's side"])
def test_scores_lost_at_the_end_take_an_engine_start_and_no_measurement(
    sweep: SimulatedSweep, outputs: Outputs, number: int
) -> None:
    interrupt(sweep, measure=scoring(number))
    cells = outputs.cells()
    assert unchecked(outputs) != []
    assert jobs_of(sweep) == [f"cells 0+{4 - number}"]
    assert outputs.cells() == cells
    assert unchecked(outputs) == []
    assert jobs_of(sweep) == []


def test_scores_lost_after_a_closing_leave_its_bracket_whole(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    interrupt(sweep, BRACKETED, measure=scoring(2))
    cells = outputs.cells()
    assert jobs_of(sweep, BRACKETED) == ["cells 0+2"]
    assert outputs.cells() == cells
    assert unchecked(outputs) == []
    assert jobs_of(sweep, BRACKETED) == []


def test_a_log_of_mere_scoring_lies_beside_the_baselines(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    interrupt(sweep, measure=scoring(2))
    jobs_of(sweep)
    assert outputs.log_path("smollm2-135m--none.scoring").is_file()


def test_an_engine_that_dies_scoring_leaves_it_to_the_next_ones_and_then_to_the_command(
    sweep: SimulatedSweep, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    two_k = "sweep.axes.k=[4,5]"
    done = jobs_of(sweep, two_k, measure=without_scores)
    assert done == ["cells 2+0", "cells 2+0", "cells 2+4", "cells 0+8"]
    assert "of 4 cells the outputs are not scored" in capsys.readouterr().err
    assert jobs_of(sweep, two_k) == ["cells 0+8"]
    assert unchecked(outputs) == []


def refusing(*numbers: int, measure: Measure = paired_group) -> Measure:
    """Groups of these K do not start."""
    return simulated_refusal("REFUSED", lambda job: job.group.k in numbers, measure)


@pytest.mark.parametrize("pairing", ["platform.pairing=interleaved", BRACKETED])
def test_scores_are_made_up_for_though_all_that_is_left_of_the_model_fails(
    sweep: SimulatedSweep, outputs: Outputs, pairing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (pairing, "sweep.axes.k=[2,4]")
    assert sweep.run(*asked, measure=refusing(4, measure=without_scores)) == EXIT_CELLS_FAILED
    assert "not scored" in capsys.readouterr().err
    jobs: list[GroupJob] = []
    assert sweep.run(*asked, measure=noting(jobs, refusing(4))) == EXIT_CELLS_FAILED
    assert [len(job.group.cells) for job in jobs][-1] == 0
    assert "not scored" not in capsys.readouterr().err
    assert {"k4"} == {label.split("/")[1][-2:] for label in unchecked(outputs)}


def test_an_engine_that_did_not_start_is_no_try_at_scoring(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    asked = ("sweep.axes.k=[2,3,4,5]",)
    interrupt(sweep, *asked, measure=scoring(2))
    jobs: list[GroupJob] = []
    assert sweep.run(*asked, measure=noting(jobs, refusing(3, 4))) == EXIT_CELLS_FAILED
    assert [len(job.rescore) > 0 for job in jobs] == [True, True, True]
    assert {"k3", "k4"} == {label.split("/")[1][-2:] for label in unchecked(outputs)}


def test_what_is_not_to_be_retried_is_not_scored(sweep: SimulatedSweep) -> None:
    jobs_of(sweep, measure=without_scores)
    assert jobs_of(sweep, "retry=none") == []


def test_outputs_that_nothing_can_score_start_no_engine(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    jobs_of(sweep, measure=without_scores)
    for path in (outputs.folder / "requests").iterdir():
        path.unlink()
    assert jobs_of(sweep) == []


def test_scores_of_outputs_that_were_replaced_are_not_kept(
    sweep: SimulatedSweep, outputs: Outputs
) -> None:
    jobs_of(sweep)
    for path in (outputs.folder / "cells").glob("*ngram*"):
        path.unlink()
    jobs_of(sweep, measure=without_scores)
    assert not outputs.names("rescored")
