"""What the task of each assignment is given: prompts, companion, and outputs to score."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.errors import InputError
from pipeline.execution.dispatch import Assignment, Dispatch
from pipeline.execution.events import GroupJob, RescoreJob, Tokenised, TokeniseJob
from pipeline.execution.rescore import to_score
from pipeline.methods import BASELINE
from pipeline.outputs import Outputs, cell_name, write_atomically
from pipeline.plan import EngineConfig, EngineGroup, Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord
from pipeline.spec import SweepConfig


class PromptError(InputError):
    """Prompts that a model cannot be given."""


class Assignments:
    """Makes a sweep's assignments complete.

    Args:
        plan: all of the sweep, measured or not: the baselines of what is missing may be done.
        todo: what is missing.
    """

    def __init__(
        self, config: SweepConfig, plan: Plan, todo: Plan, outputs: Outputs, start_id: str
    ) -> None:
        self._config, self._todo = config, todo
        self._outputs, self._start_id = outputs, start_id
        self._baselines = plan.baselines
        self._tokens: dict[str, Tokenised] = {}
        # By model and place, the data set of each cell that a closing is to score, by its name.
        self._unscored: dict[tuple[str, str], dict[str, str]] = {}

    def dispatch(self) -> Dispatch:
        """A fresh distribution of what is missing."""
        bracketed = self._config.platform.pairing == "bracketed"
        return Dispatch(self._todo.groups, self._baselines, bracketed=bracketed)

    def to_tokenise(self, prompts: dict[str, PromptSet]) -> dict[str, TokeniseJob]:
        """For each model that has cells to be measured, what its tokenizer is to read."""
        names, measure = {group.model for group in self._todo.groups}, self._config.measure
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
        closing = assignment.role == "closing"
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
            companion=self._companion(group),
            rescore=tuple(self._to_rescore(group.model, place)) if closing else (),
        )

    def measured(self, job: GroupJob, record: CellRecord) -> None:
        """A cell is on disk: where baselines bracket, its outputs are scored at the closing."""
        closes = self._config.platform.pairing == "bracketed" and record.at.kind != BASELINE
        if closes and record.status == "OK":
            cells = self._unscored.setdefault((record.at.model, job.place), {})
            cells[cell_name(record)] = record.at.dataset

    def scored(self, name: str) -> None:
        """The outputs under a name are scored."""
        for cells in self._unscored.values():
            cells.pop(name, None)

    def _companion(self, group: EngineGroup) -> EngineConfig | None:
        baseline = self._baselines.get(group.model)
        alone = self._config.platform.pairing != "interleaved" or group.cells[0].at.k == 0
        return None if alone or baseline is None else baseline.engine

    def _to_rescore(self, model: str, place: str) -> Iterable[RescoreJob]:
        prompts, sampling = self._tokens[model].datasets, self._config.measure.sampling
        for name, dataset in self._unscored.get((model, place), {}).items():
            requests = self._outputs.requests(name)
            if outputs := to_score(requests, prompts[dataset], sampling):
                yield RescoreJob(name=name, outputs=outputs)
