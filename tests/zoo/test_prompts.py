from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.zoo import prompts
from pipeline.zoo.corpus import SHARES


@given(st.sampled_from(prompts.KINDS), st.integers(0, 10_000))
def test_every_template_can_be_filled(kind: str, seed: int) -> None:
    text = prompts.templated(kind, Random(seed))

    assert len(text) > 8
    assert text == prompts.templated(kind, Random(seed))


@pytest.mark.parametrize("kind", prompts.KINDS)
def test_prompts_of_a_kind_are_many(kind: str) -> None:
    random = Random(1)

    assert len({prompts.templated(kind, random) for _ in range(300)}) > 150


@given(st.sampled_from(prompts.KINDS), st.integers(0, 1000))
def test_an_opening_does_not_end_in_a_blank_that_would_split_the_next_word(
    kind: str, seed: int
) -> None:
    opening = prompts.opening(kind, Random(seed))

    assert opening.kind == kind
    assert not opening.prefix.endswith(" ")


@given(st.text(min_size=1, max_size=80), st.integers(0, 100))
def test_any_text_can_be_asked_about(text: str, seed: int) -> None:
    assert text in prompts.about_text(text, Random(seed))


def test_the_kinds_shares_are_of_a_whole() -> None:
    assert set(SHARES) == set(prompts.KINDS)
    assert sum(SHARES.values()) == pytest.approx(1.0)
