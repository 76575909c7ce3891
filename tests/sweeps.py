"""A whole sweep in this process with simulated groups: the driver, the disk and MLflow are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline import driver
from pipeline.config import read_command_line
from pipeline.execution import host, scheduler
from pipeline.execution.events import Tokenised, TokeniseJob
from pipeline.execution.messages import PromptJob
from pipeline.execution.runner import Measure
from pipeline.sweep import run
from tests.execution.simulated import SimulatedCluster, simulated_group
from tests.factories import one_pass


def simulated_tokens(job: TokeniseJob) -> Tokenised:
    """The one prompt that simulated groups answer, in every data set."""
    asked = one_pass().requests[0]
    prompt = PromptJob(
        prompt_id=asked.prompt_id, category=asked.category, token_ids=(1,), max_tokens=3
    )
    datasets = {prompts.name: (prompt,) for prompts in job.prompt_sets}
    return Tokenised(model=job.model.name, datasets=datasets, warmup=(prompt,))


class TokenisingCluster(SimulatedCluster):
    """Knows no tokenizer, and answers for one."""

    def anywhere(
        self, function: Callable[..., Any], jobs: Mapping[str, TokeniseJob]
    ) -> tuple[Tokenised, ...]:
        return tuple(simulated_tokens(job) for job in jobs.values())


class SimulatedSweep:
    """Runs commands whose groups are simulated on one simulated node.

    Args:
        arguments: of every command; `output_dir` and the machine's lock are in `folder`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> None:
        self._patch, self._arguments = monkeypatch, (*arguments, f"output_dir={folder}")
        monkeypatch.setattr(host, "LOCK", folder.parent / "machine.lock")
        monkeypatch.setattr(scheduler, "cluster", self._cluster)

    def run(self, *more: str, measure: Measure = simulated_group) -> int:
        """Run the command and return its exit code; raises what the command would tell."""
        argv = ["+sweep=smoke", *self._arguments, *more]
        config = read_command_line(argv, lambda: "cpu")
        assert config is not None
        self._patch.setattr(driver, "run_group", measure)
        return run(config, argv)

    @contextmanager
    def _cluster(self, *target: Any) -> Iterator[SimulatedCluster]:
        yield TokenisingCluster("simulated", script=lambda cluster: None)
