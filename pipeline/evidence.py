"""What lies on disk about each cell of a sweep, brought together to be judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from pipeline.analysis.findings import Evidence
from pipeline.analysis.losslessness import Agreement, agreement
from pipeline.outputs import Outputs, cell_name, companion_name
from pipeline.records import CellRecord, RequestRecord


class Ends(NamedTuple):
    """The baseline at the two ends of a cell's share of its node; None where it is missing."""

    opening: CellRecord | None = None
    closing: CellRecord | None = None


Place = tuple[str, str | None, str, str, int]


class Brackets:
    """The baselines that bracket cells, found by what the two have in common."""

    def __init__(self, references: Iterable[CellRecord]) -> None:
        self._roles = {(r.role, _place(r)): r for r in references}

    def around(self, record: CellRecord) -> Ends:
        """Its two ends, whatever became of them."""
        place = _place(record)
        opening, closing = (self._roles.get((role, place)) for role in ("opening", "closing"))
        # A place may be given more once it has closed; its closing then says nothing of that.
        after = closing is not None and _moment(record) <= _moment(closing)
        return Ends(opening, closing if after else None)


def _moment(record: CellRecord) -> datetime:
    return datetime.fromisoformat(record.started_at)


def _place(record: CellRecord) -> Place:
    """What a cell shares with the baselines measured beside it: start and node, same prompts."""
    at = record.at
    return record.start_id, record.node, at.model, at.dataset, at.concurrency


def gather(outputs: Outputs, fingerprints: Collection[str] | None = None) -> tuple[Evidence, ...]:
    """Each cell with its references, its rescored outputs and its agreement with the baseline.

    Args:
        fingerprints: the cells that are asked for; all of the folder where None.

    Raises:
        RecordError: a record cannot be read.
    """
    records = [r for r in outputs.cells() if fingerprints is None or r.fingerprint in fingerprints]
    brackets = Brackets(outputs.references())
    greedy = {start.start_id: _greedy(start.config) for start in outputs.starts()}
    # The cells of one plan share their sampling, so that others tell what a lost start knew.
    told = {greedy[r.start_id] for r in records if r.start_id in greedy}
    shared = told.pop() if fingerprints is not None and len(told) == 1 else None
    return tuple(
        _evidence(outputs, record, brackets, greedy.get(record.start_id, shared))
        for record in records
    )


def _greedy(config: object) -> bool:
    match config:
        case {"measure": {"sampling": {"temperature": int() | float() as temperature}}}:
            return temperature == 0
    return True


def _evidence(
    outputs: Outputs, record: CellRecord, brackets: Brackets, greedy: bool | None
) -> Evidence:
    if record.pairing is None or record.status != "OK":
        return Evidence(record=record, greedy=greedy is not False)
    ends = brackets.around(record)
    name, baseline = cell_name(record), baseline_name(record, ends)
    # Greedy and sampled outputs are judged differently: not at all where nobody knows which.
    return Evidence(
        record=record,
        opening=ends.opening,
        closing=ends.closing,
        rescored=outputs.rescored(name) if greedy is not None else (),
        floor=outputs.rescored(baseline) if baseline else (),
        agreement=_agreement(outputs, name, baseline) if baseline else None,
        greedy=greedy is not False,
    )


def baseline_name(record: CellRecord, ends: Ends) -> str | None:
    """Under which name the baseline's own outputs lie; None where it was not measured beside it."""
    if record.companion is not None:
        return companion_name(record)
    return cell_name(ends.closing) if ends.closing is not None else None


def _agreement(outputs: Outputs, name: str, baseline: str) -> Agreement | None:
    ours, theirs = _texts(outputs.requests(name)), _texts(outputs.requests(baseline))
    return agreement(ours, theirs) if ours and theirs else None


def _texts(requests: Iterable[RequestRecord]) -> dict[str, tuple[int, ...]]:
    return {f"{r.prompt_id}/{r.repeat}": r.output_token_ids for r in requests}
