"""What a night's verdict says and ends with, in every situation."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from jobs.findings import NightVerdict
from jobs.history import Decision, History, settled
from jobs.judge import judge, judged, to_measure_again
from jobs.levels import own_spread
from jobs.night import LeftOut, Night
from jobs.signals import sample
from pipeline.records import Status
from tests.jobs.nights import (
    ENVIRONMENT,
    MTP,
    NGRAM,
    NONE,
    cell,
    fingerprint,
    night,
    quiet,
    usual,
)
from tests.jobs.situations import LONG, RULE, SITUATIONS

EXPECTED: dict[str, tuple[int, list[str]]] = {
    "quiet": (0, []),
    "first": (5, ["no baseline"] * 3),
    "second": (5, ["no baseline"] * 3),
    "slower": (4, ["worse"]),
    "slower_by_luck": (0, []),
    "unconfirmed": (5, ["unconfirmed"]),
    "unpaired": (5, ["not comparable"]),
    "slower_since_yesterday": (4, ["worse"]),
    "still_slower": (4, ["worse"]),
    "over": (0, []),
    "machine_slower": (4, ["worse"]),
    "drift": (4, ["drift"]),
    "faster": (0, ["better"]),
    "drafter_replaced": (4, ["noop", "recommendation"]),
    "failed": (3, ["failed"]),
    "failed_once": (0, []),
    "k_changed": (4, ["missing", "new"]),
    "prompts_edited": (5, ["no baseline"] * 3),
    "checkpoint_edited": (4, ["outputs"] + ["no baseline"] * 3),
    "not_lossless": (4, ["not lossless", "recommendation"]),
    "not_lossless_by_chance": (0, []),
    "one_start_failed": (5, ["unconfirmed"]),
    "fewer_starts": (0, []),
    "outputs_changed": (4, ["outputs"]),
    "recommendation": (0, ["better", "recommendation"]),
    "left_out": (0, []),
    "new_engine": (0, []),
}


def verdict_of(name: str) -> NightVerdict:
    before, tonight = SITUATIONS[name]()
    return judge(History(before), tonight, RULE)


def accepted(night_id: str, at: str, *cells: str) -> Decision:
    return Decision(
        action="accept",
        suite="demo",
        night=night_id,
        cells=cells,
        reason="new engine",
        by="a person",
        at=at,
    )


def kept(before: list[Night], tonight: Night) -> list[Night]:
    return [*before, judged(tonight, judge(History(before), tonight, RULE))]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_has_its_findings_and_its_exit_code(name: str) -> None:
    verdict = verdict_of(name)
    assert (verdict.exit_code, sorted(f.kind for f in verdict.findings)) == (
        EXPECTED[name][0],
        sorted(EXPECTED[name][1]),
    )


def test_what_looks_moved_is_measured_again_and_nothing_else() -> None:
    tonight = night(LONG, {"ngram": 1.12})
    assert to_measure_again(History(quiet(LONG)), tonight, RULE) == (fingerprint(NGRAM),)
    assert to_measure_again(History(quiet(LONG)), night(LONG), RULE) == ()


def started(number: int, *values: float, again: Sequence[float] = ()) -> Night:
    """A night that starts each engine as often as there are values of the n-gram cell."""
    first, *further = ([*usual(number + 50 * i, {"ngram": v})] for i, v in enumerate(values))
    new = [cell(NGRAM, value, seed=900 + i) for i, value in enumerate(again)]
    return night(number, cells=first, more=[c for cells in further for c in cells], again=new)


def test_a_night_of_several_starts_is_their_mean() -> None:
    before = History([started(n, 1.2, 1.2, 1.2) for n in range(LONG)])
    doubted = fingerprint(NGRAM)
    assert to_measure_again(before, started(LONG, 1.15, 1.22, 1.23), RULE) == ()
    assert to_measure_again(before, started(LONG, 1.15, 1.14, 1.16), RULE) == (doubted,)


def test_what_further_starts_show_is_no_regression_until_it_is_measured_again() -> None:
    before = History([started(n, 1.2, 1.2) for n in range(LONG)])
    verdicts = (
        judge(before, started(LONG, 1.12, 1.12, again=again), RULE)
        for again in ((), (1.12, 1.13), (1.2, 1.21))
    )
    kinds = [[f.kind for f in found.findings if f.about == NGRAM.label] for found in verdicts]
    assert kinds == [["unconfirmed"], ["worse"], []]


@pytest.mark.parametrize("status", ["FAILED", "NOOP_NO_DRAFTS"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_start_that_was_not_ok_is_told_as_such_only_where_it_stayed_so(
    which: int, status: Status
) -> None:
    starts = [usual(LONG), usual(LONG + 50), usual(LONG + 60)]
    starts[which][2] = cell(MTP, status=status)
    tonight = night(LONG, cells=starts[0], more=[*starts[1], *starts[2]])
    history = History([started(n, 1.2, 1.2, 1.2) for n in range(LONG)])
    assert to_measure_again(history, tonight, RULE) == (fingerprint(MTP),)
    kinds = []
    for again in ((), (cell(MTP, status=status),), (cell(MTP, seed=901), cell(MTP, seed=902))):
        verdict = judge(history, tonight.model_copy(update={"again": again}), RULE)
        kinds.append([f.kind for f in verdict.of("failed", "noop", "unconfirmed")])
    assert kinds == [["unconfirmed"], ["failed" if status == "FAILED" else "noop"], []]


def test_a_start_that_failed_is_measured_again_wherever_the_cell_was_good_last() -> None:
    dead = cell(MTP, status="FAILED")
    once = night(LONG, cells=[*usual(LONG)[:2], dead], again=[cell(MTP, seed=901)])
    without = night(LONG, cells=usual(LONG)[:2], left_out=[LeftOut(at=MTP, reason="no time")])
    tonight = night(LONG + 1, cells=[*usual(LONG + 1)[:2], dead])
    for before in (once, without):
        history = History([*quiet(LONG), before])
        assert to_measure_again(history, tonight, RULE) == (dead.fingerprint,)


def test_a_cell_was_ok_until_the_last_night_that_left_it_so() -> None:
    idle = cell(MTP, status="NOOP_NO_DRAFTS")
    second = night(LONG, cells=usual(LONG), more=[*usual(LONG + 50)[:2], idle], again=[idle])
    tonight = night(LONG + 1, cells=[*usual(LONG + 1)[:2], idle])
    (finding,) = judge(History([*quiet(LONG), second]), tonight, RULE).of("noop")
    assert quiet(LONG)[-1].date in finding.sentence


def test_answers_that_one_start_alone_got_wrong_are_told_and_its_method_is_not_advised() -> None:
    wrong = usual(LONG)[2].model_copy(update={"lossless": "not lossless"})
    tonight = night(LONG, more=[*usual(LONG)[:2], wrong], again=[wrong])
    verdict = judge(History(quiet(LONG)), tonight, RULE)
    assert [f.about for f in verdict.of("not lossless")] == [MTP.label]
    assert verdict.recommended == {"tiny/chat/c1": "ngram K=4"}


def test_answers_found_wrong_are_scored_again_unless_they_were_wrong_before() -> None:
    wrong = usual(LONG)[2].model_copy(update={"lossless": "not lossless"})
    tonight = night(LONG, cells=[*usual(LONG)[:2], wrong])
    assert to_measure_again(History(quiet(LONG)), tonight, RULE) == (wrong.fingerprint,)
    nights = kept(quiet(LONG), tonight)
    tomorrow = night(LONG + 1, cells=[*usual(LONG + 1)[:2], wrong])
    assert to_measure_again(History(nights), tomorrow, RULE) == ()
    assert judge(History(nights), tomorrow, RULE).of("not lossless")
    slow = cell(MTP, 1.2, seed=LONG).model_copy(update={"lossless": "not lossless"})
    slower = night(LONG + 1, cells=[*usual(LONG + 1)[:2], slow])
    assert to_measure_again(History(nights), slower, RULE) == (wrong.fingerprint,)


def test_a_target_s_answers_are_looked_at_in_every_start() -> None:
    other, dead = cell(NONE, 40.0, answers="other"), cell(NONE, status="FAILED")
    rest = usual(LONG)[1:]
    changed = night(LONG, cells=[dead, *rest], again=[other])
    assert judge(History(quiet(LONG)), changed, RULE).of("outputs")
    odd = night(LONG, cells=[other, *rest], more=usual(LONG + 50))
    assert not judge(History(quiet(LONG)), odd, RULE).of("outputs")


def test_answers_that_are_still_other_ones_are_not_over_where_the_first_start_failed() -> None:
    other, dead = cell(NONE, 40.0, answers="other"), cell(NONE, status="FAILED")
    nights = kept(quiet(LONG), night(LONG, cells=[other, *usual(LONG)[1:]]))
    tonight = night(LONG + 1, cells=[dead, *usual(LONG + 1)[1:]], again=[other])
    verdict = judge(History(nights), tonight, RULE)
    assert (verdict.resolved, verdict.exit_code) == ((), 4)


def test_the_setting_to_use_is_the_fastest_over_all_starts() -> None:
    lucky = usual(0, {"ngram": 1.5, "mtp": 1.0})
    tonight = night(0, cells=usual(0), more=[*usual(1), *lucky])
    bare = tonight.model_copy(update={"recommended": {}})
    assert judge(History([]), bare, RULE).recommended == {"tiny/chat/c1": "ngram K=4"}
    steady = bare.model_copy(update={"more": (*usual(1), *usual(2))})
    assert judge(History([]), steady, RULE).recommended == {"tiny/chat/c1": "mtp K=1"}


def test_a_cell_that_failed_is_measured_again_where_it_was_good() -> None:
    dead = cell(MTP, status="FAILED")
    tonight = night(LONG, cells=[*night(LONG).cells[:2], dead])
    assert to_measure_again(History(quiet(LONG)), tonight, RULE) == (dead.fingerprint,)
    assert to_measure_again(History([]), tonight, RULE) == ()


def test_what_nobody_measured_again_is_told_is_no_regression_and_no_baseline() -> None:
    verdict = verdict_of("unconfirmed")
    assert verdict.has_news
    assert not verdict.of("worse")
    assert judged(SITUATIONS["unconfirmed"]()[1], verdict).called == (NGRAM.label,)


def test_a_speedup_that_could_not_be_paired_is_not_hidden_by_the_tokens_per_step() -> None:
    verdict = verdict_of("unpaired")
    assert MTP.label not in verdict.compared
    assert verdict.findings[0].sentence == "its baseline drifted by 7 % around it"


def test_a_cell_that_never_was_ok_has_failed_and_is_no_regression() -> None:
    idle = cell(MTP, status="NOOP_NO_ACCEPT")
    nights = [night(n, cells=[*night(n).cells[:2], idle]) for n in range(LONG)]
    verdict = judge(History(nights), night(LONG, cells=[*night(LONG).cells[:2], idle]), RULE)
    assert verdict.exit_code == 3
    assert [f.about for f in verdict.of("failed", "noop")] == [MTP.label]


# --- what is news


def test_what_a_message_said_that_did_not_arrive_is_news_again() -> None:
    (*before, first), tonight = SITUATIONS["still_slower"]()
    lost = first.model_copy(update={"undelivered": True})
    verdict = judge(History([*before, lost]), tonight, RULE)
    assert verdict.findings[0].news
    assert verdict.has_news


def test_a_recommendation_whose_message_was_lost_is_told_the_next_night() -> None:
    before, first = SITUATIONS["recommendation"]()
    again = [cell(NGRAM, 1.6, seed=950 + i) for i in range(2)]
    tonight = night(LONG + 1, {"ngram": 1.6}, again=again)
    heard = kept(list(before), first)[-1]
    lost = heard.model_copy(update={"undelivered": True})
    unjudged = first.model_copy(update={"undelivered": True, "recommended": {}})
    told = [
        [f.news for f in judge(History([*before, n]), tonight, RULE).of("recommendation")]
        for n in (heard, lost, unjudged)
    ]
    assert told == [[], [True], [True]]


def test_a_recommendation_that_changes_twice_is_news_twice() -> None:
    before, first = SITUATIONS["recommendation"]()
    nights = kept(list(before), first)
    slow = [cell(NGRAM, 1.0, seed=950 + i) for i in range(2)]
    back = judge(History(nights), night(LONG + 1, {"ngram": 1.0}, again=slow), RULE)
    (finding,) = back.of("recommendation")
    assert finding.key in nights[-1].found
    assert finding.news
    assert back.recommended == {"tiny/chat/c1": "mtp K=1"}


@pytest.mark.parametrize(
    ("was", "tonight"),
    [("unconfirmed", "still_slower"), ("slower", "unconfirmed"), ("failed", "drafter_replaced")],
)
def test_a_finding_that_goes_on_under_another_name_is_not_over(was: str, tonight: str) -> None:
    before, first = SITUATIONS[was]()
    now = SITUATIONS[tonight]()[1]
    later = night(LONG + 1, cells=now.cells, again=now.again)
    verdict = judge(History(kept(list(before), first)), later, RULE)
    assert (verdict.resolved, verdict.standing) == ((), ())
    assert verdict.has_news


def test_cells_measured_by_fewer_starts_are_news_once() -> None:
    before, tonight = SITUATIONS["fewer_starts"]()
    verdict = judge(History(before), tonight, RULE)
    assert verdict.newly_fewer == (NONE.label, NGRAM.label, MTP.label)
    assert verdict.has_news
    assert verdict.exit_code == 0
    nights = kept(list(before), tonight)
    again = night(LONG + 1).model_copy(update={"fewer_starts": tonight.fewer_starts})
    assert not judge(History(nights), again, RULE).has_news


def test_what_changed_around_a_night_whose_message_was_lost_is_told_the_next() -> None:
    before, tonight = SITUATIONS["new_engine"]()
    lost = tonight.model_copy(update={"undelivered": True})
    after = night(LONG + 1, environment=tonight.environment)
    assert [c.what for c in judge(History([*before, lost]), after, RULE).changes] == ["vllm"]
    assert judge(History([*before, tonight]), after, RULE).changes == ()


def test_a_finding_is_not_over_because_its_cell_was_left_out_for_a_night() -> None:
    before, first = SITUATIONS["slower"]()
    nights = kept(list(before), first)
    out = [LeftOut(at=NGRAM, reason="no time")]
    without = night(LONG + 1, cells=[c for c in usual(LONG + 1) if c.at != NGRAM], left_out=out)
    verdict = judge(History(nights), without, RULE)
    assert (verdict.resolved, verdict.standing) == ((), (f"worse:speedup:{NGRAM.label}",))
    nights = kept(nights, without)
    back = night(LONG + 2, {"ngram": 1.12}, again=[cell(NGRAM, 1.12, seed=990)])
    assert not judge(History(nights), back, RULE).of("worse")[0].news


def test_a_cell_that_is_newly_left_out_is_news_once() -> None:
    before, tonight = SITUATIONS["left_out"]()
    verdict = judge(History(before), tonight, RULE)
    assert verdict.newly_left_out == (MTP.label,)
    assert verdict.has_news
    next_night = night(LONG + 1, cells=usual(LONG + 1)[:2], left_out=tonight.left_out)
    assert not judge(History(kept(list(before), tonight)), next_night, RULE).has_news


def test_a_commit_of_the_pipeline_alone_wakes_nobody() -> None:
    tonight = night(LONG, environment={**ENVIRONMENT, "pipeline": "f00"})
    verdict = judge(History(quiet(LONG)), tonight, RULE)
    assert [change.what for change in verdict.changes] == ["pipeline"]
    assert not verdict.has_news


def test_a_place_that_was_left_out_keeps_its_recommendation() -> None:
    none = [LeftOut(at=at, reason="no time") for at in (NONE, NGRAM, MTP)]
    verdict = judge(History(quiet(LONG)), night(LONG, cells=[], left_out=none), RULE)
    assert verdict.recommended == {"tiny/chat/c1": "mtp K=1"}


def test_the_same_finding_is_news_only_once() -> None:
    assert verdict_of("slower").findings[0].news
    assert not verdict_of("still_slower").findings[0].news
    assert not verdict_of("still_slower").has_news


def test_the_end_of_a_finding_is_news() -> None:
    assert verdict_of("over").resolved == (f"worse:speedup:{NGRAM.label}",)
    assert verdict_of("over").has_news


def test_a_slower_level_never_becomes_the_baseline_by_itself() -> None:
    nights = quiet(LONG)
    for number in range(LONG, LONG + 10):
        again = [cell(NGRAM, 1.12, seed=900 + number)]
        nights = kept(nights, night(number, {"ngram": 1.12}, again=again))
        assert NGRAM.label in nights[-1].called


def test_a_faster_level_becomes_the_baseline_only_where_a_person_accepts_it() -> None:
    before, tonight = SITUATIONS["faster"]()
    nights = kept(list(before), tonight)
    next_night = night(LONG + 1, {"mtp": 1.55}, again=[cell(MTP, 1.55, seed=990)])
    assert judge(History(nights), next_night, RULE).of("better")
    decision = accepted(tonight.id, tonight.at, MTP.label)
    assert judge(History(nights, [decision]), next_night, RULE).findings == ()


def test_after_an_accepted_level_a_fall_back_to_the_old_one_is_a_regression() -> None:
    before, tonight = SITUATIONS["faster"]()
    nights = kept(list(before), tonight)
    decision = accepted(tonight.id, tonight.at, MTP.label)
    back = night(LONG + 1, again=[cell(MTP, seed=990)])
    (finding,) = judge(History(nights, [decision]), back, RULE).findings
    assert (finding.kind, finding.about) == ("worse", MTP.label)


def test_an_accepted_cell_that_is_gone_is_not_missing_any_more() -> None:
    before, tonight = SITUATIONS["k_changed"]()
    nights = kept(list(before), tonight)
    later = night(LONG + 1, cells=tonight.cells)
    assert judge(History(nights), later, RULE).of("missing")
    decision = accepted(tonight.id, tonight.at)
    assert not judge(History(nights, [decision]), later, RULE).of("missing")


def test_a_pinned_night_is_what_all_later_ones_are_compared_with() -> None:
    faster = [night(n, {"ngram": 1.26}) for n in range(LONG, LONG + 6)]
    faster = [one.model_copy(update={"called": (NGRAM.label,)}) for one in faster]
    nights = [*quiet(LONG), *faster]
    pin = accepted(nights[0].id, nights[-1].at).model_copy(update={"action": "pin"})
    tonight = night(LONG + 6, {"ngram": 1.26}, again=[cell(NGRAM, 1.26, seed=990)])
    (finding,) = judge(History(nights, [pin]), tonight, RULE).findings
    assert (finding.kind, finding.about) == ("better", NGRAM.label)
    assert finding.deviation is not None
    assert finding.deviation.baseline_nights == 1


def test_a_night_that_may_be_no_baseline_cannot_be_pinned_to() -> None:
    poor = [cell(NONE), cell(NGRAM), cell(MTP, 1.0, length=1.0)]
    nights = [night(0, cells=poor), *quiet(LONG)[1:]]
    pin = accepted(nights[0].id, nights[-1].at).model_copy(update={"action": "pin"})
    verdict = judge(History(nights, [pin]), night(LONG), RULE)
    assert verdict.compared == (NONE.label, NGRAM.label)


def test_a_reset_takes_earlier_decisions_back() -> None:
    before, tonight = SITUATIONS["faster"]()
    nights = kept(list(before), tonight)
    decision = accepted(tonight.id, tonight.at)
    reset = decision.model_copy(update={"action": "reset", "at": "2027-01-01T00:00:00+00:00"})
    next_night = night(LONG + 1, {"mtp": 1.55}, again=[cell(MTP, 1.55, seed=990)])
    assert judge(History(nights, [decision, reset]), next_night, RULE).of("better")


def test_nights_on_another_class_of_machine_are_no_history() -> None:
    elsewhere = night(LONG).model_copy(update={"node_class": "dgx_spark: GB10"})
    verdict = judge(History(quiet(LONG)), elsewhere, RULE)
    assert (verdict.exit_code, verdict.compared) == (5, ())


def test_drafts_that_are_never_accepted_make_no_baseline() -> None:
    poor = [
        night(n, cells=[cell(NONE, seed=n), cell(NGRAM, 1.0, seed=n, length=1.0)])
        for n in range(LONG)
    ]
    tonight = night(LONG, cells=[cell(NONE), cell(NGRAM, 1.0, length=1.0)])
    (finding,) = judge(History(poor), tonight, RULE).of("no baseline")
    assert finding.about == NGRAM.label
    assert "acceptance length above 1" in finding.sentence


def test_fewer_tokens_per_step_are_a_regression_without_any_clock() -> None:
    short = [cell(MTP, seed=LONG + i, length=1.8) for i in range(2)]
    tonight = night(LONG, cells=[*night(LONG).cells[:2], short[0]], again=short[1:])
    (finding,) = judge(History(quiet(LONG)), tonight, RULE).findings
    assert (finding.kind, finding.signal) == ("worse", "length")


def test_a_step_the_other_way_does_not_date_a_fall() -> None:
    level = [1.2] * 10 + [1.08] * 3 + [1.11]
    nights = [night(n, {"ngram": value}) for n, value in enumerate(level)]
    for number in range(10, 14):
        nights[number] = nights[number].model_copy(update={"called": (NGRAM.label,)})
    tonight = night(14, {"ngram": 1.11}, again=[cell(NGRAM, 1.11, seed=990)])
    (finding,) = judge(History(nights), tonight, RULE).of("worse")
    assert finding.since == nights[10].date


@pytest.mark.parametrize("fall", [0.96, 0.955])
def test_a_fall_is_not_dated_to_an_earlier_one_that_was_accepted(fall: float) -> None:
    """Nor is it blamed on what changed then."""
    rng, driver = np.random.default_rng(7), {**ENVIRONMENT, "driver": "590.12"}
    for _ in range(12):
        made = 1.2 * np.exp(rng.normal(0, 0.012, 60)) * np.where(np.arange(60) < 20, 1.0, 0.93)
        nights = [
            night(n, {"ngram": float(v)}, environment=ENVIRONMENT if n < 20 else driver)
            for n, v in enumerate(made)
        ]
        slow = float(1.2 * 0.93 * fall)
        again = [cell(NGRAM, slow, seed=990 + i) for i in range(2)]
        tonight = night(60, {"ngram": slow}, again=again, environment=driver)
        decided = accepted(nights[20].id, nights[21].at, NGRAM.label)
        for finding in judge(History(nights, [decided]), tonight, RULE).of("worse"):
            assert finding.since is None or finding.since > nights[40].date
            assert finding.suspects == ()


def test_a_fall_is_not_dated_to_a_dip_that_is_over() -> None:
    nights = [night(n, {"ngram": 1.1 if 10 <= n < 13 else 1.2}) for n in range(40)]
    for number in range(10, 13):
        nights[number] = nights[number].model_copy(update={"called": (NGRAM.label,)})
    tonight = night(40, {"ngram": 1.15}, again=[cell(NGRAM, 1.15, seed=990)])
    (finding,) = judge(History(nights), tonight, RULE).of("worse")
    assert finding.since == tonight.at[:10]


def test_a_fall_from_an_old_pinned_night_has_the_same_date_every_night_or_none() -> None:
    """Of the nights between the pinned one and the newest, nobody knows any more."""
    old, driver = night(0), {**ENVIRONMENT, "driver": "590.12"}
    pin = accepted(old.id, old.at, NGRAM.label).model_copy(update={"action": "pin"})
    for first in (60, 61):
        slow = [night(first + n, {"ngram": 1.1}, environment=driver) for n in range(30)]
        again = [cell(NGRAM, 1.1, seed=990)]
        tonight = night(first + 30, {"ngram": 1.1}, again=again, environment=driver)
        (finding,) = judge(History([old, *slow], [pin]), tonight, RULE).of("worse")
        assert finding.since in (None, tonight.at[:10])
        assert finding.suspects == ()
        assert "times that of the pinned night" in finding.sentence


def test_a_fall_right_after_the_pinned_night_is_dated() -> None:
    nights = [night(n, {"ngram": 1.2 if n < 4 else 1.1}) for n in range(8)]
    pin = accepted(nights[3].id, nights[3].at, NGRAM.label).model_copy(update={"action": "pin"})
    tonight = night(8, {"ngram": 1.1}, again=[cell(NGRAM, 1.1, seed=990)])
    (finding,) = judge(History(nights, [pin]), tonight, RULE).of("worse")
    assert finding.since == nights[4].date


def test_the_first_message_names_what_changed_in_the_night_of_the_step() -> None:
    (finding,) = verdict_of("slower_since_yesterday").findings
    assert finding.since == "2026-10-15"
    assert finding.suspects == ("driver 580.95 -> 590.12",)


def test_slow_nights_that_nobody_has_called_yet_do_not_widen_what_they_are_judged_by() -> None:
    asked = max(RULE.windows) - 1
    usual, slow = (
        History([*quiet(LONG), *(night(LONG + i, {"ngram": value}) for i in range(asked))])
        for value in (1.2, 1.1)
    )
    assert slow.spread("speedup", RULE) == usual.spread("speedup", RULE)
    earlier = slow.levels(fingerprint(NGRAM), partial(sample, signal="speedup"), RULE)
    assert own_spread(earlier).shift > 2 * own_spread(settled(earlier, None, RULE)).shift
