"""What measured cells still lack: the baseline beside them, or the score of their outputs.

Both come after a cell is on disk, so that a kill, a lost node or an engine that dies while it
scores leaves a cell that looks done and whose verdict would stay open for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from pipeline.evidence import Brackets, baseline_name
from pipeline.execution.rescore import is_scored
from pipeline.outputs import Outputs, cell_name
from pipeline.plan import Plan
from pipeline.records import CellRecord
from pipeline.spec import Sampling

# By model, the data set of each cell or reference whose outputs are to be scored, by its name.
Unscored = Mapping[str, Mapping[str, str]]
_BECOMES = {
    "now": ("measured again", "scored without being measured again"),
    "never": ("left so by retry=none",) * 2,
    "later": ("made up for by the same command",) * 2,
}


class Unfinished(NamedTuple):
    """Cells that are OK, and not done.

    Attributes:
        unpaired: fingerprints of cells that only measuring again can give a baseline.
        waiting: fingerprints of cells whose verdict waits for a score.
        unscored: the outputs that these wait for.
    """

    unpaired: frozenset[str]
    waiting: frozenset[str]
    unscored: Unscored

    def told(self, what: Literal["now", "never", "later"]) -> Iterator[str]:
        """A sentence for each of the two: what is lacking, and what becomes of it."""
        unpaired = "the baseline was not measured before and after, so that nothing can be compared"
        waiting = "the outputs are not scored by the baseline's engine yet"
        lacking = ((self.unpaired, unpaired), (self.waiting, waiting))
        for (cells, state), becomes in zip(lacking, _BECOMES[what], strict=True):
            if cells:
                many = len(cells) > 1
                them = f"of {len(cells)} cell{'s' if many else ''} {state}"
                yield f"{them}: {'they are' if many else 'it is'} {becomes}"


def unfinished(
    plan: Plan, records: Sequence[CellRecord], outputs: Outputs, sampling: Sampling
) -> Unfinished:
    """What the cells of a plan lack that its baselines could give them.

    A bracket is whole where both its ends are OK; whether it drifted is for the verdict to say.

    Raises:
        RecordError: a record cannot be read.
    """
    brackets, baselines = Brackets(outputs.references()), plan.baselines
    wanted = {c.fingerprint for c in plan.cells if c.at.model in baselines}
    paired = [
        r for r in records if r.fingerprint in wanted and r.status == "OK" and r.pairing is not None
    ]
    unpaired = frozenset(r.fingerprint for r in paired if not _has_baseline(r, brackets))
    there, scored = outputs.names("requests"), outputs.names("rescored")
    waiting: set[str] = set()
    unscored: dict[str, dict[str, str]] = {}
    for record in (r for r in paired if r.fingerprint not in unpaired):
        names = {cell_name(record), baseline_name(record, brackets.around(record))}
        for name in _told_by(outputs, (names & there) - scored, sampling):
            waiting.add(record.fingerprint)
            unscored.setdefault(record.at.model, {})[name] = record.at.dataset
    return Unfinished(unpaired, frozenset(waiting), unscored)


def _has_baseline(record: CellRecord, brackets: Brackets) -> bool:
    ends = brackets.around(record)
    return record.companion is not None or all(e is not None and e.status == "OK" for e in ends)


def _told_by(outputs: Outputs, names: Iterable[str | None], sampling: Sampling) -> Iterator[str]:
    """Those of some names under which there is anything to score."""
    for name in names:
        if name and any(is_scored(request, sampling) for request in outputs.requests(name)):
            yield name
