"""What a model, a method, a dataset, a platform and a measurement are.

Frozen records with no behaviour beyond their own validity: configuration is parsed into them once
(`pipeline.config`) and nothing behind that point reads configuration again. Engine arguments are
the one open mapping, because vLLM owns their names; `pipeline.execution.engine` hands them over.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    field_validator,
    model_validator,
)

T = TypeVar("T")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
EngineArgs = dict[str, JsonValue]


def _listed(value: object) -> object:
    """A single value where a list is meant is a list of one."""
    return [value] if isinstance(value, int | str) else value


Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[tuple[PositiveInt, ...], BeforeValidator(_listed), Field(min_length=1)]


class Record(BaseModel):
    """Base of every record: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


# --- models ---------------------------------------------------------------------------------


class Drafter(Record):
    """What one method needs to draft for one model.

    Attributes:
        checkpoint: the drafter's folder, hub id or `zoo:NAME`; None when the head sits in the target.
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
    speculative: EngineArgs = Field(default_factory=dict)


class Resources(Record):
    """What one engine of a model occupies: GPUs per node and nodes."""

    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=1, ge=1)


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
                f" prompt_lookup_max {self.prompt_lookup_max}"
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
    file: str


class PathSource(Record):
    """A JSON Lines file (optionally .gz) on this machine."""

    kind: Literal["path"]
    path: str


class HubSource(Record):
    """A data set on the Hugging Face hub, pinned to a commit."""

    kind: Literal["hub"]
    repo: str
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


# --- platform, measurement, tracking, sweep ---------------------------------------------------


class Assumptions(Record):
    """What the time estimate uses before anything was measured; printed as assumptions."""

    engine_start_s: float = Field(gt=0)
    decode_tok_s: float = Field(gt=0)


class PlatformSpec(Record):
    """The machines: what one node offers, how vLLM is run well there, and how long to wait.

    Attributes:
        models: the targets that a sweep measures here unless it names its own.
        engine_core: `in_process` steps vLLM's engine core in the measuring process; `own_process`
            leaves it in the process vLLM gives it, overlapping scheduling with the device.
        preload: libraries to preload into the engine, found in the environment's lib folder or by
            the dynamic linker; one that is missing is left out and recorded.
        logical_gpus: GPUs to declare to a Ray started here; None lets Ray count them.
        start_deadline_s: the longest an engine may take to get ready.
        token_deadline_s: the longest a running engine may go without a token before it is ended.
    """

    name: Name
    device: Literal["cpu", "cuda"]
    models: Names
    engine_core: Literal["in_process", "own_process"]
    engine_args: EngineArgs = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    preload: tuple[str, ...] = ()
    logical_gpus: int | None = Field(default=None, ge=0)
    start_deadline_s: float = Field(gt=0)
    token_deadline_s: float = Field(gt=0)
    assume: Assumptions


class Sampling(Record):
    """How tokens are drawn; temperature 0 is greedy."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0, description="0 keeps every token")
    presence_penalty: float = 0.0
    repetition_penalty: float = Field(default=1.0, gt=0)
    seed: int = 0


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
            raise ValueError("the warm-up needs at least two different prompts")
        return self


class TrackingSpec(Record):
    """Where MLflow's store is; `enabled: false` leaves the records on disk as the only result."""

    enabled: bool
    uri: str | None = Field(default=None, description="None: SQLite under mlruns/")


class RayTarget(Record):
    """The Ray cluster to use; `address: null` starts a local one and stops it at the end."""

    address: str | None = None


class Axes(Record):
    """The grid. `k` is null (each method's own list), one list for all, or a list per method."""

    model: Names
    method: Names
    dataset: Names
    k: Counts | dict[str, Counts] | None = None
    concurrency: Counts

    @field_validator("model", "method", "dataset", "concurrency")
    @classmethod
    def _once(cls, values: tuple[T, ...]) -> tuple[T, ...]:
        """A value that stands twice on an axis would be measured twice under one fingerprint."""
        return tuple(dict.fromkeys(values))


class SweepConfig(Record):
    """One sweep, complete: every option that the axes name, and how to run and record them."""

    name: Name
    question: str = ""
    axes: Axes
    models: tuple[ModelSpec, ...]
    methods: tuple[MethodSpec, ...]
    datasets: tuple[DatasetSpec, ...]
    platform: PlatformSpec
    measure: MeasureSpec
    tracking: TrackingSpec
    ray: RayTarget
    output_dir: str
    dry_run: bool = False
