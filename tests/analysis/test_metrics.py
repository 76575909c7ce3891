import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.acceptance import fitted_alpha
from pipeline.analysis.counts import count, decode_steps, undrafted_steps
from pipeline.analysis.metrics import summarise
from pipeline.records import PassRecord
from tests.analysis.passes import Step, counters_only, one_pass, passes, request

K = 3
# Drafts of 3, 3 and 2 tokens with 3, 1 and 0 accepted, and one step that did not draft.
WORKED = [Step(3, 3), Step(3, 1), Step(0, 0), Step(2, 0)]


def values(*made: PassRecord, k: int = K) -> dict[str, float]:
    return {name: found.value for name, found in summarise(made, k).metrics.items()}


def scaled(one: PassRecord, factor: float) -> PassRecord:
    slower = [
        r.model_copy(
            update={"sent_s": r.sent_s * factor, "chunk_s": tuple(s * factor for s in r.chunk_s)}
        )
        for r in one.requests
    ]
    return one.model_copy(update={"wall_s": one.wall_s * factor, "requests": tuple(slower)})


def test_counts_of_a_worked_example() -> None:
    counts = count([one_pass(request(WORKED))], K)
    assert (counts.requests, counts.output_tokens, counts.truncated) == (1, 9, 0)
    assert (counts.drafts, counts.drafted, counts.accepted) == (3, 8, 4)
    assert counts.accepted_per_position == (2, 1, 1)
    assert (decode_steps(counts), undrafted_steps(counts)) == (4, 1)


def test_acceptance_of_a_worked_example() -> None:
    found = values(one_pass(request(WORKED)))
    assert {name: v for name, v in found.items() if name.startswith("accept/")} == pytest.approx(
        {
            "accept/rate": 4 / 8,
            "accept/length": 1 + 4 / 3,
            "accept/length_macro": 1 + 4 / 3,
            "accept/joint_0": 2 / 3,
            "accept/joint_1": 1 / 3,
            "accept/joint_2": 1 / 3,
            "accept/conditional_0": 2 / 3,
            "accept/conditional_1": 1 / 2,
            "accept/conditional_2": 1,
            "accept/coverage": 3 / 4,
            "accept/tokens_per_step": 8 / 4,
            "accept/fitted_alpha": fitted_alpha(1 + 4 / 3, K),
        }
    )


def test_what_the_last_step_accepted_in_vain_is_not_put_out() -> None:
    counts = count([one_pass(request([Step(3, 1), Step(3, 3)], cut=2))], K)
    assert (counts.output_tokens, counts.accepted, counts.truncated) == (5, 4, 2)
    assert undrafted_steps(counts) == 0
    assert values(one_pass(request([Step(3, 1), Step(3, 3)], cut=2)))[
        "accept/tokens_per_step"
    ] == pytest.approx(4 / 2)


def test_steps_merged_into_one_chunk_are_still_counted() -> None:
    whole = request(WORKED)
    merged = whole.model_copy(
        update={
            "chunk_tokens": (1, 6, 2),
            "chunk_s": (whole.chunk_s[0], whole.chunk_s[2], whole.chunk_s[4]),
        }
    )
    assert count([one_pass(merged)], K) == count([one_pass(whole)], K)


def test_the_macro_length_weighs_requests_alike_and_the_length_weighs_drafts_alike() -> None:
    busy = request([Step(3, 3)] * 9, prompt="busy")
    brief = request([Step(3, 0)], prompt="brief")
    found = values(one_pass(busy, brief))
    assert found["accept/length"] == pytest.approx(1 + 27 / 10)
    assert found["accept/length_macro"] == pytest.approx((4 + 1) / 2)


def test_plain_decoding_has_speeds_and_no_acceptance() -> None:
    found = values(one_pass(request([Step(0, 0)] * 4, counted=False)), k=0)
    assert found["speed/decode_tok_s"] == pytest.approx(20)
    assert not [name for name in found if name.startswith("accept/")]


def test_drafts_nobody_counted_define_no_acceptance() -> None:
    found = values(one_pass(request(WORKED, counted=False)))
    assert not [name for name in found if name.startswith("accept/")]


def test_a_method_that_never_drafted_has_coverage_zero_and_no_rate() -> None:
    found = values(one_pass(request([Step(0, 0)] * 4)))
    assert {name: v for name, v in found.items() if name.startswith("accept/")} == {
        "accept/coverage": 0,
        "accept/tokens_per_step": 1,
    }


def test_the_decode_rate_leaves_the_first_chunk_out_on_both_sides() -> None:
    found = values(one_pass(request(WORKED)))
    assert found["speed/decode_tok_s"] == pytest.approx(8 / 0.2)
    assert found["speed/e2e_tok_s"] == pytest.approx(9 / 0.4)
    assert found["latency/ttft_ms"] == pytest.approx(200)
    assert found["latency/step_ms"] == pytest.approx(50)


def test_a_prompts_repeats_are_averaged_as_time_per_token() -> None:
    fast = one_pass(request([Step(0, 0)] * 4, step_s=0.1), repeat=0)
    slow = one_pass(request([Step(0, 0)] * 4, step_s=0.3), repeat=1)
    found = summarise([fast, slow], 0)
    assert found.metrics["speed/decode_tok_s"].value == pytest.approx(1 / 0.2)
    assert found.metrics["speed/decode_tok_s"].n == 1
    assert found.per_repeat["speed/decode_tok_s"] == pytest.approx((10, 1 / 0.3))


def test_overlapping_requests_do_not_slow_each_others_decode_rate() -> None:
    alone = one_pass(request([Step(0, 0)] * 4, prompt="a"))
    shared = one_pass(*(request([Step(0, 0)] * 4, prompt=name) for name in "abcd"))
    rate = "speed/decode_tok_s"
    assert values(shared, k=0)[rate] == pytest.approx(values(alone, k=0)[rate])
    assert values(shared, k=0)["speed/output_tok_s"] == pytest.approx(4 * 5 / 0.4)


def test_throughput_has_one_value_per_repeat() -> None:
    made = [one_pass(request([Step(0, 0)] * 4), repeat=i, wall_s=2.0 + i) for i in range(3)]
    found = summarise(made, 0)
    assert found.per_repeat["speed/output_tok_s"] == pytest.approx((5 / 2, 5 / 3, 5 / 4))
    assert found.metrics["speed/output_tok_s"].n == 3
    assert found.metrics["speed/output_tok_s"].spread == pytest.approx(5 / 3 - 5 / 4)


def test_the_peak_is_the_fullest_second() -> None:
    quick = request([Step(0, 0)] * 3, step_s=0.1, prompt="quick")
    late = request([Step(0, 0)] * 3, step_s=0.9, sent_s=5.0, prompt="late")
    assert values(one_pass(quick, late), k=0)["speed/peak_tok_s"] == 4


def test_a_pass_shorter_than_the_window_has_no_peak() -> None:
    assert "speed/peak_tok_s" not in values(one_pass(request(WORKED), wall_s=0.9))


def test_an_answer_in_one_chunk_has_no_decode_rate() -> None:
    found = values(one_pass(request([])))
    assert "speed/decode_tok_s" not in found
    assert "latency/step_ms" not in found
    assert found["speed/e2e_tok_s"] == pytest.approx(1 / 0.2)


def test_a_metric_missing_in_one_repeat_has_no_per_repeat_values() -> None:
    found = summarise([one_pass(request(WORKED)), one_pass(request([]), repeat=1)], K)
    assert found.metrics["accept/rate"].n == 1
    assert "accept/rate" not in found.per_repeat
    assert len(found.per_repeat["speed/output_tok_s"]) == 2


def test_no_passes_have_no_metrics() -> None:
    found = summarise([], K)
    assert (found.metrics, found.per_repeat, found.counts.requests) == ({}, {}, 0)


@pytest.mark.parametrize(("length", "alpha"), [(1, 0), (1 + 0.5 + 0.25 + 0.125, 0.5), (4, 1)])
def test_the_fitted_alpha_gives_the_length_back(length: float, alpha: float) -> None:
    assert fitted_alpha(length, K) == pytest.approx(alpha)


@pytest.mark.parametrize(("length", "k"), [(0.9, 3), (4.1, 3), (1, 0)])
def test_a_length_that_no_alpha_gives_has_none(length: float, k: int) -> None:
    assert fitted_alpha(length, k) is None


@given(passes(K))
def test_the_identities_of_the_counts_hold_for_any_drafted_sequence(made: list[PassRecord]) -> None:
    counts = count(made, K)
    steps = decode_steps(counts)
    assert sum(counts.accepted_per_position) == counts.accepted <= counts.drafted
    assert counts.drafted <= K * counts.drafts
    assert 0 <= counts.truncated <= K * counts.requests
    assert steps == sum(len(r.chunk_tokens) - 1 for one in made for r in one.requests)
    assert undrafted_steps(counts) == steps - counts.drafts >= 0


@given(passes(K))
def test_without_truncation_undrafted_steps_are_n_less_r_d_and_a(made: list[PassRecord]) -> None:
    counts = count(made, K)
    emitted = counts.output_tokens + counts.truncated
    whole = counts.model_copy(update={"output_tokens": emitted, "truncated": 0})
    assert undrafted_steps(counts) == emitted - counts.requests - counts.drafts - counts.accepted
    assert undrafted_steps(whole) == undrafted_steps(counts)


@given(passes(K))
def test_counters_alone_give_the_counts_of_the_requests_own_records(made: list[PassRecord]) -> None:
    assert count([counters_only(one, K) for one in made], K) == count(made, K)


@given(passes(K))
def test_joint_acceptance_never_rises_and_ratios_stay_in_bounds(made: list[PassRecord]) -> None:
    found = values(*made)
    joint = [found[f"accept/joint_{i}"] for i in range(K) if f"accept/joint_{i}" in found]
    assert joint == sorted(joint, reverse=True)
    if joint:
        assert found["accept/length"] == pytest.approx(1 + sum(joint))
        assert 0 <= found["accept/rate"] <= 1
    assert 0 <= found.get("accept/coverage", 0) <= 1


@given(passes(K), st.randoms(use_true_random=False))
def test_the_order_of_prompts_changes_nothing(made: list[PassRecord], order: random.Random) -> None:
    shuffled = [
        one.model_copy(update={"requests": tuple(order.sample(one.requests, k=len(one.requests)))})
        for one in made
    ]
    assert values(*shuffled) == pytest.approx(values(*made))
    assert summarise(shuffled, K).counts == summarise(made, K).counts


@given(passes(K), st.floats(0.5, 20))
def test_a_slower_clock_changes_rates_by_its_factor_and_no_ratio(
    made: list[PassRecord], factor: float
) -> None:
    before, after = values(*made), values(*(scaled(one, factor) for one in made))
    for name in before.keys() - {"speed/peak_tok_s"}:
        by = {"speed": 1 / factor, "latency": factor, "accept": 1}[name.split("/")[0]]
        assert after[name] == pytest.approx(before[name] * by)
