"""What the task of each assignment is given: prompts, companion, and outputs to score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pipeline.errors import InputError
from pipeline.execution.assignment import is_baseline
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import GroupJob, RescoreJob, Tokenised, TokeniseJob
from pipeline.execution.rescore import to_score
from pipeline.methods import BASELINE
from pipeline.outputs import Outputs, cell_name, companion_name, write_atomically
from pipeline.plan import EngineConfig, EngineGroup, Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord
from pipeline.spec import SweepConfig
from pipeline.unfinished import Unscored

# How often a start has the same outputs scored: one that kills its engine ends it no third time.
_TRIES = 2


class PromptError(InputError):
    """Prompts that a model cannot be given."""


class Assignments:
    """Makes a sweep's assignments complete.

    Args:
        plan: all of the sweep, measured or not: the baselines of what is missing may be done.
        todo: what is missing.
        unscored: what earlier starts measured and did not come to score. The first job of its model
            with a plain engine takes it along; without one, an engine is started for it alone.
    """

    def __init__(
        self,
        config: SweepConfig,
        plan: Plan,
        todo: Plan,
        outputs: Outputs,
        start_id: str,
        unscored: Unscored,
    ) -> None:
        self._config, self._outputs, self._start_id = config, outputs, start_id
        self._baselines = plan.baselines
        models = {group.model for group in todo.groups}
        alone = [_scoring(self._baselines[model]) for model in unscored if model not in models]
        self.groups = (*todo.groups, *alone)
        self._tokens: dict[str, Tokenised] = {}
        self._left = {model: dict(names) for model, names in unscored.items()}
        # By model and place, the data set of all that is to be scored there, by its name.
        self._unscored: dict[tuple[str, str], dict[str, str]] = {}
        self._tried: Counter[str] = Counter()
        self._alone = {group.model for group in alone}

    def dispatch(self) -> Dispatch:
        """A fresh distribution of what is missing."""
        return Dispatch(self.groups, self._baselines, bracketed=self._bracketed)

    def to_tokenise(self, prompts: dict[str, PromptSet]) -> dict[str, TokeniseJob]:
        """For each model that has cells to be measured, what its tokenizer is to read."""
        names, measure = {group.model for group in self.groups}, self._config.measure
        sets = tuple(prompts.values())
        return {
            f"model {model.name}": TokeniseJob(model=model, prompt_sets=sets, measure=measure)
            for model in self._config.models
            if model.name in names
        }

    def take(self, tokenised: Iterable[Tokenised]) -> None:
        """Keep the token ids that every method of a model is given, here and on disk.

        Raises:
            PromptError: a model cannot be given a prompt.
        """
        for tokens in tokenised:
            if tokens.error is not None:
                raise PromptError(tokens.error)
            self._tokens[tokens.model] = tokens
            for dataset, jobs in tokens.datasets.items():
                path = self._outputs.folder / "prompts" / f"{tokens.model}--{dataset}.jsonl"
                write_atomically(path, "".join(job.model_dump_json() + "\n" for job in jobs))

    def job(self, assignment: Assignment) -> GroupJob:
        """Everything that the assignment's task needs."""
        group, place = assignment.group, "+".join(assignment.place)
        companion = self._companion(group)
        scores = companion is not None or (self._is_plain(group) and assignment.role != "opening")
        return GroupJob(
            sweep=self._config.name,
            start_id=self._start_id,
            group=group,
            tokens=self._tokens[group.model],
            measure=self._config.measure,
            take_machine=self._config.ray.address is not None,
            place=place,
            attempt=assignment.attempt,
            role=assignment.role,
            companion=companion,
            rescore=tuple(self._to_rescore(group.model, place)) if scores else (),
        )

    def measured(self, job: GroupJob, record: CellRecord) -> None:
        """A cell is on disk. Its outputs are scored beside it, or where baselines bracket at the
        closing; an engine that is lost meanwhile leaves them to the next one there.
        """
        if record.status != "OK" or record.at.kind == BASELINE:
            return
        names = [cell_name(record)] if record.companion or self._bracketed else []
        names += [companion_name(record)] if record.companion else []
        unscored = self._unscored.setdefault((record.at.model, job.place), {})
        unscored |= dict.fromkeys(names, record.at.dataset)

    def trying(self, job: GroupJob) -> None:
        """An engine of the job is ready, and is going to score what the job was given."""
        self._tried.update(one.name for one in job.rescore)

    def left_to_score(self) -> tuple[EngineGroup, ...]:
        """When nothing else is due: an engine for each model whose outputs nobody came to score."""
        groups = []
        for model in {m for m, _ in self._unscored} | self._left.keys():
            here = [names for (m, _), names in self._unscored.items() if m == model]
            left = self._left.setdefault(model, {})
            for names in here:
                left |= names
                names.clear()
            if model not in self._alone and any(self._scorable(model, left)):
                self._alone.add(model)
                groups.append(_scoring(self._baselines[model]))
        return tuple(groups)

    def scored(self, name: str) -> None:
        """The outputs under a name are scored."""
        for cells in self._unscored.values():
            cells.pop(name, None)

    def _companion(self, group: EngineGroup) -> EngineConfig | None:
        baseline = self._baselines.get(group.model)
        alone = self._bracketed or self._is_plain(group)
        return None if alone or baseline is None else baseline.engine

    @property
    def _bracketed(self) -> bool:
        return self._config.platform.pairing == "bracketed"

    def _is_plain(self, group: EngineGroup) -> bool:
        """Whether a group's engine has no drafter, and so can score what others put out."""
        return is_baseline(group, self._baselines)

    def _to_rescore(self, model: str, place: str) -> Iterator[RescoreJob]:
        """What is to be scored at a place."""
        here = self._unscored.setdefault((model, place), {})
        here |= self._left.pop(model, {})
        return self._scorable(model, here)

    def _scorable(self, model: str, names: Mapping[str, str]) -> Iterator[RescoreJob]:
        """What there is to score under some names, and was not tried too often."""
        prompts, sampling = self._tokens[model].datasets, self._config.measure.sampling
        for name, dataset in names.items():
            requests = self._outputs.requests(name) if self._tried[name] < _TRIES else ()
            if outputs := to_score(requests, prompts[dataset], sampling):
                yield RescoreJob(name=name, outputs=outputs)


def _scoring(baseline: EngineGroup) -> EngineGroup:
    """A baseline's engine without cells of its own, to score what others put out."""
    return baseline.model_copy(update={"id": f"{baseline.id}.scoring", "cells": ()})
