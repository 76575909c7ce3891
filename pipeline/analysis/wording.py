"""The sentences of verdicts: the ratio, how sure it is, and why it may decide nothing."""

from __future__ import annotations

from math import floor, log10

from pipeline.analysis.statistics import Estimate, Rule

# Decimals of an interval that comes as close to 1 as this.
_MOST = 4


def span(found: Estimate) -> str:
    """`1.42 (1.36 to 1.49)`: a ratio with its interval, no more digits than that justifies."""
    digits = digits_of(found)
    if found.low is None or found.high is None:
        return f"{found.ratio:.{digits}f} (no interval)"
    return f"{found.ratio:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def digits_of(found: Estimate) -> int:
    """Decimals that an estimate's interval justifies; one where it has none.

    An interval that excludes 1 has as many as it takes to see that.
    """
    if found.low is None or found.high is None:
        return 1
    digits = decimals((found.high - found.low) / 2)
    while digits < _MOST and excludes_one(found) and not _apart(found.low, found.high, digits):
        digits += 1
    return digits


def percent(confidence: float) -> str:
    """`95%`, and `99.86%` where a chance of a false alarm is shared among many."""
    return f"{100 * confidence:.4g}%"


def _apart(low: float, high: float, digits: int) -> bool:
    return not round(low, digits) <= 1 <= round(high, digits)


def decimals(uncertainty: float, most: int = 2) -> int:
    """Decimals a number may be told with: its last digit is about a third of its uncertainty."""
    return most if uncertainty <= 0 else max(0, min(most, -floor(log10(uncertainty / 3))))


def describe(found: Estimate, rule: Rule, quantity: str) -> str:
    """The estimate with its interval and size, such as `decode speed is 1.42 times ...`."""
    sample = f"{found.prompts} prompts x {found.repeats} repeat{'s' * (found.repeats > 1)}"
    digits = digits_of(found)
    if found.low is None or found.high is None:
        return (
            f"{quantity} is {found.ratio:.{digits}f} times the baseline's ({sample}, no interval)"
        )
    return (
        f"{quantity} is {found.ratio:.{digits}f} times the baseline's ({percent(rule.confidence)}"
        f" interval {found.low:.{digits}f} to {found.high:.{digits}f}, {sample})"
    )


def unsteady(found: Estimate, rule: Rule) -> str | None:
    """Why the estimate is too unsteady to call anything and what to raise, or None."""
    if found.prompts < rule.min_prompts:
        return (
            f"{found.prompts} prompts are fewer than the {rule.min_prompts} it takes:"
            " raise the dataset's limit"
        )
    if found.relative_mad is not None and found.relative_mad > rule.max_relative_mad:
        return (
            f"repeats of a prompt differ by {found.relative_mad:.0%} (median absolute deviation),"
            f" more than {rule.max_relative_mad:.0%}: raise measure.repeats, or quieten the machine"
        )
    return None


def excludes_one(found: Estimate) -> bool:
    """Whether the interval excludes a ratio of 1."""
    return found.low is not None and found.high is not None and not found.low <= 1 <= found.high


def too_little(found: Estimate, adjusted: float, rule: Rule) -> str:
    """Why an estimate that is steady enough is not called a change."""
    if not excludes_one(found):
        return "the interval includes 1"
    if adjusted > 1 - rule.confidence:
        return (
            f"the interval excludes 1, but not once corrected for the table's other comparisons"
            f" (p = {adjusted:.2g})"
        )
    return f"an effect below {rule.min_effect:.0%} is too small to matter"
