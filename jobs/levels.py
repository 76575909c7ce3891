"""How far some nights lie from the nights before them, and how sure that is.

Two things make a night's mean uncertain, and the wider interval of the two is used:

- *within* the night: prompts scatter. The bootstrap over prompts of `pipeline.analysis.statistics`
  gives that interval, for each prompt's difference from its own earlier values.
- *between* nights: a night is shifted as a whole, by how the engine was laid out in memory and by
  what else the machine did. No number of prompts shows that, only other nights do.

The two are told apart as in a two-way analysis of variance, nights by prompts: what is left over
once every night's and every prompt's mean is taken off is scatter, and by what the nights' means
differ more than scatter makes them is shift. Measuring again in the same night averages away
scatter, and of the shift what each start of an engine has of its own. Nobody knows how much of it
that is: a night that was measured more often than usual is taken to have none of it averaged away,
and one that was measured less often to have all of it to a start.

A few nights estimate a shift badly, so it is moderated: a cell's own is averaged with that of all
the suite's cells, and theirs with what the suite assumes, each weighed by its degrees of freedom
(Smyth 2004, as for thousands of genes on few arrays); and it is never taken to be less than the
suite's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import expm1, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import linregress
from scipy.stats import t as student

from jobs.signals import Sample
from pipeline.analysis.statistics import Rule, mean_interval
from pipeline.spec import Record

# How many nights the spread of all cells weighs beside a cell's own.
_POOL_WEIGHT = 8
_RESAMPLES = 1999
# With fewer prompts the bootstrap has too little to resample.
_MIN_PROMPTS = Rule().min_prompts


class Level(NamedTuple):
    """One cell in one night.

    Attributes:
        samples: one per measurement, each by an engine started anew.
        good: whether the night may be a baseline.
        again: how many of the samples, the last ones, were taken because the others looked moved.
    """

    night: str
    at: str
    samples: tuple[Sample, ...]
    good: bool
    again: int = 0


class Spread(NamedTuple):
    """How nights differ with nothing changed (log scale).

    Attributes:
        shift: variance that all measurements of a night share; negative as a chance estimate.
        scatter: variance of one measurement's mean over prompts.
        df: degrees of freedom.
        usual: how often the nights that the shift was seen in were measured.
    """

    shift: float
    scatter: float
    df: float
    usual: float = 1.0

    def of(self, level: Level) -> float:
        """Variance of a night's mean, by how often it was measured."""
        often = len(level.samples)
        return self.shift * max(1.0, self.usual / often) + self.scatter / often


class Deviation(Record):
    """Nights against a baseline: the ratio of the two, above 1 is better, with its interval.

    Attributes:
        nights, baseline_nights: how many nights stand on either side.
        prompts: prompts that both sides have.
    """

    ratio: float
    low: float
    high: float
    nights: int
    baseline_nights: int
    prompts: int

    def beyond(self, effect: float) -> int:
        """+1 or -1 where the whole interval lies beyond a relative effect, else 0."""
        if self.low > 1 + effect:
            return 1
        return -1 if self.high < 1 / (1 + effect) else 0


def own_spread(levels: Sequence[Level]) -> Spread:
    """The variance of one cell's nightly means, over the prompts that all its nights have."""
    prompts = _common(levels) if levels else []
    if len(levels) < 2 or not prompts:
        return Spread(0.0, 0.0, 0)
    values = _by_prompt(levels, prompts)
    means = values.mean(axis=1)
    rest = values - means[:, None] - values.mean(axis=0) + values.mean()
    freedom = max(1, (len(levels) - 1) * (len(prompts) - 1))
    scatter = float((rest**2).sum()) / freedom / len(prompts)
    usual = 1 / fmean(1 / len(level.samples) for level in levels)
    # The scatter is so far that of a night's mean.
    return Spread(float(means.var(ddof=1)) - scatter, scatter * usual, len(levels) - 1, usual)


def suite_spread(cells: Iterable[Spread], assumed: float, weight: int) -> Spread:
    """What a suite's cells have in common, an assumed standard deviation among them."""
    pooled = _pooled([Spread(assumed**2, 0.0, weight), *cells])
    return pooled._replace(shift=max(0.0, pooled.shift))


def cell_spread(own: Spread, suite: Spread) -> Spread:
    """A cell's own spread, moderated by that of the suite."""
    pooled = _pooled([own, suite._replace(df=min(_POOL_WEIGHT, suite.df))])
    return pooled._replace(shift=max(suite.shift, pooled.shift))


def deviation(
    window: Sequence[Level],
    baseline: Sequence[Level],
    spread: Spread,
    confidence: float,
) -> Deviation | None:
    """The mean of some nights over that of the baseline's; None without a common prompt.

    Without a baseline the samples are compared with 0, a ratio of 1.
    """
    moved = _moved(window, baseline)
    if not moved:
        return None
    middle = fmean(moved)
    uncertain = sum(map(spread.of, window)) / len(window) ** 2
    uncertain += sum(map(spread.of, baseline)) / len(baseline) ** 2 if baseline else 0.0
    reach = float(student.ppf(0.5 + confidence / 2, spread.df)) * sqrt(uncertain)
    if abs(middle) > reach:  # else the bootstrap, which can only widen it, decides nothing
        reach = max(reach, _within(moved, confidence))
    return Deviation(
        ratio=1 + expm1(middle),
        low=1 + expm1(middle - reach),
        high=1 + expm1(middle + reach),
        nights=len(window),
        baseline_nights=len(baseline),
        prompts=len(moved),
    )


def ratio(window: Sequence[Level], baseline: Sequence[Level]) -> float | None:
    """The mean of some nights over that of others; None without a common prompt."""
    moved = _moved(window, baseline)
    return 1 + expm1(fmean(moved)) if moved else None


def drift(levels: Sequence[Level], days: Sequence[float], confidence: float) -> Deviation | None:
    """The change along a straight line through nights, from the first to the last of them.

    Args:
        days: when each night was, in days.
    """
    means = _means(levels)
    if not means:
        return None
    line = linregress(days, means)
    span = days[-1] - days[0]
    change = float(line.slope) * span
    reach = float(student.ppf(0.5 + confidence / 2, len(means) - 2) * line.stderr) * span
    return Deviation(
        ratio=1 + expm1(change),
        low=1 + expm1(change - reach),
        high=1 + expm1(change + reach),
        nights=len(levels),
        baseline_nights=0,
        prompts=len(_common(levels)),
    )


def nightly(levels: Sequence[Level]) -> list[float]:
    """Each night's geometric mean, over the prompts that all of them have."""
    return [1 + expm1(mean) for mean in _means(levels)]


def _moved(window: Sequence[Level], baseline: Sequence[Level]) -> list[float]:
    """Each prompt's log ratio of the two sides, in a fixed order."""
    prompts = _common([*window, *baseline])
    moved = _by_prompt(window, prompts).mean(axis=0)
    if baseline:
        moved = moved - _by_prompt(baseline, prompts).mean(axis=0)
    return [float(value) for value in moved]


def _means(levels: Sequence[Level]) -> list[float]:
    prompts = _common(levels)
    return [float(mean) for mean in _by_prompt(levels, prompts).mean(axis=1)] if prompts else []


def _common(levels: Sequence[Level]) -> list[str]:
    first, *others = (sample for level in levels for sample in level.samples)
    return sorted(first.keys() & set.intersection(*map(set, others)) if others else first.keys())


def _by_prompt(levels: Sequence[Level], prompts: Sequence[str]) -> NDArray[np.float64]:
    """A night's value of each prompt (nights x prompts), the mean of what it measured."""
    rows = [[sample[p] for p in prompts] for level in levels for sample in level.samples]
    counts = np.array([len(level.samples) for level in levels])
    first = np.concatenate([[0], counts.cumsum()[:-1]])
    sums = np.add.reduceat(np.array(rows, dtype=np.float64), first, axis=0)
    found: NDArray[np.float64] = sums / counts[:, None]
    return found


def _within(moved: Sequence[float], confidence: float) -> float:
    if len(moved) < _MIN_PROMPTS:
        return 0.0
    found = mean_interval(moved, Rule(confidence=confidence, resamples=_RESAMPLES))
    return found.high - found.mean


def _pooled(spreads: Iterable[Spread]) -> Spread:
    known = [spread for spread in spreads if spread.df > 0]
    df = sum(spread.df for spread in known)
    shift, scatter, usual = (
        sum(part * spread.df for part, spread in zip(parts, known, strict=True)) / df
        for parts in zip(*((s.shift, s.scatter, s.usual) for s in known), strict=True)
    )
    return Spread(shift, scatter, df, usual)
