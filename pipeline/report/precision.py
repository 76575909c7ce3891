"""Numbers as text, with the digits that their uncertainty justifies.

A rate of accepted tokens is a mean over drafts, so its standard error follows from the counts. The
median's is 1.25 times the mean's, and a median absolute deviation is 0.6745 standard deviations of
a normal distribution: 1.86 * MAD / sqrt(n).
"""

from __future__ import annotations

from math import sqrt

from pipeline.analysis.wording import decimals
from pipeline.records import Counts, Summary
from pipeline.results import NOTHING

# Half of a 95 % interval, in standard errors.
_REACH = 1.96
_MEDIAN_ERROR = 1.2533 / 0.6745


def median_text(found: Summary) -> str:
    """`38.4 ± 1.2`: a median with its median absolute deviation."""
    digits = _digits(_REACH * _MEDIAN_ERROR * found.spread / sqrt(max(found.n, 1)), most=1)
    return f"{found.value:.{digits}f} ± {found.spread:.{digits}f}"


def rate_text(counts: Counts) -> str:
    """Accepted over drafted tokens; drafts are taken as independent, tokens of one are not."""
    if not counts.drafts or not counts.drafted:
        return NOTHING
    per_draft = counts.drafted / counts.drafts
    value = counts.accepted / counts.drafted
    return f"{value:.{_digits(_REACH * _length_error(counts) / per_draft)}f}"


def length_text(counts: Counts) -> str:
    """Tokens per step that drafted, the bonus token included."""
    if not counts.drafts:
        return NOTHING
    value = 1 + counts.accepted / counts.drafts
    return f"{value:.{_digits(_REACH * _length_error(counts))}f}"


def positions_text(counts: Counts) -> str:
    """`0.62 0.41 0.3`: the share of drafts that were accepted up to each position."""
    if not counts.drafts:
        return NOTHING
    return " ".join(share_text(n, counts.drafts) for n in counts.accepted_per_position)


def share_text(part: int, whole: int) -> str:
    """A share of independent trials."""
    return f"{part / whole:.{_digits(_share_reach(part, whole))}f}" if whole else NOTHING


def percent_text(part: int, whole: int) -> str:
    """The same in percent."""
    if not whole:
        return NOTHING
    return f"{100 * part / whole:.{_digits(100 * _share_reach(part, whole), most=1)}f} %"


def _digits(uncertainty: float, most: int = 2) -> int:
    """Decimals of a number that stands without its interval: to the first digit of that."""
    return decimals(3 * uncertainty, most)


def _share_reach(part: int, whole: int) -> float:
    """Half of a share's interval (Agresti and Coull: two of each added, so none is certain)."""
    share = (part + 2) / (whole + 4)
    return _REACH * sqrt(share * (1 - share) / (whole + 4))


def _length_error(counts: Counts) -> float:
    """Standard error of the mean number of accepted tokens per draft.

    With X accepted in a draft, E[X] = sum P_i / D and E[X^2] = sum (2 i + 1) P_i / D.
    """
    mean = counts.accepted / counts.drafts
    square = sum((2 * i + 1) * p for i, p in enumerate(counts.accepted_per_position))
    return sqrt(max(0.0, square / counts.drafts - mean**2) / counts.drafts)
