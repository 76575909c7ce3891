"""What a sweep leaves: records of requests, passes, cells and starts of the command.

Where they lie, and how they are written and read, is `pipeline.outputs`'.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from pipeline.host.series import TelemetrySummary
from pipeline.plan import Coordinates
from pipeline.platforms import Pairing
from pipeline.spec import Record

CELL_SCHEMA: Literal[1] = 1

# What a cell can end as; only OK cells enter comparisons.
Status = Literal[
    "OK",
    "NOOP_NOT_CONFIGURED",
    "NOOP_NO_DRAFTS",
    "NOOP_NO_ACCEPT",
    "SUSPECT",
    "THROTTLED",
    "FAILED",
]


class RequestRecord(Record):
    """One request of a measured pass; times are seconds since the pass began, on engine clocks.

    Attributes:
        chunk_s: when each chunk of tokens came out, one chunk per verification step.
        chunk_tokens: tokens in each chunk; their sum is the number of output tokens.
        drafted: tokens drafted at each step that drafted; None where the engine does not tell.
        accepted: drafted tokens accepted at the same steps, before truncation at the end.
    """

    prompt_id: str
    category: str
    repeat: int
    prompt_tokens: int
    output_token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    sent_s: float
    chunk_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    drafted: tuple[int, ...] | None
    accepted: tuple[int, ...] | None


class CounterDelta(Record):
    """What the engine's own counters moved by during one pass."""

    drafts: int
    drafted: int
    accepted: int
    accepted_per_position: tuple[int, ...]


class PassRecord(Record):
    """One pass over a cell's prompts; `counters` is None where the engine has no such series."""

    repeat: int
    wall_s: float
    requests: tuple[RequestRecord, ...]
    counters: CounterDelta | None


class RescoredOutput(Record):
    """One output as the plain engine scores it, token by token.

    Attributes:
        gaps: largest log-probability at the token's position less the token's own, in nats.
        logprobs: the token's own log-probability, in nats.
    """

    prompt_id: str
    repeat: int
    gaps: tuple[Annotated[float, Field(ge=0)], ...]
    logprobs: tuple[float, ...]

    @model_validator(mode="after")
    def _aligned(self) -> RescoredOutput:
        if len(self.gaps) != len(self.logprobs):
            raise ValueError("every token needs both a gap and a log-probability")
        return self


class PromptCost(Record):
    """What one answer cost per token after its first chunk; None where it has no later token.

    Attributes:
        decode_s: seconds per token, on the engine's clocks.
        steps: verification steps per token.
    """

    prompt_id: str
    repeat: int
    decode_s: float | None
    steps: float | None


class Summary(Record):
    """A number, its spread (median absolute deviation, same unit), and of how many values."""

    value: float
    spread: float
    n: int


class Counts(Record):
    """Totals over all repeats of a cell: see `pipeline.analysis.metrics` for the letters."""

    requests: int
    output_tokens: int
    drafts: int
    drafted: int
    accepted: int
    accepted_per_position: tuple[int, ...]
    truncated: int


class Failure(Record):
    """Why a cell has no measurement: a class, a sentence, and the end of the engine's log.

    Attributes:
        cause: what the log most likely means, and what to do about it; empty where nobody knows.
    """

    kind: str
    message: str
    log_tail: tuple[str, ...] = ()
    cause: str = ""


class EngineContext(Record):
    """Where and with what a cell was measured; context, never part of its fingerprint."""

    node: str
    vllm_version: str
    engine_start_s: float
    checkpoint: str
    drafter: str | None
    preloaded: tuple[str, ...]
    serve_command: str


class Companion(Record):
    """The baseline that a cell's prompts alternated with, measured by an engine of its own.

    Attributes:
        metrics: as of a cell.
    """

    status: Status
    status_reason: str = ""
    counts: Counts
    metrics: dict[str, Summary]
    costs: tuple[PromptCost, ...]


class CellRecord(Record):
    """One cell, durable. Summaries are by metric name; per-repeat values stand beside them.

    Attributes:
        role: `opening` and `closing` are a baseline's cells measured again as references.
        node: where it was tried, also when no engine started there; None in older records.
        earlier: why earlier attempts in the same start were lost.
        pairing: how the baseline was brought close in time; None for a baseline's own cell.
        companion: the baseline's side of an interleaved measurement.
        telemetry: what the host did while the cell was measured.
        log: whose engine's log tells of it; the group's own where None.
    """

    schema_version: Literal[1] = CELL_SCHEMA
    fingerprint: str
    at: Coordinates
    status: Status
    status_reason: str = ""
    start_id: str
    group: str
    role: Literal["cell", "opening", "closing"] = "cell"
    node: str | None = None
    attempt: int = 1
    earlier: tuple[Failure, ...] = ()
    started_at: str
    measured_s: float = 0.0
    context: EngineContext | None = None
    counts: Counts | None = None
    metrics: dict[str, Summary] = Field(default_factory=dict)
    per_repeat: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    costs: tuple[PromptCost, ...] = ()
    pairing: Pairing | None = None
    companion: Companion | None = None
    telemetry: TelemetrySummary | None = None
    failure: Failure | None = None
    log: str | None = None


class TimeSplit(Record):
    """Where a start's wall time went, in seconds; overlapping work on several nodes counts once."""

    wall_s: float
    engine_start_s: float
    generation_s: float

    @property
    def other_s(self) -> float:
        """Time in neither an engine start nor generation."""
        return max(0.0, self.wall_s - self.engine_start_s - self.generation_s)


class StartRecord(Record):
    """One start of the command on a sweep: what was asked, with what, on what, and how it went."""

    schema_version: Literal[1] = 1
    start_id: str
    sweep: str
    started_at: str
    command: tuple[str, ...]
    git_commit: str | None
    packages: dict[str, str]
    host: dict[str, JsonValue]
    config: dict[str, JsonValue]
    outcome: Literal["running", "finished", "interrupted", "failed"] = "running"
    engine_starts: int = 0
    split: TimeSplit | None = None
    driver_peak_bytes: int | None = None
