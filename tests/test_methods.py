from typing import Any

import pytest
from pydantic import TypeAdapter

from pipeline.methods import k_values, speculative_config, why_not
from pipeline.spec import MethodSpec, ModelSpec
from tests.grids import METHODS, model

K_CHOICE = tuple[int, ...] | dict[str, tuple[int, ...]] | None


def method(name: str, /, **changes: object) -> MethodSpec:
    return TypeAdapter[MethodSpec](MethodSpec).validate_python({**METHODS[name], **changes})


def target(**drafters: dict[str, Any]) -> ModelSpec:
    return ModelSpec.model_validate(model(drafters=drafters))


# --- vLLM's speculative configuration


@pytest.mark.parametrize(
    ("name", "drafter", "expected"),
    [
        pytest.param("none", None, None, id="plain decoding speculates nothing"),
        pytest.param(
            "ngram",
            None,
            {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 4,
            },
            id="n-gram needs no drafter",
        ),
        pytest.param(
            "mtp",
            {},
            {"method": "mtp", "num_speculative_tokens": 3},
            id="a head inside the target needs no checkpoint",
        ),
        pytest.param(
            "eagle3",
            {"checkpoint": "maker/head"},
            {"method": "eagle3", "num_speculative_tokens": 3, "model": "maker/head"},
            id="a head of its own is named",
        ),
        pytest.param(
            "dflash",
            {"checkpoint": "maker/head", "revision": "abc"},
            {
                "method": "dflash",
                "num_speculative_tokens": 3,
                "model": "maker/head",
                "revision": "abc",
            },
            id="with its revision where it is pinned",
        ),
        pytest.param(
            "mtp",
            {"speculative": {"disable_padded_drafter_batch": True}},
            {
                "method": "mtp",
                "num_speculative_tokens": 3,
                "disable_padded_drafter_batch": True,
            },
            id="with the drafter's own settings",
        ),
    ],
)
def test_a_method_is_configured_for_the_engine(
    name: str, drafter: dict[str, Any] | None, expected: dict[str, Any] | None
) -> None:
    drafters = {} if drafter is None else {name: drafter}
    assert speculative_config(method(name), 3, target(**drafters)) == expected


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"none"}))
def test_the_method_is_always_named_since_a_bare_drafter_is_taken_for_a_draft_model(
    name: str,
) -> None:
    heads = {n: {"checkpoint": "maker/head"} for n in METHODS if n not in ("none", "ngram")}
    config = speculative_config(method(name), 2, target(**heads))
    assert config is not None
    assert config["method"] == name


# --- K


@pytest.mark.parametrize(
    ("name", "drafter", "chosen", "expected"),
    [
        pytest.param("none", None, (2, 4), (0,), id="plain decoding has the one value zero"),
        pytest.param("ngram", None, None, (4, 5), id="the method's own list"),
        pytest.param("ngram", None, (2,), (2,), id="the sweep's list wins over the method's"),
        pytest.param("mtp", {"k": [6]}, None, (6,), id="the drafter's list wins over the method's"),
        pytest.param("mtp", {"k": [6]}, (2,), (2,), id="the sweep's list wins over the drafter's"),
        pytest.param("mtp", {"k": [6]}, {"mtp": (3,)}, (3,), id="the sweep's list for the method"),
        pytest.param("mtp", {"k": [6]}, {"ngram": (3,)}, (6,), id="a list for another method"),
        pytest.param("ngram", None, {"mtp": (3,)}, (4, 5), id="another's list, no drafter"),
        pytest.param("ngram", None, (4, 2, 4), (4, 2), id="doubles are dropped, order is kept"),
    ],
)
def test_k_comes_from_the_sweep_else_the_drafter_else_the_method(
    name: str, drafter: dict[str, Any] | None, chosen: K_CHOICE, expected: tuple[int, ...]
) -> None:
    drafters = {} if drafter is None else {name: drafter}
    assert k_values(method(name), target(**drafters), chosen) == expected


def test_k_is_chosen_by_the_methods_name_and_drafters_by_its_kind() -> None:
    renamed = method("mtp", name="mtp-deep")
    drafted = target(mtp={"k": [6]})
    assert k_values(renamed, drafted, None) == (6,)
    assert k_values(renamed, drafted, {"mtp-deep": (9,)}) == (9,)
    assert k_values(renamed, drafted, {"mtp": (9,)}) == (6,)


# --- what a method requires


@pytest.mark.parametrize("name", ["none", "ngram"])
def test_a_method_without_a_drafter_runs_on_every_model(name: str) -> None:
    assert why_not(method(name), 5, target()) is None


def test_a_method_that_needs_a_drafter_says_what_there_is_instead() -> None:
    assert why_not(method("dflash"), 7, target()) == (
        "dflash needs a drafter for m0; it has drafters for: none"
    )
    drafted = target(mtp={}, eagle3={"checkpoint": "a/b"})
    assert why_not(method("dflash"), 7, drafted) == (
        "dflash needs a drafter for m0; it has drafters for: eagle3, mtp"
    )


def test_k_up_to_the_drafters_limit_runs_and_one_more_does_not() -> None:
    drafted = target(mtp={"max_k": 4, "max_k_reason": "it has four heads"})
    assert why_not(method("mtp"), 4, drafted) is None
    assert why_not(method("mtp"), 5, drafted) == (
        "K=5 exceeds this drafter's limit of 4 (it has four heads)"
    )


def test_a_limit_without_a_reason_is_told_without_one() -> None:
    refused = why_not(method("mtp"), 5, target(mtp={"max_k": 4}))
    assert refused == "K=5 exceeds this drafter's limit of 4"
