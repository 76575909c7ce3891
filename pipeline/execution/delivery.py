"""What a group's task delivers, and what of it is lost when the task is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pipeline.execution.assignment import MAX_ATTEMPTS, Outcome
from pipeline.execution.events import (
    CellDone,
    CellLost,
    Event,
    GroupEnded,
    GroupJob,
    StartDone,
)
from pipeline.execution.faults import diagnosed, is_refusal, is_retried
from pipeline.execution.measure import failed
from pipeline.execution.nodes import safe
from pipeline.records import Failure

_TAIL_LINES = 25


class Delivery:
    """One task's stream of events on its way to the driver.

    Args:
        job: what the task was given.
        earlier: by fingerprint, why earlier attempts at a cell came to nothing.
        elsewhere: whether another node could take what this one refuses.

    Attributes:
        lost, refused: by fingerprint, why a cell is to be tried again here or elsewhere.
    """

    def __init__(
        self,
        job: GroupJob,
        earlier: Mapping[str, tuple[Failure, ...]],
        elsewhere: Callable[[], bool],
    ) -> None:
        self.job = job
        self._earlier, self._elsewhere = earlier, elsewhere
        self._missing = {cell.fingerprint: cell for cell in job.group.cells}
        self._log = ""
        self._started = False
        self._measured: set[str] = set()
        self._untried: frozenset[str] = frozenset()
        self.lost: dict[str, Failure] = {}
        self.refused: dict[str, Failure] = {}

    @property
    def outcome(self) -> Outcome:
        """What became of the cells."""
        measured, lost, refused = map(frozenset, (self._measured, self.lost, self.refused))
        return Outcome(measured, lost, self._untried, refused)

    def take(self, event: Event) -> Event:
        """The event as the driver is to see it: a lost cell that is tried again is no record."""
        if isinstance(event, StartDone):
            self._log = event.log
            self._started |= event.ready
        if not isinstance(event, CellDone):
            return event
        record = event.record
        self._missing.pop(record.fingerprint, None)
        if record.failure is None:
            self._measured.add(record.fingerprint)
        else:
            failure = diagnosed(record.failure)
            record = record.model_copy(update={"failure": failure})
            if (again := self._again(failure)) is not None:
                again[record.fingerprint] = failure
                return CellLost(record=record)
        if causes := self._earlier.get(record.fingerprint):
            record = record.model_copy(update={"earlier": causes})
        return event.model_copy(update={"record": record})

    def lose(self, kind: str, message: str) -> Iterator[Event]:
        """The task is lost: an event for each cell that answers for it, and its end.

        Cells are measured in their order, so it was at the first that is missing; the others were
        not tried, and are not charged with an attempt. An engine start is common to all of them,
        and so is a node's refusal: a loss before any engine was ready counts against each, or a
        start that always takes its worker along would be repeated twice for every cell.
        """
        tail = tuple(self._log.splitlines()[-_TAIL_LINES:])
        failure = diagnosed(Failure(kind=kind, message=message, log_tail=tail))
        missing = list(self._missing.values())
        tried = 1 if self._started and not is_refusal(failure) else len(missing)
        self._untried = frozenset(cell.fingerprint for cell in missing[tried:])
        for cell in missing[:tried]:
            yield self.take(failed(self.job, cell, failure, None, safe(self.job.place)))
        yield GroupEnded(group=self.job.group.id, log=f"{self._log}\n{message}\n")

    def _again(self, failure: Failure) -> dict[str, Failure] | None:
        """Among which cells one that failed like this is tried again; None where it is not."""
        if is_retried(failure) and self.job.attempt < MAX_ATTEMPTS:
            return self.lost
        return self.refused if is_refusal(failure) and self._elsewhere() else None
