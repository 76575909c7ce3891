from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pipeline.config import read_command_line
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import Tokenised, TokeniseJob
from pipeline.execution.tokenise import tokenise
from pipeline.execution.worker import on_this_node
from pipeline.plan import EngineConfig, make_plan
from pipeline.prompts import load_prompts
from pipeline.sources import identity
from pipeline.spec import SweepConfig

Start = Callable[..., EngineProcess]


@pytest.fixture(scope="session")
def sweep() -> SweepConfig:
    config = read_command_line(["+sweep=smoke", "dataset=echo", "dataset.limit=4"], lambda: "cpu")
    assert config is not None
    return config


@pytest.fixture(scope="session")
def ngram_config(sweep: SweepConfig) -> EngineConfig:
    prompts = {d.name: load_prompts(d, sweep.measure.max_tokens) for d in sweep.datasets}
    groups = make_plan(sweep, prompts, identity).groups
    return on_this_node(next(g.engine for g in groups if g.method == "ngram"))


@pytest.fixture(scope="session")
def tokens(sweep: SweepConfig) -> Tokenised:
    sets = tuple(load_prompts(d, sweep.measure.max_tokens) for d in sweep.datasets)
    return tokenise(TokeniseJob(model=sweep.models[0], prompt_sets=sets, measure=sweep.measure))


@pytest.fixture(scope="session")
def ngram_engine(
    ngram_config: EngineConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineProcess]:
    engine = EngineProcess(ngram_config, tmp_path_factory.mktemp("engine") / "engine.log")
    yield engine
    engine.stop()
