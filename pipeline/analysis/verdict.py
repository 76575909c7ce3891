"""Better, worse or neither: comparisons of cells, each verdict with its evidence and a sentence.

A change is called only where three things hold: both sides were measured under the same machine
conditions, the interval (after Holm's correction over the table) excludes no change, and the
effect is large enough to matter. Everything else has its own word, and is printed too:

    better, worse   a change, called
    no change       an interval that includes 1, or an effect too small to matter
    unstable        too few prompts, or repeats that disagree too much, to call anything
    no baseline     nothing to compare with
    not comparable  two measurements that say nothing about each other

How two cells are paired is `pipeline.analysis.pairing`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Literal

from pipeline.analysis.pairing import Pair, drift, reference, why_incomparable
from pipeline.analysis.statistics import Estimate, Rule, estimate, holm
from pipeline.analysis.wording import describe, excludes_one, too_little, unsteady
from pipeline.platforms import Pairing
from pipeline.spec import Record

Verdict = Literal["better", "worse", "no change", "unstable", "no baseline", "not comparable"]


class Comparison(Record):
    """A verdict with its evidence.

    Attributes:
        estimate: the paired ratio; None where the sides cannot be compared.
        p_adjusted: the estimate's p after Holm's correction over the table.
        drift: closing over opening cost of a bracketing baseline; 1 is a machine that held still.
        sentence: the verdict in words, with its numbers and what to do.
    """

    label: str
    baseline: str | None
    pairing: Pairing
    verdict: Verdict
    sentence: str
    estimate: Estimate | None = None
    p_adjusted: float | None = None
    drift: float | None = None


def compare(
    pairs: Sequence[Pair], rule: Rule, quantity: str = "decode speed"
) -> tuple[Comparison, ...]:
    """Judge the comparisons of one table together, in the order given.

    Args:
        quantity: what a ratio above 1 is more of, for the sentences.
    """
    barred = [_bar(pair, rule) for pair in pairs]
    found = [
        None if barred[i] else estimate(reference(pair), pair.measured.costs, rule)
        for i, pair in enumerate(pairs)
    ]
    tested = {i: one.p for i, one in enumerate(found) if one is not None and one.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return tuple(
        _comparison(
            pair,
            barred[i] or _judge(found[i], adjusted.get(i), rule, quantity),
            found[i],
            adjusted.get(i),
        )
        for i, pair in enumerate(pairs)
    )


def _comparison(
    pair: Pair, judged: tuple[Verdict, str], found: Estimate | None, adjusted: float | None
) -> Comparison:
    return Comparison(
        label=pair.measured.label,
        baseline=pair.baseline.label if pair.baseline else None,
        pairing=pair.pairing,
        verdict=judged[0],
        sentence=judged[1],
        estimate=found,
        p_adjusted=adjusted,
        drift=drift(pair),
    )


def _bar(pair: Pair, rule: Rule) -> tuple[Verdict, str] | None:
    """The verdict of a pair that says nothing, or None where it does."""
    if pair.baseline is None:
        return "no baseline", (
            f"{pair.measured.label} has no baseline in this sweep; add the method none to its axes"
        )
    reason = why_incomparable(pair, rule)
    return ("not comparable", reason) if reason else None


def _judge(
    found: Estimate | None, adjusted: float | None, rule: Rule, quantity: str
) -> tuple[Verdict, str]:
    if found is None:
        return "not comparable", "no prompt has a repeat that both sides measured"
    if problem := unsteady(found, rule):
        return "unstable", f"{describe(found, rule, quantity)}; {problem}"
    assert adjusted is not None, "an estimate of enough prompts has a p-value"
    large = abs(log(found.ratio)) > log(1 + rule.min_effect)
    if large and adjusted <= 1 - rule.confidence and excludes_one(found):
        verdict: Verdict = "better" if found.ratio > 1 else "worse"
        return verdict, f"{describe(found, rule, quantity)}, p = {adjusted:.2g}"
    return "no change", f"{describe(found, rule, quantity)}; {too_little(found, adjusted, rule)}"
