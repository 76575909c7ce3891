from typing import Any

import pytest

from pipeline.arguments import ArgumentValueError, UnknownArgumentError, check_arguments
from pipeline.errors import EXIT_BAD_CONFIG
from pipeline.installed import Argument, InstalledVllm
from pipeline.spec import SweepConfig
from tests.grids import MEASURE, PLATFORM, model, sweep

WHOLE, TEXT = Argument(kinds=frozenset({"int"})), Argument(kinds=frozenset({"str"}))
VLLM = InstalledVllm(
    version="0.32.0",
    engine={"max_model_len": WHOLE, "dtype": TEXT},
    speculative={
        "attention_backend": TEXT,
        "draft_sample_method": Argument(
            kinds=frozenset({"str"}), choices=frozenset({"greedy", "probabilistic"})
        ),
    },
)
WRONG: dict[str, Any] = {"max_modle_len": 8}


def with_drafter(**changes: Any) -> SweepConfig:
    return sweep([model(drafters={"mtp": changes})])


@pytest.mark.parametrize(
    ("config", "where"),
    [
        pytest.param(
            sweep(platform={**PLATFORM, "engine_args": WRONG}), "platform bench", id="platform"
        ),
        pytest.param(sweep(measure={**MEASURE, "engine_args": WRONG}), "measure", id="measure"),
        pytest.param(sweep([model(engine_args=WRONG)]), "model m0: engine_args", id="model"),
        pytest.param(
            with_drafter(engine_args=WRONG),
            "model m0: drafters.mtp.engine_args",
            id="drafter",
        ),
    ],
)
def test_a_misspelt_argument_is_told_with_its_place_and_its_neighbour(
    config: SweepConfig, where: str
) -> None:
    with pytest.raises(UnknownArgumentError) as caught:
        check_arguments(config, VLLM)
    assert str(caught.value).startswith(where)
    assert "vLLM 0.32.0 has no argument 'max_modle_len', did you mean 'max_model_len'?" in str(
        caught.value
    )
    assert caught.value.exit_code == EXIT_BAD_CONFIG


def test_a_misspelt_drafting_key_is_told_of_the_other_class() -> None:
    with pytest.raises(UnknownArgumentError, match=r"drafters\.mtp\.speculative.*attention_backen"):
        check_arguments(with_drafter(speculative={"attention_backed": "X"}), VLLM)


def test_a_value_of_another_kind_is_told_with_what_is_allowed() -> None:
    with pytest.raises(ArgumentValueError, match=r"max_model_len.*'long'; allowed: int"):
        check_arguments(sweep([model(engine_args={"max_model_len": "long"})]), VLLM)
    with pytest.raises(ArgumentValueError, match=r"'gredy'; allowed: greedy, probabilistic"):
        check_arguments(with_drafter(speculative={"draft_sample_method": "gredy"}), VLLM)


def test_what_fits_passes_and_where_vllm_is_unknown_everything_does() -> None:
    good = sweep([model(engine_args={"max_model_len": 8, "dtype": None})])
    check_arguments(good, VLLM)
    wrong = sweep([model(engine_args=WRONG)])
    check_arguments(wrong, None)
    check_arguments(wrong, InstalledVllm(version="0.99.0"))
