"""The predicted curve: from one run at the largest K and step times relative to the baseline."""

from __future__ import annotations

import pytest

from pipeline.analysis.judging import find
from pipeline.report.figures.k_curve import predicted
from pipeline.report.parts import Judged, Part, parts
from tests.report.composed import Method, change, evidence, sweep

PLAIN = Method("none", 0)


def part(*methods: Method) -> Part:
    given = [evidence(one) for one in sweep(("chat",), [PLAIN, *methods], prompts=60)]
    [found] = parts(given, find(given))
    return found


def cells(found: Part, method: str) -> list[Judged]:
    return [one for one in found.cells if one.record.at.method == method]


def test_the_curve_foresees_a_smaller_k_that_was_measured_too() -> None:
    chance = {"chat": 0.6}
    small = Method("eagle3", 1, chance, 1.2, noise=0.001)
    large = Method("eagle3", 4, chance, 1.5, noise=0.001)
    found = cells(part(small, large), "eagle3")
    foreseen = {one.k: one.speedup for one in predicted(found)}
    assert sorted(foreseen) == [1, 2, 3, 4]
    measured = {one.record.at.k: one.estimate.ratio for one in found if one.estimate}
    assert foreseen[1] == pytest.approx(measured[1], rel=0.06)
    assert foreseen[4] == pytest.approx(measured[4], rel=0.06)


def test_a_drafter_that_drafts_all_at_once_is_not_foreseen() -> None:
    assert predicted(cells(part(Method("dflash", 7, {"chat": 0.6}, 1.5)), "dflash")) == ()


def test_without_costs_nothing_is_foreseen() -> None:
    made = list(sweep(("chat",), [Method("mtp", 2, {"chat": 0.6}, 1.3)]))
    bare = change(made[0], lambda record: record.model_copy(update={"costs": ()}))
    given = [evidence(bare)]
    [found] = parts(given, find(given))
    assert predicted(found.cells) == ()
