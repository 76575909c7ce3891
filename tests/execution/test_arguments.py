"""Every engine that our options compose, read by the argument classes of the installed vLLM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.folders import CONF
from pipeline.installed import installed_vllm
from pipeline.plan import EngineConfig
from tests.grids import planned

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
WRONG: dict[str, dict[str, Any]] = {
    "a misspelt argument": {"engine_args": {"max_modle_len": 8}},
    "a word for a number": {"engine_args": {"max_num_seqs": "many"}},
    "no such backend": {"engine_args": {"attention_backend": "FLASHINFR"}},
    "no such drafting key": {"speculative": {"method": "ngram", "promt_lookup_max": 4}},
    "no such drafting backend": {"speculative": {"method": "mtp", "attention_backend": "FLASH"}},
}


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def composed() -> dict[str, EngineConfig]:
    """Every model × method × K × platform that is not pruned, and the article's own."""
    models = f"model=[{','.join(names('model'))}]"
    commands = [("spec_methods", platform, models) for platform in names("platform")]
    commands += [("article_exact", "dgx_spark", "sweep.axes.leave_out=[]")]
    return {
        f"{sweep} {platform} {group.id}": group.engine
        for sweep, platform, more in commands
        for group in planned(f"+sweep={sweep}", f"platform={platform}", more).groups
    }


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    """What vLLM's classes hold, and say to our configurations and to wrong ones."""
    engines = composed()
    base = engines["spec_methods cpu smollm2-135m--none"]
    wrong = {name: base.model_copy(update=changes) for name, changes in WRONG.items()}
    asked = {name: e.model_dump(mode="json") for name, e in {**engines, **wrong}.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.execution.vllm_arguments"],
        cwd=ROOT,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_vllm_takes_every_engine_that_our_options_compose(read: dict[str, Any]) -> None:
    ours = {name: said for name, said in read["objections"].items() if name not in WRONG}
    assert len(ours) > 20
    assert {name: said for name, said in ours.items() if said} == {}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_would_have_been_told(read: dict[str, Any], name: str) -> None:
    assert read["objections"][name]


def test_vllm_s_sources_tell_what_its_classes_hold(read: dict[str, Any]) -> None:
    vllm = installed_vllm()
    assert vllm is not None
    assert sorted(vllm.engine) == sorted(read["engine"])
    assert sorted(vllm.speculative) == sorted(read["speculative"])
    assert sorted(vllm.methods or ()) == sorted(read["methods"])
