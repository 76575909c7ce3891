"""What a night leaves out where its hours are short, and that it says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobs.budget import leave_out
from pipeline.plan import Plan
from tests.factories import coordinates, plan

PLAN = plan(
    *(coordinates(m, k, d) for m, k in (("none", 0), ("ngram", 4), ("mtp", 1)) for d in ("a", "b"))
)
START_S, CELL_S = 60.0, 30.0


def seconds(part: Plan) -> float:
    return START_S * len(part.groups) + CELL_S * len(part.cells)


def left_out(budget_s: float, *priority: str) -> list[str]:
    return [one.label for one in leave_out(PLAN, seconds, budget_s, priority)]


def test_what_fits_is_measured_whole() -> None:
    assert left_out(seconds(PLAN)) == []


def test_the_end_of_the_plan_goes_first_without_a_priority() -> None:
    assert left_out(240.0) == ["tiny/mtp-k1/a/c1", "tiny/mtp-k1/b/c1"]


def test_the_dearest_patterns_stay() -> None:
    assert left_out(240.0, "*/none/*", "*/mtp-*") == ["tiny/ngram-k4/a/c1", "tiny/ngram-k4/b/c1"]


def test_a_shorter_cell_fits_where_a_start_does_not() -> None:
    assert left_out(130.0, "*/a/*") == [
        "tiny/ngram-k4/a/c1",
        "tiny/ngram-k4/b/c1",
        "tiny/mtp-k1/a/c1",
        "tiny/mtp-k1/b/c1",
    ]


def test_the_reason_says_how_long_it_takes_and_what_is_left() -> None:
    (first, *_) = leave_out(PLAN, seconds, 240.0, ())
    assert first.reason == "takes about 1 min 30 s, and 0 s are left"


@given(st.floats(0.0, 500.0), st.permutations(["*/none/*", "*/ngram-*", "*/mtp-*", "*/b/*"]))
def test_what_is_measured_never_takes_longer_than_the_budget(
    budget_s: float, priority: list[str]
) -> None:
    out = {one.label for one in leave_out(PLAN, seconds, budget_s, tuple(priority))}
    kept = PLAN.without(frozenset(c.fingerprint for c in PLAN.cells if c.at.label in out))
    assert seconds(kept) <= budget_s or not kept.cells
