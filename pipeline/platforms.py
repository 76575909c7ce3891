"""The machines: what a node offers, what an engine takes of it, and how to reach a cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.values import (
    EngineArgs,
    Environment,
    Name,
    Names,
    NonNegativeInt,
    PositiveInt,
    PositiveNumber,
    Record,
)

# How method and baseline are brought close in time. `interleaved`: both engines stay resident and
# prompts alternate between them. `bracketed`: a node measures the baseline at both ends of its
# share of a model.
Pairing = Literal["interleaved", "bracketed"]


class Resources(Record):
    """What one engine of a model occupies: GPUs on each of so many nodes."""

    gpus: NonNegativeInt = 0
    nodes: PositiveInt = 1


class Assumptions(Record):
    """What the time estimate uses before anything was measured; printed as assumptions."""

    engine_start_s: PositiveNumber
    decode_tok_s: PositiveNumber


class PlatformSpec(Record):
    """The machines: what one node offers, how vLLM is run well there, and how long to wait.

    Attributes:
        models: the targets that a sweep measures here unless it names its own.
        engine_core: `in_process` steps vLLM's engine core in the measuring process; `own_process`
            leaves it in the process vLLM gives it, overlapping scheduling with the device.
        preload: libraries to preload into the engine, found in the environment's lib folder or by
            the dynamic linker; one that is missing is left out and recorded.
        logical_gpus: GPUs to declare to a Ray started here; None lets Ray count them.
        repeats, max_tokens: how much of every cell a sweep can afford here; `conf/measure` takes
            them up, and either is changed there.
        start_deadline_s: the longest an engine may take to get ready.
        token_deadline_s: the longest a running engine may go without a token before it is ended.
        pairing: `interleaved` where two engines fit in memory, else `bracketed`.
        drop_caches: a command that gives the page cache back, run before an engine start where that
            stands in its way; it needs rights that a node's owner has to grant. Empty: none is run.
        compute_capability: the GPUs' generation, such as 12.1, which rules about kernels go by;
            None where it is not known or there is no GPU.
    """

    name: Name
    device: Literal["cpu", "cuda"]
    models: Names
    engine_core: Literal["in_process", "own_process"]
    engine_args: EngineArgs = Field(default_factory=dict)
    env: Environment = Field(default_factory=dict)
    preload: tuple[str, ...] = ()
    logical_gpus: NonNegativeInt | None = None
    repeats: PositiveInt
    max_tokens: PositiveInt | None
    start_deadline_s: PositiveNumber
    token_deadline_s: PositiveNumber
    pairing: Pairing
    drop_caches: tuple[str, ...] = ()
    compute_capability: str | None = Field(default=None, pattern=r"^\d+\.\d$")
    assume: Assumptions


class RayTarget(Record):
    """The Ray cluster to use; `address: null` starts a local one and stops it at the end."""

    address: str | None = None
