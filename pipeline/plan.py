"""Axes to cells to engine groups: what a sweep will measure, decided before anything starts.

Pure: the same configuration, prompts and checkpoint identities give the same plan on any machine.
A plan is a record; the scheduler runs it as it is and never looks back at the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Literal

from pydantic import JsonValue

from pipeline.grid_errors import (
    CapTooLargeError,
    DuplicateCellError,
    EmptyGridError,
    UnknownMethodInAxisError,
)
from pipeline.identity import PROTOCOL_VERSION, fingerprint
from pipeline.methods import BASELINE, k_values, speculative_config, why_not
from pipeline.prompts import PromptSet
from pipeline.spec import (
    Drafter,
    MethodSpec,
    ModelSpec,
    NoMethod,
    PlatformSpec,
    Record,
    Resources,
    SweepConfig,
)
from pipeline.values import EngineArgs, Speculative

PLAN_SCHEMA: Literal[1] = 1
# Arguments that change how an engine is reached or logs, never what it computes.
UNMEASURED_ARGS = frozenset({"served_model_name", "download_dir", "disable_log_requests"})

Identify = Callable[[str, str | None], str]


class Coordinates(Record):
    """Where a cell lies in the grid. K is 0 for plain decoding."""

    model: str
    method: str
    kind: str
    k: int
    dataset: str
    concurrency: int

    @property
    def label(self) -> str:
        """A name a person can read, such as `smollm2-135m/ngram-k4/echo/c1`."""
        method = self.method if self.kind == BASELINE else f"{self.method}-k{self.k}"
        return f"{self.model}/{method}/{self.dataset}/c{self.concurrency}"


class Cell(Record):
    """One measurement to be made, with the fingerprint that identifies it across sweeps."""

    at: Coordinates
    fingerprint: str


class EngineConfig(Record):
    """Everything an engine start needs; two cells with equal ones share a start."""

    checkpoint: str
    revision: str | None
    trust_remote_code: bool
    speculative: Speculative | None
    engine_args: EngineArgs
    env: dict[str, str]
    preload: tuple[str, ...]
    engine_core: Literal["in_process", "own_process"]
    device: Literal["cpu", "cuda"]
    start_deadline_s: float
    token_deadline_s: float


class EngineGroup(Record):
    """The cells that share one engine start, in the order they are measured."""

    id: str
    model: str
    method: str
    k: int
    engine: EngineConfig
    resources: Resources
    cells: tuple[Cell, ...]


class Pruned(Record):
    """A point of the grid that is not measured, and why. K is None where no K was reached."""

    model: str
    method: str
    k: int | None
    reason: str


class Plan(Record):
    """What a sweep measures, in order, and what it leaves out."""

    schema_version: Literal[1] = PLAN_SCHEMA
    sweep: str
    platform: str
    groups: tuple[EngineGroup, ...]
    pruned: tuple[Pruned, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order they are measured."""
        return tuple(cell for group in self.groups for cell in group.cells)

    def without(self, done: frozenset[str]) -> Plan:
        """The plan less the cells in `done`, by fingerprint, and less the groups this empties."""
        groups = []
        for group in self.groups:
            cells = tuple(cell for cell in group.cells if cell.fingerprint not in done)
            if cells:
                groups.append(group.model_copy(update={"cells": cells}))
        return self.model_copy(update={"groups": tuple(groups)})


def make_plan(config: SweepConfig, prompts: Mapping[str, PromptSet], identify: Identify) -> Plan:
    """Cross the axes of a sweep into engine groups and list what is pruned.

    Args:
        prompts: the prompts of every dataset on the axis, by name.
        identify: the identity of a checkpoint reference and revision, by content where it is known.

    Raises:
        CapTooLargeError: an answer may be longer than a model's context.
        EmptyGridError: no combination is left.
        DuplicateCellError: two options differ in nothing but their name.
        UnknownMethodInAxisError: a K list is given for a method outside the sweep.
    """
    _check_k_axis(config)
    _check_caps(config.models, prompts)
    groups: list[EngineGroup] = []
    pruned: list[Pruned] = []
    for model, method in product(config.models, config.methods):
        for k in k_values(method, model, config.axes.k):
            reason = _unfit(model, config.platform) or why_not(method, k, model)
            if reason is None:
                groups.append(_group(config, model, method, k, prompts, identify))
            else:
                pruned.append(
                    Pruned(model=model.name, method=method.name, k=k or None, reason=reason)
                )
    if not groups:
        raise EmptyGridError(config.name, [p.reason for p in pruned])
    _refuse_twins(cell for group in groups for cell in group.cells)
    return Plan(
        sweep=config.name,
        platform=config.platform.name,
        groups=tuple(groups),
        pruned=tuple(_merged(pruned)),
    )


def _check_caps(models: Sequence[ModelSpec], prompts: Mapping[str, PromptSet]) -> None:
    """What can be told without a tokenizer; a prompt's own length is added when it is encoded."""
    for model, (name, prompt_set) in product(models, prompts.items()):
        limit = model.engine_args.get("max_model_len")
        cap = max(prompt.max_tokens for prompt in prompt_set.prompts)
        if isinstance(limit, int) and cap >= limit:
            raise CapTooLargeError(model.name, name, cap, limit)


def _check_k_axis(config: SweepConfig) -> None:
    if isinstance(config.axes.k, dict):
        known = tuple(m.name for m in config.methods if not isinstance(m, NoMethod))
        for name in config.axes.k:
            if name not in known:
                raise UnknownMethodInAxisError(name, known)


def _refuse_twins(cells: Iterable[Cell]) -> None:
    seen: dict[str, str] = {}
    for cell in cells:
        if cell.fingerprint in seen:
            raise DuplicateCellError(seen[cell.fingerprint], cell.at.label)
        seen[cell.fingerprint] = cell.at.label


def _unfit(model: ModelSpec, platform: PlatformSpec) -> str | None:
    if model.resources.gpus and platform.device == "cpu":
        return f"{model.name} needs {model.resources.gpus} GPU; platform {platform.name} has none"
    return None


def _merged(pruned: list[Pruned]) -> Iterator[Pruned]:
    """One entry for all K of a method that share a reason, since the reason is then not about K."""
    for (model, method, reason), items in groupby(
        pruned, key=lambda p: (p.model, p.method, p.reason)
    ):
        same = list(items)
        k = same[0].k if len(same) == 1 and f"K={same[0].k} " in reason else None
        yield Pruned(model=model, method=method, k=k, reason=reason)


def _group(
    config: SweepConfig,
    model: ModelSpec,
    method: MethodSpec,
    k: int,
    prompts: Mapping[str, PromptSet],
    identify: Identify,
) -> EngineGroup:
    engine = _engine_config(config, model, method, k)
    shared = _measured(config, model, method, k, engine, identify)
    cells = tuple(
        Cell(
            at=Coordinates(
                model=model.name,
                method=method.name,
                kind=method.kind,
                k=k,
                dataset=dataset,
                concurrency=concurrency,
            ),
            fingerprint=fingerprint(
                {**shared, "dataset": prompts[dataset].digest, "concurrency": concurrency}
            ),
        )
        for dataset, concurrency in product(config.axes.dataset, config.axes.concurrency)
    )
    name = method.name if isinstance(k, int) and k == 0 else f"{method.name}-k{k}"
    return EngineGroup(
        id=f"{model.name}--{name}",
        model=model.name,
        method=method.name,
        k=k,
        engine=engine,
        resources=model.resources,
        cells=cells,
    )


def _engine_config(
    config: SweepConfig, model: ModelSpec, method: MethodSpec, k: int
) -> EngineConfig:
    drafter = model.drafters.get(method.kind, Drafter())
    platform = config.platform
    return EngineConfig(
        checkpoint=drafter.target or model.checkpoint,
        revision=None if drafter.target else model.revision,
        trust_remote_code=model.trust_remote_code,
        speculative=speculative_config(method, k, model),
        engine_args={
            **platform.engine_args,
            **config.measure.engine_args,
            **model.engine_args,
            **drafter.engine_args,
        },
        env=platform.env,
        preload=platform.preload,
        engine_core=platform.engine_core,
        device=platform.device,
        start_deadline_s=platform.start_deadline_s,
        token_deadline_s=platform.token_deadline_s,
    )


def _measured(
    config: SweepConfig,
    model: ModelSpec,
    method: MethodSpec,
    k: int,
    engine: EngineConfig,
    identify: Identify,
) -> dict[str, JsonValue]:
    """What changes a measurement, less dataset and concurrency, which vary inside a group."""
    drafter = model.drafters.get(method.kind, Drafter())
    speculative = dict(engine.speculative) if engine.speculative is not None else None
    if speculative is not None and drafter.checkpoint is not None:
        # By content, not by the path or name it is reached under.
        speculative["model"] = identify(drafter.checkpoint, drafter.revision)
    measured: dict[str, JsonValue] = {
        "protocol": PROTOCOL_VERSION,
        "checkpoint": identify(engine.checkpoint, engine.revision),
        "thinking": model.thinking,
        "speculative": speculative,
        "engine_args": {k: v for k, v in engine.engine_args.items() if k not in UNMEASURED_ARGS},
        "engine_core": engine.engine_core,
        "env": dict(engine.env),
        "sampling": config.measure.sampling.model_dump(),
        "repeats": config.measure.repeats,
        "warmup": [list(config.measure.warmup), config.measure.warmup_tokens],
    }
    return measured
