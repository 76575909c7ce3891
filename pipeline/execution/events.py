"""What a group's task is given, and what it streams back to the driver."""

from __future__ import annotations

from typing import Literal

from pipeline.execution.messages import Output, PromptJob
from pipeline.host.series import Sample
from pipeline.plan import EngineConfig, EngineGroup
from pipeline.preflight.findings import Finding
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, PassRecord, RescoredOutput
from pipeline.spec import MeasureSpec, ModelSpec, Record

Role = Literal["cells", "opening", "closing"]


class TokeniseJob(Record):
    """Prompts to be turned into token ids by a model's own tokenizer and chat template."""

    model: ModelSpec
    prompt_sets: tuple[PromptSet, ...]
    measure: MeasureSpec


class Tokenised(Record):
    """The same token ids for every method of a model; or the sentence that says why not."""

    model: str
    datasets: dict[str, tuple[PromptJob, ...]]
    warmup: tuple[PromptJob, ...]
    error: str | None = None


class RescoreJob(Record):
    """Outputs of another group to be scored by this one's engine, and the name they lie under."""

    name: str
    outputs: tuple[Output, ...]


class GroupJob(Record):
    """One engine group with everything its task needs; nothing is looked up elsewhere.

    Attributes:
        place: the node it is for, as records name it; several are joined by a plus.
        role: `opening` and `closing` measure the baseline's cells at the two ends of a node's share
            of a model, as references for the methods measured between them.
        companion: the baseline's engine, to be kept resident beside the method's; None for the
            baseline itself, without a baseline in the sweep, and where platforms pair otherwise.
        rescore: what its engine without a drafter scores of cells measured before, last of all. A
            group without cells is there for that alone.
    """

    sweep: str
    start_id: str
    group: EngineGroup
    tokens: Tokenised
    measure: MeasureSpec
    # False where the driver, on the same machine, holds it for the whole sweep.
    take_machine: bool = True
    place: str = ""
    attempt: int = 1
    role: Role = "cells"
    companion: EngineConfig | None = None
    rescore: tuple[RescoreJob, ...] = ()

    @property
    def log_name(self) -> str:
        """Attempts and references log beside the group's own log, not over it."""
        again = f".attempt{self.attempt}" if self.attempt > 1 else ""
        role = f".{self.place}.{self.role}" if self.role != "cells" else ""
        return f"{self.group.id}{role}{again}"


class GroupStarting(Record):
    """A node has taken up a group and starts its engine."""

    group: str
    node: str


class StartDone(Record):
    """A group's engines started, well or not, and what they logged by then."""

    group: str
    engines: int
    ready: bool
    log: str


class CellDone(Record):
    """A cell's record, with its passes.

    Attributes:
        companion: the passes of the baseline that it was interleaved with.
        series: the host, second by second, while it was measured.
    """

    record: CellRecord
    passes: tuple[PassRecord, ...]
    companion: tuple[PassRecord, ...] = ()
    series: tuple[Sample, ...] = ()


class CellLost(Record):
    """A cell that infrastructure lost and that will be tried once more; the record is not kept."""

    record: CellRecord


class Rescored(Record):
    """Outputs as the plain engine scores them, by the name their requests lie under."""

    name: str
    outputs: tuple[RescoredOutput, ...]


class GroupEnded(Record):
    """The engine and all its processes are gone; what it logged on its node."""

    group: str
    log: str


class LeftoversEnded(Record):
    """Processes of an earlier run that nobody owned any more; what each was, in words."""

    node: str
    processes: tuple[str, ...]


class Doubted(Record):
    """What may spoil a start or what is measured, as a look at the node before it found."""

    node: str
    findings: tuple[Finding, ...]


Event = (
    GroupStarting
    | StartDone
    | CellDone
    | CellLost
    | Rescored
    | GroupEnded
    | LeftoversEnded
    | Doubted
)
