"""What lies on disk about each cell of a sweep, brought together to be judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.analysis.findings import Evidence
from pipeline.analysis.losslessness import Agreement, agreement
from pipeline.outputs import Outputs, cell_name, companion_name
from pipeline.records import CellRecord, RequestRecord


def gather(outputs: Outputs, fingerprints: Collection[str] | None = None) -> tuple[Evidence, ...]:
    """Each cell with its references, its rescored outputs and its agreement with the baseline.

    Args:
        fingerprints: the cells that are asked for; all of the folder where None.

    Raises:
        RecordError: a record cannot be read.
    """
    records = [r for r in outputs.cells() if fingerprints is None or r.fingerprint in fingerprints]
    references = outputs.references()
    sampling = {start.start_id: _greedy(start.config) for start in outputs.starts()}
    return tuple(
        _evidence(outputs, record, references, sampling.get(record.start_id, True))
        for record in records
    )


def _greedy(config: object) -> bool:
    match config:
        case {"measure": {"sampling": {"temperature": int() | float() as temperature}}}:
            return temperature == 0
    return True


def _evidence(
    outputs: Outputs, record: CellRecord, references: Iterable[CellRecord], greedy: bool
) -> Evidence:
    if record.pairing is None or record.status != "OK":
        return Evidence(record=record, greedy=greedy)
    ends = {r.role: r for r in references if _brackets(r, record)}
    opening, closing = ends.get("opening"), ends.get("closing")
    baseline = companion_name(record) if record.companion else closing and cell_name(closing)
    return Evidence(
        record=record,
        opening=opening,
        closing=closing,
        rescored=outputs.rescored(cell_name(record)),
        floor=outputs.rescored(baseline) if baseline else (),
        agreement=_agreement(outputs, cell_name(record), baseline) if baseline else None,
        greedy=greedy,
    )


def _brackets(reference: CellRecord, record: CellRecord) -> bool:
    """Whether a baseline was measured beside a cell: same start and node, same prompts."""
    return all(
        (
            reference.start_id == record.start_id,
            reference.node == record.node,
            reference.at.model == record.at.model,
            reference.at.dataset == record.at.dataset,
            reference.at.concurrency == record.at.concurrency,
        )
    )


def _agreement(outputs: Outputs, name: str, baseline: str) -> Agreement | None:
    ours, theirs = _texts(outputs.requests(name)), _texts(outputs.requests(baseline))
    return agreement(ours, theirs) if ours and theirs else None


def _texts(requests: Iterable[RequestRecord]) -> dict[str, tuple[int, ...]]:
    return {f"{r.prompt_id}/{r.repeat}": r.output_token_ids for r in requests}
