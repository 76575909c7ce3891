from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.analysis.costs import decode_costs, length_costs
from pipeline.analysis.pairing import Pair, Side
from pipeline.analysis.statistics import Rule
from pipeline.analysis.verdict import Comparison, compare
from tests.analysis.passes import Step, request
from tests.benchmarks.simulated import SimulatedNoise, simulated_pair

RULE = Rule(resamples=999)
QUIET = SimulatedNoise(ratio_sd=0.01)


def side(cost: float, *, jitter: float = 0.0, prompts: int = 8) -> Side:
    """Prompts that cost `cost`, every other repeat dearer by `jitter`."""
    return Side(
        label="m/eagle3-k3/chat/c1",
        node="n1",
        sweep="s",
        status="OK",
        costs={
            f"p{i}": {r: cost * (1 + jitter * r) * (1 + 0.001 * i) for r in range(2)}
            for i in range(prompts)
        },
    )


def ratios(*logs: float) -> Pair:
    """One repeat of prompts with these log ratios."""
    costs = {f"p{i}": {0: exp(-value)} for i, value in enumerate(logs)}
    level = {f"p{i}": {0: 1.0} for i in range(len(logs))}
    return Pair(
        measured=side(1.0).model_copy(update={"costs": costs}),
        baseline=side(1.0).model_copy(update={"costs": level}),
        pairing="interleaved",
    )


def judged(
    measured: Side, baseline: Side | None, rule: Rule = RULE, closing: Side | None = None
) -> Comparison:
    pairing = "bracketed" if closing else "interleaved"
    [found] = compare(
        [Pair(measured=measured, baseline=baseline, pairing=pairing, closing=closing)], rule
    )
    return found


def test_a_method_that_costs_half_is_better() -> None:
    found = judged(side(0.5), side(1.0))
    assert found.verdict == "better"
    assert found.sentence == (
        "decode speed is 2.00 times the baseline's (95% interval 2.00 to 2.00,"
        " 8 prompts x 2 repeats), p = 0"
    )


def test_a_method_that_costs_more_is_worse() -> None:
    assert judged(side(1.1), side(1.0)).verdict == "worse"


def test_an_effect_too_small_to_matter_is_no_change() -> None:
    found = judged(side(1.0), side(1.02))
    assert found.verdict == "no change"
    assert found.sentence.endswith("an effect below 3% is too small to matter")


def test_an_interval_that_includes_one_is_no_change() -> None:
    [found] = compare([ratios(0.3, -0.2, 0.25, 0.0, -0.25, 0.1)], RULE)
    assert found.verdict == "no change"
    assert found.sentence.endswith("the interval includes 1")


def test_four_prompts_are_unstable_however_large_the_effect() -> None:
    found = judged(side(0.5, prompts=4), side(1.0))
    assert found.verdict == "unstable"
    assert "4 prompts are fewer than the 5 it takes: raise the dataset's limit" in found.sentence
    assert "no interval" in found.sentence


def test_repeats_that_disagree_are_unstable() -> None:
    found = judged(side(0.5, jitter=0.5), side(1.0))
    assert found.verdict == "unstable"
    assert "differ by 22% (median absolute deviation), more than 10%" in found.sentence


def test_a_missing_baseline_has_its_own_word() -> None:
    found = judged(side(0.5), None)
    assert (found.verdict, found.estimate) == ("no baseline", None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node": "n2"}, "different nodes (n1, n2)"),
        ({"sweep": "t"}, "different sweeps (s, t)"),
        ({"status": "SUSPECT"}, "is SUSPECT; only OK cells"),
        ({"costs": {"other": {0: 1.0}}}, "no measured prompt in common"),
        ({"costs": {"p0": {7: 1.0}}}, "no prompt has a repeat that both sides measured"),
    ],
    ids=["node", "sweep", "status", "prompts", "repeats"],
)
def test_sides_that_say_nothing_about_each_other(changes: dict[str, object], words: str) -> None:
    found = judged(side(0.5).model_copy(update=changes), side(1.0))
    assert found.verdict == "not comparable"
    assert words in found.sentence


def test_a_bracketed_pair_takes_the_middle_of_both_ends() -> None:
    found = judged(side(1.0), side(1.99), closing=side(2.01))
    assert found.verdict == "better"
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx(2, rel=1e-4)
    assert found.drift == pytest.approx(2.01 / 1.99)


def test_ends_that_differ_make_a_bracketed_pair_not_comparable() -> None:
    found = judged(side(1.0), side(2.0), closing=side(2.7))
    assert found.verdict == "not comparable"
    assert "at the end was 1.35 times that at the beginning" in found.sentence


def test_equal_ends_do_not_excuse_a_side_that_drifts_within() -> None:
    restless = side(1.0, jitter=0.06)
    found = judged(restless, side(1.5), closing=side(1.5))
    assert found.verdict == "not comparable"
    assert "its last repeat cost 1.06 times its first" in found.sentence
    assert judged(restless, side(1.5)).verdict == "better"


def test_a_bracket_without_its_closing_end_is_not_comparable() -> None:
    [found] = compare([Pair(measured=side(0.5), baseline=side(1.0), pairing="bracketed")], RULE)
    assert found.verdict == "not comparable"


def test_a_table_demands_more_of_each_of_its_comparisons() -> None:
    weak = ratios(0.02, 0.10, 0.15, 0.03, 0.12, -0.02, 0.09, 0.20)
    null = ratios(0.1, -0.1, 0.1, -0.1, 0.2, -0.2, 0.1, -0.1)
    [alone], [among, *_] = compare([weak], RULE), compare([weak, *[null] * 9], RULE)
    assert alone.verdict == "better"
    assert among.verdict == "no change"
    assert "corrected for the table's other comparisons" in among.sentence
    assert alone.p_adjusted is not None
    assert among.p_adjusted == pytest.approx(10 * alone.p_adjusted)


def test_cells_without_a_verdict_do_not_count_in_the_correction() -> None:
    pairs = [
        Pair(measured=side(0.9, jitter=0.01), baseline=side(1.0), pairing="interleaved"),
        Pair(measured=side(0.5), baseline=None, pairing="interleaved"),
    ]
    assert compare(pairs, RULE)[0] == compare(pairs[:1], RULE)[0]


def test_an_empty_table_has_no_comparisons() -> None:
    assert compare([], RULE) == ()


def test_comparisons_survive_the_disk() -> None:
    found = judged(side(0.5, prompts=4), side(1.0))
    assert Comparison.model_validate_json(found.model_dump_json()) == found


@given(st.integers(0, 10_000), st.floats(0.1, 0.9))
@settings(max_examples=30)
def test_swapping_the_sides_mirrors_the_verdict(seed: int, effect: float) -> None:
    rng = np.random.default_rng(seed)
    pair = simulated_pair(QUIET, rng, prompts=6, repeats=2, effect=effect, pairing="interleaved")
    assert pair.baseline is not None
    swapped = Pair(measured=pair.baseline, baseline=pair.measured, pairing="interleaved")
    assert [c.verdict for c in compare([pair], RULE)] == ["better"]
    assert [c.verdict for c in compare([swapped], RULE)] == ["worse"]


def test_on_a_simulated_drifting_machine_few_null_comparisons_are_called() -> None:
    rng = np.random.default_rng(0)
    quick = Rule(resamples=499)
    called = 0
    for _ in range(200):
        pair = simulated_pair(
            SimulatedNoise(), rng, prompts=20, repeats=3, effect=0, pairing="interleaved"
        )
        called += compare([pair], quick)[0].verdict in ("better", "worse")
    assert called <= 10


def test_decode_costs_are_seconds_per_token_by_prompt_and_repeat() -> None:
    made = [
        request([Step(3, 3), Step(3, 1)], prompt="a", repeat=0),
        request([Step(3, 0)], prompt="a", repeat=1),
        request([], prompt="b", repeat=0),
    ]
    assert decode_costs(made) == {"a": {0: pytest.approx(0.1 / 6), 1: pytest.approx(0.05)}}


def test_length_costs_are_drafting_steps_per_token_they_gave() -> None:
    made = [
        request([Step(3, 3), Step(0, 0), Step(2, 1)], prompt="a"),
        request([Step(0, 0)], prompt="b"),
    ]
    assert length_costs(made) == {"a": {0: pytest.approx(2 / 6)}}
