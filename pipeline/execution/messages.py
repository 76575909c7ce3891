"""What passes between a worker and its engine process: one JSON record a line, both ways.

The worker sends `EngineStart` once, then `PassJob`s, and closes the pipe to end the engine. The
engine answers `Ready`, then for each job any number of `Progress` and one `PassDone`; a `Problem`
instead of an answer says in one sentence what vLLM raised.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from pipeline.records import PassRecord
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


class Problem(Record):
    """vLLM raised; the engine process ends after this."""

    kind: Literal["problem"] = "problem"
    error_type: str
    message: str


Command = Annotated[EngineStart | PassJob, Field(discriminator="kind")]
Reply = Annotated[Ready | Progress | PassDone | Problem, Field(discriminator="kind")]
COMMAND: TypeAdapter[EngineStart | PassJob] = TypeAdapter(Command)
REPLY: TypeAdapter[Ready | Progress | PassDone | Problem] = TypeAdapter(Reply)
