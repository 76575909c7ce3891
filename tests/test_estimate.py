from __future__ import annotations

import pytest

from pipeline.estimate import estimate
from pipeline.plan import Plan
from pipeline.prompts import Prompt, PromptSet
from pipeline.spec import Assumptions
from tests.factories import cell_record, coordinates, failed_record, plan

ASSUME = Assumptions(engine_start_s=20, decode_tok_s=10)
ECHO = PromptSet(
    name="echo",
    system=None,
    digest="0",
    prompts=tuple(Prompt(id=str(i), category="x", text="t", max_tokens=50) for i in range(4)),
)
BASE, NGRAM = coordinates("none", 0), coordinates("ngram", 2)


@pytest.fixture
def two_cells() -> Plan:
    return plan(BASE, NGRAM)


def test_without_history_every_token_and_start_is_assumed_and_said_so(two_cells: Plan) -> None:
    expected = estimate(two_cells, {}, {"echo": ECHO}, 3, ASSUME, [])
    assert expected.engine_start_s == 2 * 20
    assert expected.generation_s == 2 * (4 * 50 * 3 / 10)
    assert expected.total_s == expected.engine_start_s + expected.generation_s
    assert expected.basis.startswith("assuming 10 tok/s and 20 s per start")


def test_a_recorded_cell_gives_its_own_time_and_its_model_s_start(two_cells: Plan) -> None:
    history = [cell_record(BASE), cell_record(NGRAM)]
    expected = estimate(two_cells, {}, {"echo": ECHO}, 3, ASSUME, history)
    assert expected.generation_s == sum(r.measured_s for r in history)
    assert expected.engine_start_s == 2 * 10.0
    assert expected.basis == "from recorded cells"


def test_another_cell_of_the_same_method_gives_its_speed(two_cells: Plan) -> None:
    elsewhere = cell_record(coordinates("none", 0, dataset="chat"), decode=40.0)
    expected = estimate(two_cells, {}, {"echo": ECHO}, 1, ASSUME, [elsewhere])
    assert expected.generation_s == 200 / 40 + 200 / 10
    assert expected.cells_from_history == 0


def test_some_of_both_is_told_as_some_of_both(two_cells: Plan) -> None:
    expected = estimate(two_cells, {}, {"echo": ECHO}, 1, ASSUME, [cell_record(BASE)])
    assert expected.basis.startswith("1 of 2 cells recorded")


def test_a_failed_cell_teaches_nothing(two_cells: Plan) -> None:
    failed = [failed_record(BASE)]
    told, untold = (
        estimate(two_cells, {}, {"echo": ECHO}, 1, ASSUME, history) for history in (failed, [])
    )
    assert told == untold


def test_a_method_interleaved_with_its_baseline_takes_both_engines_and_both_times(
    two_cells: Plan,
) -> None:
    expected = estimate(two_cells, two_cells.baselines, {"echo": ECHO}, 3, ASSUME, [])
    assert expected.engine_starts == 3
    assert expected.generation_s == 3 * (4 * 50 * 3 / 10)


def test_a_bracketed_model_s_baseline_is_measured_once_more_at_the_end(two_cells: Plan) -> None:
    bracketed = two_cells.model_copy(update={"pairing": "bracketed"})
    expected = estimate(bracketed, bracketed.baselines, {"echo": ECHO}, 3, ASSUME, [])
    assert expected.engine_starts == 3
    assert expected.generation_s == 3 * (4 * 50 * 3 / 10)


def test_a_bracket_is_opened_again_where_the_baseline_s_own_cells_are_done(
    two_cells: Plan,
) -> None:
    bracketed = two_cells.model_copy(update={"pairing": "bracketed"})
    baseline, method = bracketed.groups
    left = bracketed.model_copy(update={"groups": (method,)})
    expected = estimate(left, {"tiny": baseline}, {"echo": ECHO}, 3, ASSUME, [])
    assert expected.engine_starts == 3


def test_without_a_baseline_in_the_sweep_nothing_is_paired(two_cells: Plan) -> None:
    _, method = two_cells.groups
    alone = two_cells.model_copy(update={"groups": (method,)})
    assert estimate(alone, {}, {"echo": ECHO}, 3, ASSUME, []).engine_starts == 1
