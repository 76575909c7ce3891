"""Whole sweeps judged: verdicts per cell, per setting, and what enters them."""

from __future__ import annotations

import pytest

from pipeline.analysis.findings import Evidence
from pipeline.analysis.judging import find, pair
from pipeline.analysis.statistics import Rule
from pipeline.records import RescoredOutput
from tests.report.composed import Made, Method, cell, change, evidence, sweep

RULE = Rule(resamples=999)
PLAIN = Method("none", 0)
AS_PLAIN = {"method": "none", "kind": "none", "k": 0}
FAST = Method("mtp", 2, {"chat": 0.6, "json": 0.7}, 1.25)
SLOW = Method("ngram", 4, {"chat": 0.1, "json": 0.1}, 1.2, coverage=0.3)


def judged(made: list[Made]) -> dict[str, Evidence]:
    return {one.record.at.label: evidence(one) for one in made}


def small(*methods: Method, datasets: tuple[str, ...] = ("chat", "json")) -> list[Made]:
    return list(sweep(datasets, [PLAIN, *methods], prompts=8))


def test_findings_keep_the_order_of_the_cells_and_a_baseline_has_no_verdict() -> None:
    given = [evidence(one) for one in small(SLOW, FAST)]
    found = find(given, RULE)
    assert [one.record for one in found.cells] == [one.record for one in given]
    assert [one.comparison and one.comparison.verdict for one in found.cells] == [
        *(None, None),
        *("worse", "worse"),
        *("better", "better"),
    ]


def test_a_setting_is_judged_over_the_prompts_of_all_its_data_sets() -> None:
    found = find([evidence(one) for one in small(FAST)], RULE)
    [whole] = found.overall
    assert (whole.setting, whole.datasets, whole.missing) == ("mtp K=2", ("chat", "json"), ())
    assert whole.comparison.estimate is not None
    assert whole.comparison.estimate.prompts == 16
    each = [one.comparison.estimate for one in found.cells if one.comparison]
    ratios = sorted(one.ratio for one in each if one)
    assert ratios[0] < whole.comparison.estimate.ratio < ratios[1]


def test_a_setting_that_was_paired_in_two_ways_is_of_no_pairing_s_sets_but_its_own() -> None:
    made = small(FAST)
    (alone,) = [one for one in made if one.record.at.label.endswith("mtp-k2/chat/c1")]
    at = alone.record.at
    bracketed = evidence(cell(at, FAST, pairing="bracketed", prompts=8)).model_copy(
        update={
            "opening": cell(at.model_copy(update=AS_PLAIN), PLAIN, prompts=8).record,
            "closing": cell(at.model_copy(update=AS_PLAIN), PLAIN, prompts=8).record,
        }
    )
    for given in (
        [*(evidence(one) for one in made if one is not alone), bracketed],
        [bracketed, *(evidence(one) for one in made if one is not alone)],
    ):
        found = find(given, RULE)
        assert {(o.datasets, o.missing) for o in found.overall} == {
            (("json",), ("chat",)),
            (("chat",), ("json",)),
        }
        assert [o.comparison.estimate and o.comparison.estimate.prompts for o in found.overall] == [
            8,
            8,
        ]
        assert found.advice[0].use is None


def test_prompts_of_one_name_in_two_data_sets_are_not_taken_for_one() -> None:
    made = small(FAST)
    renamed = [change(one, lambda r: r.model_copy(update=_renamed(r.costs))) for one in made]
    renamed = [
        change(
            one,
            lambda r: r.model_copy(
                update={
                    "companion": r.companion
                    and r.companion.model_copy(update=_renamed(r.companion.costs))
                }
            ),
        )
        for one in renamed
    ]
    [whole] = find([evidence(one) for one in renamed], RULE).overall
    assert whole.comparison.estimate is not None
    assert whole.comparison.estimate.prompts == 16


def test_one_data_set_needs_no_verdict_over_all() -> None:
    assert find([evidence(one) for one in small(FAST, datasets=("chat",))], RULE).overall == ()


def test_a_cell_that_changes_the_output_enters_no_recommendation() -> None:
    made = small(FAST)
    given = [evidence(one) for one in made]
    wrong = tuple(
        one.model_copy(update={"gaps": (5.0, *one.gaps[1:])}) for one in given[-1].rescored
    )
    found = find([*given[:-1], given[-1].model_copy(update={"rescored": wrong})], RULE)
    assert found.cells[-1].lossless is not None
    assert found.cells[-1].lossless.verdict == "not lossless"
    assert not found.cells[-1].usable
    [whole] = found.overall
    assert whole.missing == ("json",)
    assert [one.use for one in found.advice if one.dataset in (None, "json")] == [None, None]


def test_one_false_alarm_anywhere_in_a_table_has_the_stated_chance() -> None:
    """A share of wide gaps that one cell alone would be called for is not, among forty."""
    suspicious = [
        RescoredOutput(
            prompt_id=f"p{i}", repeat=0, gaps=(0.15,) + (0.0,) * 49, logprobs=(-1.0,) * 50
        )
        for i in range(5)
    ]
    clean = [one.model_copy(update={"gaps": (0.0,) * 50}) for one in suspicious]

    def verdicts(cells: int) -> set[str]:
        made = small(FAST, datasets=tuple(f"set{i}" for i in range(cells)))
        given = [
            evidence(one).model_copy(update={"rescored": suspicious, "floor": clean})
            if one.record.at.k
            else evidence(one)
            for one in made
        ]
        found = find(given, RULE).cells
        return {one.lossless.verdict for one in found if one.lossless is not None}

    assert verdicts(1) == {"not lossless"}
    assert verdicts(40) == {"lossless"}


def test_an_interleaved_cell_is_compared_with_the_engine_beside_it() -> None:
    one = small(FAST)[-1]
    compared = pair(evidence(one))
    assert compared.baseline is not None
    assert compared.baseline.label == "composed-135m/none/json/c1"
    assert compared.pairing == "interleaved"
    assert compared.baseline.costs.keys() == compared.measured.costs.keys()


@pytest.mark.parametrize("status", ["FAILED", "SUSPECT", "NOOP_NO_ACCEPT"])
def test_a_cell_that_is_not_ok_is_not_compared_and_still_found(status: str) -> None:
    made = small(FAST)
    bad = change(made[-1], lambda record: record.model_copy(update={"status": status}))
    found = find([evidence(one) for one in (*made[:-1], bad)], RULE)
    last = found.cells[-1]
    assert last.comparison is not None
    assert last.comparison.verdict == "not comparable"
    assert not last.usable


def test_tables_of_other_models_and_concurrencies_do_not_tighten_one_another() -> None:
    alone = find([evidence(one) for one in small(FAST, SLOW)], RULE)
    other = list(sweep(("chat", "json"), [PLAIN, FAST, SLOW], prompts=8, concurrency=8))
    both = find([*(evidence(one) for one in small(FAST, SLOW)), *map(evidence, other)], RULE)
    assert both.cells[: len(alone.cells)] == alone.cells
    assert {one.concurrency for one in both.advice} == {1, 8}


def test_nothing_at_all_is_judged_as_nothing() -> None:
    found = find([], RULE)
    assert (found.cells, found.overall, found.advice) == ((), (), ())


def _renamed(costs: tuple[object, ...]) -> dict[str, object]:
    return {
        "costs": tuple(
            one.model_copy(update={"prompt_id": one.prompt_id.rpartition("-")[2]})  # type: ignore[attr-defined]
            for one in costs
        )
    }
