"""Axes to cells to engine groups: what a sweep will measure, decided before anything starts.

Pure: the same configuration, prompts and checkpoint identities give the same plan on any machine.
A plan is a record; the scheduler runs it as it is and never looks back at the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, product
from typing import Literal

from pydantic import JsonValue

from pipeline.engine_config import EngineConfig as EngineConfig
from pipeline.engine_config import engine_config
from pipeline.grid import check_axes, why_left_out
from pipeline.grid_errors import DuplicateCellError, EmptyGridError
from pipeline.identity import PROTOCOL_VERSION, fingerprint
from pipeline.installed import InstalledVllm
from pipeline.methods import BASELINE, k_values
from pipeline.platforms import Pairing
from pipeline.prompts import PromptSet
from pipeline.rules import Start, warnings, why_not_here
from pipeline.spec import MethodSpec, ModelSpec, Record, Resources, Search, SweepConfig

PLAN_SCHEMA: Literal[1] = 1
# Arguments that change how an engine is reached or logs, never what it computes.
UNMEASURED_ARGS = frozenset({"served_model_name", "download_dir", "disable_log_requests"})
# How the identity of a hub checkpoint without a revision ends.
UNPINNED = "@unpinned"

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


# How many K of a method a search measures: the largest, and the two predicted fastest.
SEARCHED_K = 3


class Plan(Record):
    """What a sweep measures, in order, and what it leaves out.

    Attributes:
        search: `choose_k` measures of a method's groups only those that may be the fastest.
        pairing: how a method and its baseline are brought close in time.
    """

    schema_version: Literal[1] = PLAN_SCHEMA
    sweep: str
    platform: str
    search: Search = "grid"
    pairing: Pairing = "interleaved"
    groups: tuple[EngineGroup, ...]
    pruned: tuple[Pruned, ...]
    # What to know about the engines it starts.
    warnings: tuple[str, ...] = ()

    @property
    def baselines(self) -> dict[str, EngineGroup]:
        """The baseline's group of each model that has one."""
        return {g.model: g for g in self.groups if g.cells[0].at.kind == BASELINE}

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

    def at_most(self, done: frozenset[str]) -> Plan:
        """What is still to be measured, the cells in `done` left out; of a search as many groups
        of each method as it may come to, the largest K first, whichever the others will be.
        """
        left = self.without(done).groups
        if self.search == "grid":
            return self.model_copy(update={"groups": left})
        missing = {group.id for group in left}
        kept: list[EngineGroup] = []
        for _, members in groupby(self.groups, key=lambda g: (g.model, g.method)):
            groups = sorted(members, key=lambda g: (g.id in missing, -g.k))
            kept += [g for g in groups[:SEARCHED_K] if g.id in missing]
        ids = {group.id for group in kept}
        return self.model_copy(update={"groups": tuple(g for g in left if g.id in ids)})


def make_plan(
    config: SweepConfig,
    prompts: Mapping[str, PromptSet],
    identify: Identify,
    vllm: InstalledVllm | None = None,
) -> Plan:
    """Cross the axes of a sweep into engine groups and list what is pruned.

    Args:
        prompts: the prompts of every dataset on the axis, by name.
        identify: the identity of a checkpoint reference and revision, by content where it is known.
        vllm: the version the engines will run on, which some methods depend on; None where it is
            not known.

    Raises:
        CapTooLargeError: an answer may be longer than a model's context.
        EmptyGridError: no combination is left.
        DuplicateCellError: two options differ in nothing but their name.
        UnknownMethodInAxisError: a K list is given for a method outside the sweep.
    """
    check_axes(config, prompts)
    groups: list[EngineGroup] = []
    pruned: list[Pruned] = []
    told: list[str] = []
    for model, method in product(config.models, config.methods):
        for k in k_values(method, model, config.axes.k):
            engine = engine_config(config, model, method, k)
            start = Start(
                engine=engine,
                compute_capability=config.platform.compute_capability,
                vllm=vllm,
            )
            if reason := why_left_out(config, model, method, k) or why_not_here(start):
                pruned.append(
                    Pruned(model=model.name, method=method.name, k=k or None, reason=reason)
                )
                continue
            known = _identities(engine, identify)
            groups.append(_group(config, model, method, k, engine, known, prompts))
            told += [*warnings(start), *_unpinned(known)]
    if not groups:
        raise EmptyGridError(config.name, [p.reason for p in pruned])
    _refuse_twins(cell for group in groups for cell in group.cells)
    return Plan(
        sweep=config.name,
        platform=config.platform.name,
        search=config.search,
        pairing=config.platform.pairing,
        groups=tuple(groups),
        pruned=tuple(_merged(pruned)),
        warnings=tuple(dict.fromkeys(told)),
    )


def _refuse_twins(cells: Iterable[Cell]) -> None:
    seen: dict[str, str] = {}
    for cell in cells:
        if cell.fingerprint in seen:
            raise DuplicateCellError(seen[cell.fingerprint], cell.at.label)
        seen[cell.fingerprint] = cell.at.label


def _merged(pruned: list[Pruned]) -> Iterator[Pruned]:
    """One entry for all K of a method that share a reason, since the reason is then not about K."""
    for (model, method, reason), items in groupby(
        pruned, key=lambda p: (p.model, p.method, p.reason)
    ):
        same = list(items)
        k = same[0].k if len(same) == 1 and f"K={same[0].k} " in reason else None
        yield Pruned(model=model, method=method, k=k, reason=reason)


class _Identities(Record):
    """What the checkpoints of an engine are known by; None for a drafter without one."""

    checkpoint: str
    drafter: str | None


def _identities(engine: EngineConfig, identify: Identify) -> _Identities:
    """By content or pinned revision, not by the path or name they are reached under."""
    drafter = (engine.speculative or {}).get("model")
    revision = (engine.speculative or {}).get("revision")
    return _Identities(
        checkpoint=identify(engine.checkpoint, engine.revision),
        drafter=None
        if drafter is None
        else identify(str(drafter), None if revision is None else str(revision)),
    )


def _unpinned(known: _Identities) -> Iterator[str]:
    for identity in (known.checkpoint, known.drafter):
        if identity is not None and identity.endswith(UNPINNED):
            name = identity.removesuffix(UNPINNED)
            yield (
                f"{name} has no revision: another commit of it would be taken for the same"
                " checkpoint; add revision: COMMIT to its configuration"
            )


def _group(
    config: SweepConfig,
    model: ModelSpec,
    method: MethodSpec,
    k: int,
    engine: EngineConfig,
    known: _Identities,
    prompts: Mapping[str, PromptSet],
) -> EngineGroup:
    shared = _measured(config, model, engine, known)
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


def _measured(
    config: SweepConfig, model: ModelSpec, engine: EngineConfig, known: _Identities
) -> dict[str, JsonValue]:
    """What changes a measurement, less dataset and concurrency, which vary inside a group."""
    speculative = dict(engine.speculative) if engine.speculative is not None else None
    if speculative is not None and known.drafter is not None:
        speculative["model"] = known.drafter
    measured: dict[str, JsonValue] = {
        "protocol": PROTOCOL_VERSION,
        "checkpoint": known.checkpoint,
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
