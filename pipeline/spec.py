"""What a model, a method, a dataset, a platform and a measurement are.

Frozen records with no behaviour beyond their own validity: configuration is parsed into them once
(`pipeline.config`) and nothing behind that point reads configuration again. Engine arguments are
the one open mapping, because vLLM owns their names; `pipeline.execution.engine` hands them over.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from pipeline.errors import nearest
from pipeline.platforms import Assumptions as Assumptions
from pipeline.platforms import PlatformSpec as PlatformSpec
from pipeline.platforms import RayTarget as RayTarget
from pipeline.platforms import Resources as Resources
from pipeline.values import (
    Counts,
    Drafting,
    EngineArgs,
    Name,
    Names,
    NonNegativeInt,
    Number,
    PositiveInt,
    PositiveNumber,
)
from pipeline.values import Record as Record

T = TypeVar("T")
# Methods whose drafter has a checkpoint of its own; the others draft from the text or the target.
SEPARATE_DRAFTERS = ("eagle3", "dflash", "draft_model")
DRAFTER_KINDS = ("ngram", "mtp", *SEPARATE_DRAFTERS)


# --- models ---------------------------------------------------------------------------------


class Drafter(Record):
    """What one method needs to draft for one model.

    Attributes:
        checkpoint: the drafter's folder, hub id or `zoo:NAME`; None when it sits in the target.
        target: a checkpoint that replaces the model's own for this method, holding the same weights
            plus the head; None where the model's own checkpoint carries it.
        k: values of K this drafter is measured at, where they differ from the method's.
        max_k: the largest K the drafter can serve, or None.
        max_k_reason: the sentence that explains `max_k`.
        engine_args: added to the model's engine arguments for this method only.
        speculative: keys added to vLLM's speculative configuration.
    """

    checkpoint: str | None = None
    revision: str | None = None
    target: str | None = None
    k: Counts | None = None
    max_k: PositiveInt | None = None
    max_k_reason: str = ""
    engine_args: EngineArgs = Field(default_factory=dict)
    speculative: Drafting = Field(default_factory=dict)


class ModelSpec(Record):
    """A target checkpoint with its engine arguments, resources and drafters."""

    name: Name
    checkpoint: str = Field(min_length=1)
    revision: str | None = None
    # The chat template's thinking switch: set explicitly, since a template's default may change.
    # None where the template has no such switch.
    thinking: bool | None = None
    trust_remote_code: bool = False
    resources: Resources = Resources()
    engine_args: EngineArgs = Field(default_factory=dict)
    drafters: dict[str, Drafter] = Field(default_factory=dict)

    @field_validator("drafters")
    @classmethod
    def _usable(cls, drafters: dict[str, Drafter]) -> dict[str, Drafter]:
        """Under a misspelt method a drafter is never used; without weights it fails late."""
        for kind, drafter in drafters.items():
            if kind not in DRAFTER_KINDS:
                known = ", ".join(DRAFTER_KINDS)
                raise ValueError(
                    f"there is no method '{kind}'{nearest(kind, DRAFTER_KINDS)}; allowed: {known}"
                )
            if kind in SEPARATE_DRAFTERS and drafter.checkpoint is None:
                raise ValueError(f"the drafter of {kind} needs a checkpoint; add checkpoint: …")
        return drafters


# --- methods --------------------------------------------------------------------------------


class _MethodBase(Record):
    name: Name
    k: Counts


class NoMethod(Record):
    """Plain decoding, the baseline; it has no K."""

    kind: Literal["none"]
    name: Name
    k: tuple[PositiveInt, ...] = Field(default=(), max_length=0)


class NgramMethod(_MethodBase):
    """Drafts copied from the text so far, found by the last few tokens (prompt lookup)."""

    kind: Literal["ngram"]
    prompt_lookup_min: PositiveInt
    prompt_lookup_max: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> NgramMethod:
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError(
                f"prompt_lookup_min {self.prompt_lookup_min} exceeds"
                f" prompt_lookup_max; allowed: at most {self.prompt_lookup_max}"
            )
        return self


class DrafterMethod(_MethodBase):
    """Drafts made by a trained head or model, which the target's configuration must name."""

    kind: Literal["mtp", "eagle3", "dflash", "draft_model"]


MethodSpec = Annotated[NoMethod | NgramMethod | DrafterMethod, Field(discriminator="kind")]


# --- datasets -------------------------------------------------------------------------------


class BundledSource(Record):
    """A prompt set that ships with this package, by file name."""

    kind: Literal["bundled"]
    file: Name


class PathSource(Record):
    """A JSON Lines file (optionally .gz) on this machine."""

    kind: Literal["path"]
    path: str


class HubSource(Record):
    """A data set on the Hugging Face hub, pinned to a commit."""

    kind: Literal["hub"]
    repo: str = Field(min_length=1)
    split: str
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="a full commit hash")
    config: str | None = None


class DatasetSpec(Record):
    """A frozen list of prompts: where it is, which fields to read, and its token cap.

    Attributes:
        prompt_field: the user's turn; where the field holds a list of turns the first is taken.
        max_tokens: cap on generated tokens per prompt.
        sha256: the digest the rendered prompts must have, or None to accept what is there.
    """

    name: Name
    source: Annotated[BundledSource | PathSource | HubSource, Field(discriminator="kind")]
    prompt_field: str = "prompt"
    id_field: str | None = "id"
    category_field: str | None = "category"
    system: str | None = None
    limit: PositiveInt | None = None
    max_tokens: PositiveInt
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


# --- measurement, tracking, sweep -----------------------------------------------------------


class Sampling(Record):
    """How tokens are drawn; temperature 0 is greedy."""

    temperature: Number = Field(default=0.0, ge=0)
    top_p: Number = Field(default=1.0, gt=0, le=1)
    top_k: NonNegativeInt = Field(default=0, description="0 keeps every token")
    presence_penalty: Number = 0.0
    repetition_penalty: PositiveNumber = 1.0
    seed: Annotated[int, Field(strict=True)] = 0


class MeasureSpec(Record):
    """The protocol of one cell: warm-up prompts, repeats, sampling and an optional token cap."""

    repeats: PositiveInt
    warmup: tuple[str, ...] = Field(min_length=2)
    warmup_tokens: PositiveInt
    sampling: Sampling
    max_tokens: PositiveInt | None = None
    engine_args: EngineArgs = Field(default_factory=dict)

    @model_validator(mode="after")
    def _different(self) -> MeasureSpec:
        if len(set(self.warmup)) < 2:
            raise ValueError("the warm-up prompts are equal; allowed: at least two different ones")
        return self


class TrackingSpec(Record):
    """Where MLflow's store is; `enabled: false` leaves the records on disk as the only result."""

    enabled: bool
    uri: str | None = Field(default=None, description="None: SQLite under mlruns/")


class LeftOut(Record):
    """A model and a method that are both on the axes and not measured together, and why."""

    model: Name
    method: Name
    reason: str = Field(min_length=1)


class Axes(Record):
    """The grid. `k` is null (each method's own list), one list for all, or a list per method."""

    model: Names
    method: Names
    dataset: Names
    k: Counts | Annotated[dict[str, Counts], Field(min_length=1)] | None = None
    concurrency: Counts
    leave_out: tuple[LeftOut, ...] = ()

    @field_validator("model", "method", "dataset", "concurrency")
    @classmethod
    def _once(cls, values: tuple[T, ...]) -> tuple[T, ...]:
        """A value that stands twice on an axis would be measured twice under one fingerprint."""
        return tuple(dict.fromkeys(values))


# `choose_k` measures of each method's K only those that may be the fastest.
Search = Literal["grid", "choose_k"]


class SweepConfig(Record):
    """One sweep, complete: every option that the axes name, and how to run and record them."""

    name: Name
    question: str = ""
    search: Search = "grid"
    axes: Axes
    models: tuple[ModelSpec, ...]
    methods: tuple[MethodSpec, ...]
    datasets: tuple[DatasetSpec, ...]
    platform: PlatformSpec
    measure: MeasureSpec
    tracking: TrackingSpec
    ray: RayTarget
    output_dir: str = Field(min_length=1)
    dry_run: bool = False
    # Which recorded cells are measured again: those that are not OK, or none of them.
    retry: Literal["failed", "none"] = "failed"
