"""What is advised: the fastest that was called faster, the smallest K within its noise, and why."""

from __future__ import annotations

from math import log

import pytest

from pipeline.analysis.advice import why
from pipeline.analysis.answer import answer_markdown, answers
from pipeline.analysis.findings import Advice
from pipeline.analysis.judging import find
from pipeline.analysis.statistics import Estimate, Rule
from tests.report.composed import Made, Method, change, evidence, sweep

RULE = Rule(resamples=999)
PLAIN = Method("none", 0)


def method(
    name: str, k: int, step: float = 1.2, coverage: float = 1.0, **accepted: float
) -> Method:
    return Method(name, k, accepted, step, coverage, noise=0.01)


def advice(*methods: Method, datasets: tuple[str, ...] = ("chat",)) -> dict[str | None, Advice]:
    made = sweep(datasets, [PLAIN, *methods])
    return {one.dataset: one for one in find([evidence(m) for m in made], RULE).advice}


def text(*methods: Method, datasets: tuple[str, ...] = ("chat",)) -> str:
    made = sweep(datasets, [PLAIN, *methods])
    return answer_markdown(find([evidence(one) for one in made], RULE))


def test_the_fastest_method_that_was_called_faster_is_advised_with_its_command() -> None:
    found = advice(method("mtp", 1, chat=0.6), method("eagle3", 2, chat=0.8))["chat"]
    assert found.use is not None
    assert found.use.setting == "eagle3 K=2"
    assert found.serve_command is not None
    assert '"method":"eagle3","num_speculative_tokens":2' in found.serve_command


def test_of_one_methods_k_within_the_noise_the_smallest_is_advised() -> None:
    small, large = method("mtp", 2, chat=0.8), method("mtp", 3, step=1.42, chat=0.8)
    found = advice(small, large)["chat"]
    assert found.use is not None
    assert found.use.k == 2
    assert [one.setting for one in found.tied] == ["mtp K=3"]
    assert "; it cannot be told from mtp K=3 at " in found.sentence


def test_plain_decoding_stays_where_nothing_was_faster_and_the_nearest_is_named() -> None:
    found = advice(method("mtp", 1, step=1.5, chat=0.2), method("ngram", 4, chat=0.02))["chat"]
    assert (found.use, found.tied) == (None, ())
    assert found.nearest is not None
    assert found.sentence.startswith(
        "nothing could be called faster than plain decoding; the nearest"
    )
    assert found.serve_command == "vllm serve /models/composed-135m --max-model-len 2048"
    assert [one.comparison.verdict for one in found.avoid] == ["worse", "worse"]


def test_one_that_is_too_unsteady_to_call_but_leads_is_not_passed_over() -> None:
    unsteady = Method("ngram", 4, {"chat": 0.9}, 1.1, noise=0.9)
    found = advice(method("mtp", 1, step=1.5, chat=0.2), unsteady)["chat"]
    assert (found.use, found.nearest, found.serve_command) == (None, None, None)
    assert found.sentence.startswith("ngram K=4 leads at ")
    assert "nothing can be called" in found.sentence
    assert [one.setting for one in found.avoid] == ["mtp K=1"]


def test_the_reason_is_what_a_step_gave_and_took() -> None:
    found = advice(method("mtp", 1, step=1.5, chat=0.3))["chat"]
    [slow] = found.avoid
    assert slow.comparison.estimate is not None
    gave, took = (float(word) for word in slow.why.split() if word[0].isdigit())
    assert log(gave / took) == pytest.approx(log(slow.comparison.estimate.ratio), abs=0.02)


def test_a_step_takes_what_it_took_where_prompts_differ_much_in_what_it_gave() -> None:
    made = sweep(("echo",), [PLAIN, method("ngram", 4, step=1.2, coverage=0.4, echo=0.9)])
    record = list(made)[-1].record
    # Half of the answers copy and half do not; every step takes 1.2 times as long as a plain one.
    costs = tuple(
        cost.model_copy(update={"steps": 0.2 if i % 2 else 1.0})
        for i, cost in enumerate(record.costs)
    )
    ratio = (5**0.5) / 1.2
    estimate = Estimate(
        ratio=ratio,
        low=ratio - 0.05,
        high=ratio + 0.05,
        p=0.001,
        prompts=20,
        dropped=0,
        repeats=2,
        relative_mad=0.01,
    )
    found = why(record.model_copy(update={"costs": costs}), estimate)
    assert found.startswith("a step gave 2.24 tokens and took 1.20 times as long")


def test_a_method_that_seldom_drafts_is_said_to() -> None:
    found = advice(method("ngram", 4, coverage=0.2, chat=0.2))["chat"]
    assert "of steps had anything to draft" in found.avoid[0].why
    assert "had anything to draft" not in advice(method("mtp", 1, chat=0.3))["chat"].sentence


def test_a_setting_that_lacks_a_kind_of_prompt_is_no_answer_for_all_of_them() -> None:
    made = list(sweep(("chat", "json"), [PLAIN, method("mtp", 1, chat=0.8, json=0.8)]))
    failed = change(made[-1], lambda record: record.model_copy(update={"status": "SUSPECT"}))
    found = find([evidence(one) for one in (*made[:-1], failed)], RULE)
    [answer] = answers(found)
    assert answer.headline == "it depends on the kind of prompt"
    assert answer.serve_command is None
    assert (
        answer.text == "No setting has a usable cell for every kind of prompt. For chat use mtp"
        f" K=1, {_span(found.advice[1])} times as fast."
    )


def test_another_choice_is_told_only_where_the_answer_is_not_as_good() -> None:
    found = text(
        method("mtp", 2, code=0.7, chat=0.7, echo=0.3),
        method("ngram", 4, step=1.1, coverage=0.4, code=0.02, chat=0.02, echo=0.97),
        datasets=("code", "chat", "echo"),
    )
    assert found.startswith(
        "**composed-135m: use mtp K=2.** Over all 3 kinds of prompt, mtp K=2 is "
    )
    assert "For echo use ngram K=4, " in found
    assert "For code" not in found
    assert "Avoid ngram K=4 for chat and code, down to " in found


def test_what_is_slower_everywhere_is_avoided_once() -> None:
    found = text(method("ngram", 4, chat=0.1, json=0.1), datasets=("chat", "json"))
    assert found.count("ngram K=4, ") == 2
    assert " for chat" not in found


def test_a_kind_whose_only_method_changes_the_output_has_no_answer() -> None:
    made = list(sweep(("chat",), [PLAIN, method("mtp", 1, chat=0.8)]))
    given = [evidence(one) for one in made]
    wrong = tuple(one.model_copy(update={"gaps": (9.0,) * 32}) for one in given[-1].rescored)
    found = find([given[0], given[1].model_copy(update={"rescored": wrong})], RULE)
    assert found.advice[0].use is None
    assert found.advice[0].sentence.startswith("composed-135m/mtp-k1/chat/c1 is not lossless: ")


def test_where_nothing_can_be_called_what_leads_is_told_and_why_it_decides_nothing() -> None:
    some = [PLAIN, method("mtp", 1, chat=0.6), method("mtp", 2, chat=0.8)]
    given = [evidence(one) for one in sweep(("chat",), some, prompts=4)]
    [found] = find(given, RULE).advice
    assert (found.use, found.nearest) == (None, None)
    assert found.sentence.startswith("mtp K=2 leads at ")
    assert found.sentence.endswith(
        " (no interval) times plain decoding, but nothing can be called: 4 prompts are fewer than"
        " the 5 it takes: raise the dataset's limit"
    )


def test_a_missing_baseline_says_what_to_do() -> None:
    [made] = sweep(("chat",), [method("mtp", 1, chat=0.8)])
    alone = change(made, lambda record: record.model_copy(update={"companion": None}))
    assert answer_markdown(find([evidence(alone)], RULE)) == (
        "**composed-135m: nothing can be said yet.** composed-135m/mtp-k1/chat/c1 has no baseline"
        " in this sweep; add the method none to its axes."
    )


def test_a_baseline_alone_is_no_answer() -> None:
    assert text() == "**composed-135m: nothing can be said yet.** No method was measured."


def test_several_concurrencies_are_told_apart() -> None:
    made: list[Made] = []
    for concurrency in (1, 8):
        made += sweep(("chat",), [PLAIN, method("mtp", 1, chat=0.8)], concurrency=concurrency)
    found = answer_markdown(find([evidence(one) for one in made], RULE)).split("\n\n")
    assert [one.partition(":")[0] for one in found] == [
        "**composed-135m, 1 at once",
        "**composed-135m, 8 at once",
    ]


def test_a_setting_that_owes_its_place_to_few_kinds_of_prompt_says_which() -> None:
    found = text(
        method("ngram", 4, step=1.05, code=0.1, json=0.1, chat=0.1, echo=0.97),
        method("mtp", 1, step=1.25, code=0.6, json=0.6, chat=0.6, echo=0.3),
        datasets=("code", "json", "chat", "echo"),
    )
    assert "use ngram K=4.**" in found
    assert "It is the fastest, or within the noise of it, for echo only. For code use mtp" in found


def test_a_faster_larger_k_that_cannot_be_told_apart_says_why_it_is_not_advised() -> None:
    larger = advice(method("mtp", 2, chat=0.8), method("mtp", 3, step=1.36, chat=0.8))["chat"]
    assert larger.use is not None
    assert larger.use.k == 2
    assert larger.sentence.endswith(", and of mtp's K the smallest wastes the fewest drafts")


def _span(one: Advice) -> str:
    return one.sentence.partition(" is ")[2].partition(" times")[0]
