"""A search over K measures few of them and finds what the whole grid would have found."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.findings import Advice, Evidence
from pipeline.analysis.judging import find, pair
from pipeline.analysis.k_search import (
    KSearch,
    conclude,
    forecast_of,
    next_k,
    searches,
    step_ratio,
    told,
)
from pipeline.analysis.statistics import Rule
from pipeline.analysis.verdict import compare
from pipeline.records import Companion, Counts, PromptCost, Status
from tests.factories import cell_record, coordinates, plan
from tests.report.composed import Made, Method, change, evidence, sweep

STEP_S = 0.02
PROMPTS = [f"p{i}" for i in range(8)]
# A machine that drifts: the whole pair is this much slower at each further measurement.
DRIFT = 1.3


def tokens_per_step(alpha: float, k: int) -> float:
    return sum(alpha**i for i in range(k + 1))


def composed(
    k: int, alpha: float, per_token: float, slowness: float = 1.0, status: Status = "OK"
) -> Evidence:
    """A cell whose drafts hold with chance `alpha` and whose step costs 1 + per_token * k."""
    drafts = 10_000
    positions = tuple(round(drafts * alpha ** (i + 1)) for i in range(k))
    accepted = sum(positions)
    step_s = STEP_S * slowness * (1 + per_token * k)
    tokens = tokens_per_step(alpha, k)
    return Evidence(
        record=cell_record(coordinates("mtp", k), status=status).model_copy(
            update={
                "counts": Counts(
                    requests=0,
                    output_tokens=drafts + accepted,
                    drafts=drafts,
                    drafted=drafts * k,
                    accepted=accepted,
                    accepted_per_position=positions,
                    truncated=0,
                ),
                "costs": costs(step_s / tokens, 1 / tokens),
                "pairing": "interleaved",
                "companion": Companion(
                    status="OK",
                    counts=Counts(
                        requests=8,
                        output_tokens=8,
                        drafts=0,
                        drafted=0,
                        accepted=0,
                        accepted_per_position=(),
                        truncated=0,
                    ),
                    metrics={},
                    costs=costs(STEP_S * slowness, 1.0),
                ),
            }
        )
    )


def costs(decode_s: float, steps: float) -> tuple[PromptCost, ...]:
    return tuple(
        PromptCost(prompt_id=p, repeat=r, decode_s=decode_s, steps=steps)
        for p in PROMPTS
        for r in range(2)
    )


def searched(grid: list[int], alpha: float, per_token: float) -> list[Evidence]:
    """The whole search, on a machine that slows from one measurement to the next."""
    found: list[Evidence] = []
    while (k := next_k(grid, found)) is not None:
        found.append(composed(k, alpha, per_token, DRIFT ** len(found)))
    return found


def speedup(k: int, alpha: float, per_token: float) -> float:
    return tokens_per_step(alpha, k) / (1 + per_token * k)


@given(
    largest=st.integers(1, 12),
    alpha=st.floats(0.05, 0.95),
    per_token=st.floats(0.01, 1.0),
)
def test_a_search_measures_the_fastest_k_of_the_grid_and_at_most_two_beside_the_largest(
    largest: int, alpha: float, per_token: float
) -> None:
    grid = list(range(1, largest + 1))
    measured = [one.record.at.k for one in searched(grid, alpha, per_token)]
    best = max(speedup(k, alpha, per_token) for k in grid)
    assert measured[0] == largest
    assert max(speedup(k, alpha, per_token) for k in measured) == pytest.approx(best, rel=0.01)
    assert len(measured) == len(set(measured)) <= 3


def test_a_k_that_was_not_asked_for_is_never_measured() -> None:
    measured = {one.record.at.k for one in searched([1, 12], 0.5, 0.1)}
    assert measured == {1, 12}


def test_a_step_is_timed_against_the_baseline_beside_it_whatever_the_machine_did() -> None:
    assert step_ratio([composed(2, 0.6, 0.25, slowness=3.0)]) == pytest.approx(1.5)


def test_a_drafter_that_did_nothing_at_the_largest_k_ends_the_search() -> None:
    useless = composed(4, 0.01, 0.1, status="NOOP_NO_ACCEPT")
    assert next_k([1, 2, 4], [useless]) is None
    assert forecast_of(4, [useless]) is None


def test_the_conclusion_recommends_a_measured_k_and_counts_what_was_saved() -> None:
    grid, rule = list(range(1, 13)), Rule()
    evidence = searched(grid, 0.6, 0.1)
    verdicts = compare([pair(one) for one in evidence], rule)
    comparisons = {
        one.record.at.k: verdict for one, verdict in zip(evidence, verdicts, strict=True)
    }
    found = conclude(grid, evidence, comparisons)
    assert found.choice.k == max(grid, key=lambda k: speedup(k, 0.6, 0.1))
    assert found.starts_saved == 12 - len(evidence)
    assert found.forecast is not None
    [predicted] = [one for one in found.forecast.predicted if one.k == found.choice.k]
    assert predicted.speedup == pytest.approx(speedup(found.choice.k, 0.6, 0.1), rel=0.01)


def test_plain_decoding_is_chosen_where_every_k_is_slower() -> None:
    evidence = searched([1, 2, 3], 0.05, 0.8)
    verdicts = compare([pair(one) for one in evidence], Rule())
    comparisons = {
        one.record.at.k: verdict for one, verdict in zip(evidence, verdicts, strict=True)
    }
    assert conclude([1, 2, 3], evidence, comparisons).choice.k == 0


def test_a_search_is_told_in_a_sentence_with_what_was_saved() -> None:
    grid, rule = list(range(1, 13)), Rule()
    evidence = searched(grid, 0.6, 0.1)
    verdicts = compare([pair(one) for one in evidence], rule)
    comparisons = {
        one.record.at.k: verdict for one, verdict in zip(evidence, verdicts, strict=True)
    }
    sentence = told(conclude(grid, evidence, comparisons))
    measured = sorted(comparisons)
    assert (
        f"these were compared with plain decoding: {', '.join(map(str, measured))}; use K="
        in sentence
    )
    assert sentence.endswith(f"Engine starts saved: {12 - len(measured)}.")


RULE = Rule(resamples=999)
KS = (1, 2, 4)


def said(*made: Made) -> tuple[KSearch, Advice]:
    """What a search over the cells says, and what is advised over all of them."""
    searched = plan(*(one.record.at for one in made)).model_copy(update={"search": "choose_k"})
    gathered = [evidence(one) for one in made]
    findings = find(gathered, RULE)
    (search,) = searches(searched, gathered, findings)
    return search, findings.advice[0]


def grid_of(chance: float, step: float, *datasets: str) -> list[Made]:
    chances = dict.fromkeys(datasets, chance)
    drafting = [Method("mtp", k, chances, 1 + step * k, noise=0.01) for k in KS]
    return list(sweep(datasets, [Method("none", 0), *drafting]))


def agree(search: KSearch, advice: Advice) -> None:
    assert search.choice.k == (advice.use.k if advice.use else 0)


def at(made: list[Made], k: int, dataset: str) -> int:
    places = [(one.record.at.k, one.record.at.dataset) for one in made]
    return places.index((k, dataset))


def wrong(made: Made) -> Made:
    """The cell with tokens that plain decoding would never have put out."""
    scored = (one.model_copy(update={"gaps": (9.0,) * len(one.gaps)}) for one in made.rescored)
    return dataclasses.replace(made, rescored=tuple(scored))


@pytest.mark.parametrize("datasets", [("chat",), ("chat", "json")])
def test_a_search_and_the_advice_choose_the_same_k(datasets: tuple[str, ...]) -> None:
    search, advice = said(*grid_of(0.8, 0.05, *datasets))
    assert search.choice.k > 0
    agree(search, advice)


@pytest.mark.parametrize("status", ["THROTTLED", "SUSPECT"])
def test_a_k_that_lacks_a_data_set_is_not_chosen(status: Status) -> None:
    made = grid_of(0.8, 0.05, "chat", "json")
    whole, _ = said(*made)
    spoilt = at(made, whole.choice.k, "chat")
    made[spoilt] = change(made[spoilt], lambda r: r.model_copy(update={"status": status}))
    search, advice = said(*made)
    assert search.choice.k not in (0, whole.choice.k)
    agree(search, advice)


@pytest.mark.parametrize("datasets", [("chat",), ("chat", "json")])
def test_a_k_that_is_not_lossless_is_not_chosen(datasets: tuple[str, ...]) -> None:
    made = grid_of(0.8, 0.05, *datasets)
    whole, _ = said(*made)
    spoilt = at(made, whole.choice.k, "chat")
    made[spoilt] = wrong(made[spoilt])
    search, advice = said(*made)
    assert search.choice.k not in (0, whole.choice.k)
    agree(search, advice)


def test_a_faster_k_too_small_to_matter_is_not_chosen() -> None:
    little = composed(1, 0.122, 0.1)
    (verdict,) = compare([pair(little)], RULE)
    search = conclude([1], [little], {1: verdict})
    assert [m.low > 1 for m in search.measured if m.k] == [True]
    assert search.choice.k == 0
    assert told(search).endswith("none could be called faster. Engine starts saved: 0.")


def test_a_search_of_which_nothing_could_be_compared_says_so() -> None:
    lost = [
        change(one, lambda r: r.model_copy(update={"status": "SUSPECT"}))
        if one.record.at.k
        else one
        for one in grid_of(0.8, 0.05, "chat")
    ]
    search, _ = said(*lost)
    assert search.choice.k == 0
    assert told(search) == (
        "mtp: of K 1, 2, 4 none could be compared with plain decoding. Engine starts saved: 0."
    )
