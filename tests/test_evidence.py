"""What is judged is what lies on disk, each cell with its own baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.evidence import gather
from pipeline.outputs import Outputs, cell_name, companion_name
from pipeline.platforms import Pairing
from pipeline.records import CellRecord, Companion, RescoredOutput
from tests.factories import cell_record, coordinates, failed_record, one_pass, start_record

SCORED = RescoredOutput(prompt_id="echo-1", repeat=0, gaps=(0.0,), logprobs=(-0.1,))
FLOOR = RescoredOutput(prompt_id="echo-1", repeat=0, gaps=(0.2,), logprobs=(-0.3,))


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    outputs = Outputs(tmp_path, "demo")
    outputs.write_start(start_record())
    return outputs


def measured(pairing: Pairing) -> CellRecord:
    return cell_record().model_copy(update={"pairing": pairing, "node": "box"})


def reference(role: str, node: str = "box", dataset: str = "echo") -> CellRecord:
    at = coordinates("none", 0, dataset)
    return cell_record(at).model_copy(update={"role": role, "node": node})


def test_an_interleaved_cell_is_judged_with_its_companion(outputs: Outputs) -> None:
    record = measured("interleaved")
    assert record.counts is not None
    companion = Companion(status="OK", counts=record.counts, metrics={}, costs=())
    record = record.model_copy(update={"companion": companion})
    outputs.write_cell(record, [one_pass()], [one_pass()])
    outputs.write_rescored(cell_name(record), [SCORED])
    outputs.write_rescored(companion_name(record), [FLOOR])
    (found,) = gather(outputs)
    assert found.record == record
    assert (found.rescored, found.floor) == ((SCORED,), (FLOOR,))
    assert found.agreement is not None
    assert found.agreement.same == found.agreement.outputs == 1
    assert found.greedy


def test_a_bracketed_cell_is_judged_with_both_ends_of_its_own_node(outputs: Outputs) -> None:
    record = measured("bracketed")
    outputs.write_cell(record, [one_pass()])
    ends = [reference("opening"), reference("closing")]
    others = [reference("opening", node="other"), reference("closing", dataset="chat")]
    for one in (*ends, *others):
        outputs.write_cell(one, [one_pass()])
    outputs.write_rescored(cell_name(record), [SCORED])
    outputs.write_rescored(cell_name(ends[1]), [FLOOR])
    (found,) = gather(outputs)
    assert [found.opening, found.closing] == ends
    assert (found.rescored, found.floor) == ((SCORED,), (FLOOR,))


def test_ends_of_another_start_say_nothing_of_a_cell(outputs: Outputs) -> None:
    outputs.write_cell(measured("bracketed"), [one_pass()])
    outputs.write_cell(
        reference("opening").model_copy(update={"start_id": "another"}), [one_pass()]
    )
    (found,) = gather(outputs)
    assert found.opening is None


def test_a_baseline_and_a_failed_cell_stand_alone(outputs: Outputs) -> None:
    outputs.write_cell(cell_record(coordinates("none", 0)), [one_pass()])
    outputs.write_cell(failed_record(), [])
    for found in gather(outputs):
        assert found.agreement is None
        assert not found.rescored


def test_only_the_cells_that_are_asked_for_are_gathered(outputs: Outputs) -> None:
    outputs.write_cell(cell_record(), [one_pass()])
    outputs.write_cell(cell_record(coordinates("none", 0)), [one_pass()])
    (found,) = gather(outputs, {cell_record().fingerprint})
    assert found.record == cell_record()


def test_sampling_is_read_from_the_start_that_measured_the_cell(outputs: Outputs) -> None:
    start = start_record()
    sampled = {**start.config, "measure": {"sampling": {"temperature": 0.7}}}
    outputs.write_start(start.model_copy(update={"config": sampled}))
    outputs.write_cell(cell_record(), [one_pass()])
    (found,) = gather(outputs)
    assert not found.greedy


def rescored_cell(outputs: Outputs, start_id: str, dataset: str = "echo") -> CellRecord:
    record = cell_record(coordinates(dataset=dataset), start_id=start_id)
    record = record.model_copy(update={"pairing": "bracketed", "node": "box"})
    outputs.write_cell(record, [one_pass()])
    outputs.write_rescored(cell_name(record), [SCORED])
    return record


def test_what_no_start_tells_the_sampling_of_is_not_judged_for_it(outputs: Outputs) -> None:
    rescored_cell(outputs, "lost")
    (found,) = gather(outputs)
    assert not found.rescored


def test_a_cell_of_a_lost_start_was_sampled_as_the_others_of_its_plan(outputs: Outputs) -> None:
    start = start_record()
    sampled = {**start.config, "measure": {"sampling": {"temperature": 0.7}}}
    outputs.write_start(start.model_copy(update={"config": sampled}))
    asked = [
        rescored_cell(outputs, "lost").fingerprint,
        rescored_cell(outputs, start.start_id, "chat").fingerprint,
    ]
    assert [(one.greedy, one.rescored) for one in gather(outputs, asked)] == [
        (False, (SCORED,)),
        (False, (SCORED,)),
    ]
