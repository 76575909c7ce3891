"""What a group's task delivers, and what of it is lost when the task is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.execution.dispatch import MAX_ATTEMPTS
from pipeline.execution.events import (
    CellDone,
    CellLost,
    Event,
    GroupEnded,
    GroupJob,
    StartDone,
)
from pipeline.execution.faults import diagnosed, is_retried
from pipeline.execution.measure import failed
from pipeline.records import Failure

_TAIL_LINES = 25


class Delivery:
    """One task's stream of events on its way to the driver.

    Args:
        job: what the task was given.
        earlier: by fingerprint, why an earlier attempt at a cell was lost.
    """

    def __init__(self, job: GroupJob, earlier: Mapping[str, Failure]) -> None:
        self.job = job
        self._earlier = earlier
        self._missing = {cell.fingerprint: cell for cell in job.group.cells}
        self._log = ""
        self.measured: set[str] = set()
        self.lost: dict[str, Failure] = {}

    def take(self, event: Event) -> Event:
        """The event as the driver is to see it: a lost cell that is tried again is no record."""
        if isinstance(event, StartDone):
            self._log = event.log
        if not isinstance(event, CellDone):
            return event
        record = event.record
        self._missing.pop(record.fingerprint, None)
        if record.failure is None:
            self.measured.add(record.fingerprint)
        else:
            failure = diagnosed(record.failure)
            record = record.model_copy(update={"failure": failure})
            if is_retried(failure) and self.job.attempt < MAX_ATTEMPTS:
                self.lost[record.fingerprint] = failure
                return CellLost(record=record)
        if cause := self._earlier.get(record.fingerprint):
            record = record.model_copy(update={"earlier": (cause,)})
        return event.model_copy(update={"record": record})

    def lose(self, kind: str, message: str) -> Iterator[Event]:
        """The task is lost: an event for each cell it had not delivered, and its end."""
        tail = tuple(self._log.splitlines()[-_TAIL_LINES:])
        failure = Failure(kind=kind, message=message, log_tail=tail)
        for cell in list(self._missing.values()):
            yield self.take(failed(self.job, cell, failure, None, self.job.place))
        yield GroupEnded(group=self.job.group.id, log=f"{self._log}\n{message}\n")
