"""What passes between a worker and its engine process: one JSON record a line, both ways.

The worker sends `EngineStart` once, then jobs, and closes the pipe to end the engine. The engine
answers `Ready`, then each job with any number of `Progress` and one `PassDone` or `Scored`; a
`Problem` instead of an answer says in one sentence what vLLM raised.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from pipeline.records import PassRecord, RescoredOutput
from pipeline.spec import Record, Sampling
from pipeline.values import EngineArgs, Speculative


class EngineStart(Record):
    """What the engine process needs to load: paths are this node's, everything else as planned."""

    kind: Literal["start"] = "start"
    checkpoint: str
    revision: str | None
    trust_remote_code: bool
    speculative: Speculative | None
    engine_args: EngineArgs


class PromptJob(Record):
    """One prompt, tokenised, with its cap on generated tokens."""

    prompt_id: str
    category: str
    token_ids: tuple[int, ...]
    max_tokens: int


class PassJob(Record):
    """One pass over some prompts, at most `concurrency` of them in flight at a time."""

    kind: Literal["pass"] = "pass"
    repeat: int
    prompts: tuple[PromptJob, ...]
    concurrency: int
    sampling: Sampling


class Output(Record):
    """An answer to be scored: what was asked, and the tokens that came out."""

    prompt_id: str
    repeat: int
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]


class ScoreJob(Record):
    """Outputs to be scored, token by token, by an engine without a drafter."""

    kind: Literal["score"] = "score"
    outputs: tuple[Output, ...]


class Ready(Record):
    """The engine has loaded."""

    kind: Literal["ready"] = "ready"
    vllm_version: str


class Progress(Record):
    """The engine is alive; sent at most once a second while tokens come out."""

    kind: Literal["progress"] = "progress"
    tokens: int


class PassDone(Record):
    """A pass is complete."""

    kind: Literal["done"] = "done"
    record: PassRecord


class Scored(Record):
    """All outputs of a job, scored."""

    kind: Literal["scored"] = "scored"
    outputs: tuple[RescoredOutput, ...]


class Problem(Record):
    """vLLM raised; the engine process ends after this."""

    kind: Literal["problem"] = "problem"
    error_type: str
    message: str


Command = EngineStart | PassJob | ScoreJob
Answer = Ready | PassDone | Scored
Reply = Answer | Progress | Problem
COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="kind")])
REPLY: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="kind")])
