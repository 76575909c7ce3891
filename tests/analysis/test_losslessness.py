import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.analysis.losslessness import agreement, check_greedy, check_sampled
from pipeline.analysis.statistics import Rule
from pipeline.records import RescoredOutput

RULE = Rule(resamples=999)


def output(*gaps: float, prompt: str = "p0", repeat: int = 0) -> RescoredOutput:
    return RescoredOutput(
        prompt_id=prompt, repeat=repeat, gaps=gaps, logprobs=tuple(-0.5 - gap for gap in gaps)
    )


def mostly_tight(tokens: int, wide: int, gap: float = 0.125) -> list[RescoredOutput]:
    """One output with this many tokens whose gap is wide; the others have none."""
    return [output(*[0.0] * (tokens - wide), *[gap] * wide)]


def sampled(shift: float, seed: int, prompts: int = 12) -> list[RescoredOutput]:
    rng = np.random.default_rng(seed)
    return [
        RescoredOutput(
            prompt_id=f"p{i}",
            repeat=0,
            gaps=(0.0,) * 40,
            logprobs=tuple(rng.normal(-1.0 - 0.1 * i + shift, 0.3, 40)),
        )
        for i in range(prompts)
    ]


@pytest.mark.parametrize(
    ("tokens", "wide", "widest"), [(509, 4, 0.125), (525, 3, 0.25)], ids=["ngram", "eagle3"]
)
def test_near_ties_at_the_floors_rate_are_lossless(tokens: int, wide: int, widest: float) -> None:
    found = check_greedy(mostly_tight(tokens, wide, widest), mostly_tight(525, 3), RULE)
    assert found.verdict == "lossless"
    assert f"{wide} of {tokens} tokens have a gap above 0.1 nat" in found.sentence
    assert (found.share, found.floor_share) == pytest.approx((wide / tokens, 3 / 525))


def test_more_wide_gaps_than_chance_explains_are_not_lossless() -> None:
    found = check_greedy(mostly_tight(500, 15), mostly_tight(525, 3), RULE)
    assert found.verdict == "not lossless"
    assert found.p < 0.01
    assert "more wide gaps than chance explains" in found.sentence


def test_one_token_that_was_not_verified_is_found_with_its_place() -> None:
    wrong = [output(0, 0, 0, prompt="p0"), output(0, 4.5, 0, prompt="p1", repeat=1)]
    found = check_greedy(wrong, mostly_tight(525, 3), RULE)
    assert found.verdict == "not lossless"
    assert found.widest is not None
    assert (found.widest.prompt_id, found.widest.repeat, found.widest.position) == ("p1", 1, 1)
    assert "4.5 nat (prompt p1, token 1" in found.sentence


def test_a_floor_without_wide_gaps_forbids_no_first_one() -> None:
    assert check_greedy(mostly_tight(500, 1), mostly_tight(500, 0), RULE).verdict == "lossless"
    assert check_greedy(mostly_tight(500, 6), mostly_tight(500, 0), RULE).verdict == "not lossless"


def test_no_tokens_on_either_side_are_too_little_to_tell() -> None:
    assert check_greedy([], mostly_tight(9, 0), RULE).verdict == "too little to tell"
    assert check_greedy(mostly_tight(9, 9), [output()], RULE).verdict == "too little to tell"


def test_samples_of_the_same_distribution_are_lossless() -> None:
    found = check_sampled(sampled(0, seed=1), sampled(0, seed=2), RULE)
    assert found.verdict == "lossless"
    assert found.sentence.endswith("which includes 0")


@pytest.mark.parametrize("shift", [0.4, -0.4], ids=["sharpened", "flattened"])
def test_samples_of_another_distribution_are_not_lossless(shift: float) -> None:
    found = check_sampled(sampled(shift, seed=1), sampled(0, seed=2), RULE)
    assert found.verdict == "not lossless"
    assert found.difference is not None
    assert found.difference.mean == pytest.approx(shift, abs=0.1)


def test_few_sampled_prompts_are_too_little_to_tell() -> None:
    found = check_sampled(sampled(3, seed=1, prompts=4), sampled(0, seed=2), RULE)
    assert (found.verdict, found.difference) == ("too little to tell", None)
    assert "raise the dataset's limit" in found.sentence


def test_agreement_shows_where_texts_part() -> None:
    found = agreement(
        {"same": (1, 2), "parts": (1, 9, 3), "longer": (1, 2, 3), "only ours": ()},
        {"same": (1, 2), "parts": (1, 2, 3), "longer": (1, 2), "only theirs": (1,)},
    )
    assert (found.outputs, found.same) == (3, 1)
    assert found.first_difference == {"parts": 1, "longer": 2}


def test_a_token_without_both_numbers_is_refused() -> None:
    with pytest.raises(ValidationError, match="both a gap and a log-probability"):
        RescoredOutput(prompt_id="p", repeat=0, gaps=(0.0,), logprobs=())


def test_a_negative_gap_is_refused() -> None:
    with pytest.raises(ValidationError):
        output(-0.1)


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=40))
def test_an_output_is_lossless_against_itself(gaps: list[float]) -> None:
    assert check_greedy([output(*gaps)], [output(*gaps)], RULE).verdict == "lossless"


@given(st.lists(st.lists(st.floats(0, 0.5), max_size=9), min_size=1, max_size=6))
def test_the_order_of_outputs_does_not_matter(all_gaps: list[list[float]]) -> None:
    outputs = [output(*gaps, prompt=f"p{i}") for i, gaps in enumerate(all_gaps)]
    there = check_greedy(outputs, mostly_tight(50, 3), RULE)
    back = check_greedy(outputs[::-1], mostly_tight(50, 3), RULE)
    assert (there.verdict, there.p, there.wide) == (back.verdict, back.p, back.wide)
