"""How sure a mean over prompts is: intervals and p-values, resampling prompts.

The prompt is the unit of analysis. Tokens of one answer, and repeats of one prompt, are not
independent samples of "a prompt of this kind"; prompts are. So a prompt's repeats are averaged
first, and the bootstrap draws whole prompts (a cluster bootstrap with one value per cluster).

The interval is the symmetric studentised one: each resample's mean is divided by its own standard
error, and the 95th percentile of those |t| takes the place of Student's factor. The plain
percentile interval is some 10 % too narrow at twenty prompts and more below, which makes false
alarms; this one keeps its level without assuming that prompts are normally distributed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipeline.analysis.speed import deviation
from pipeline.spec import Record

# What a token cost (seconds, or steps) by prompt and repeat; less is better.
Costs = Mapping[str, Mapping[int, float]]


class Rule(Record):
    """When a difference is called a change, and how its interval is made.

    Attributes:
        min_effect: the smallest relative change worth a name; 0.03 suits speed, 0.02 suits
            acceptance length.
        min_prompts: with fewer prompts nothing is called.
        max_relative_mad: the largest spread of a prompt's repeats at which something is called.
        confidence: level of the intervals; 1 - confidence is the chance of a false alarm.
        resamples: bootstrap resamples; the smallest p-value is 1 / (resamples + 1).
        seed: the same numbers give the same interval.
    """

    min_effect: float = Field(default=0.03, ge=0)
    min_prompts: int = Field(default=5, ge=5)
    max_relative_mad: float = Field(default=0.10, gt=0)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    resamples: int = Field(default=9999, ge=99)
    seed: int = 0


class Interval(Record):
    """A mean with its confidence interval, and the p-value of its being zero."""

    mean: float
    low: float
    high: float
    p: float


class Estimate(Record):
    """How many times better one side is than the other: geometric mean of the prompts' ratios.

    Attributes:
        ratio: reference cost over measured cost; above 1 the measured side is better.
        low, high: confidence interval of the ratio; None with fewer than `Rule.min_prompts`.
        p: probability of a ratio at least this far from 1 if nothing had changed; None as above.
        prompts: prompts that both sides measured.
        dropped: prompts that only one side measured.
        repeats: repeats per prompt that both sides measured; the smallest over the prompts.
        relative_mad: median absolute deviation of a prompt's repeats, relative to their ratio;
            the median over prompts. None with one repeat, which cannot show its own noise.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    prompts: int
    dropped: int
    repeats: int
    relative_mad: float | None


def estimate(reference: Costs, measured: Costs, rule: Rule) -> Estimate | None:
    """Compare two sides prompt by prompt; None where they have no prompt in common.

    A prompt's value is the mean over repeats of log(reference / measured), each repeat against
    the same repeat of the other side, its neighbour in time: what a machine's drift does to both
    drops out of the ratio.
    """
    logs = _log_ratios(reference, measured)
    if not logs:
        return None
    means = _prompt_means(logs)
    found = mean_interval(means, rule) if len(means) >= rule.min_prompts else None
    return Estimate(
        ratio=float(np.exp(fmean(means))),
        low=float(np.exp(found.low)) if found else None,
        high=float(np.exp(found.high)) if found else None,
        p=found.p if found else None,
        prompts=len(means),
        dropped=len(reference.keys() | measured.keys()) - len(means),
        repeats=min(map(len, logs.values())),
        relative_mad=_noise(list(logs.values())),
    )


def mean_ratio(reference: Costs, measured: Costs) -> float | None:
    """Geometric mean over prompts of reference / measured; None without a common prompt."""
    means = _prompt_means(_log_ratios(reference, measured))
    return float(np.exp(fmean(means))) if means else None


def midpoint(opening: Costs, closing: Costs) -> Costs:
    """The geometric mean of two measurements of the same, prompt by prompt and repeat by repeat.

    It is what a third one half way between them would have cost on a machine that drifts steadily.
    """
    return {
        prompt: {
            repeat: float(np.sqrt(opening[prompt][repeat] * closing[prompt][repeat]))
            for repeat in opening[prompt].keys() & closing[prompt].keys()
        }
        for prompt in opening.keys() & closing.keys()
    }


def mean_interval(values: Sequence[float], rule: Rule) -> Interval:
    """Symmetric studentised bootstrap interval of a mean, and the matching two-sided p-value.

    Formula: mean +- q * se, where q is the `confidence` quantile of |mean* - mean| / se* over
    resamples (starred). Resamples that drew one value only have no standard error and are left
    out. The p-value is below 1 - confidence just where the interval excludes 0.
    """
    sample = np.asarray(values, dtype=np.float64)
    mean, error = float(sample.mean()), float(_standard_error(sample))
    if error == 0:  # nothing varies, so nothing is uncertain
        return Interval(mean=mean, low=mean, high=mean, p=float(mean == 0))
    draws = np.random.default_rng(rule.seed).choice(sample, size=(rule.resamples, sample.size))
    errors = _standard_error(draws)
    varied = errors > 0
    spread = np.abs(draws.mean(axis=1) - mean)[varied] / errors[varied]
    farther = int((spread >= abs(mean) / error).sum())
    reach = error * float(np.quantile(spread, rule.confidence, method="higher"))
    p = (1 + farther) / (1 + spread.size)
    return Interval(mean=mean, low=mean - reach, high=mean + reach, p=p)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust the p-values of one table so that one false alarm anywhere has the stated chance.

    Holm's step-down: the smallest p is multiplied by m, the next by m - 1, and so on; an adjusted
    value is never below one that was smaller before.
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = floor
    return tuple(adjusted)


def _standard_error(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the mean along the last axis; exactly zero where nothing varies."""
    errors = samples.std(axis=-1, ddof=1) / np.sqrt(samples.shape[-1])
    return np.where(np.ptp(samples, axis=-1) == 0, 0.0, errors)


def _log_ratios(reference: Costs, measured: Costs) -> dict[str, list[float]]:
    """Each common prompt's log ratios, one per common repeat; prompts without any are left out."""
    found = {}
    for prompt in reference.keys() & measured.keys():
        before, after = reference[prompt], measured[prompt]
        common = sorted(before.keys() & after.keys())
        if common:
            found[prompt] = [float(np.log(before[r] / after[r])) for r in common]
    return found


def _prompt_means(logs: Mapping[str, Sequence[float]]) -> list[float]:
    """One value per prompt, in an order that does not depend on the order of measuring."""
    return [fmean(repeats) for _, repeats in sorted(logs.items())]


def _noise(repeats: Sequence[Sequence[float]]) -> float | None:
    spreads = [deviation(values) for values in repeats if len(values) > 1]
    return float(np.expm1(median(spreads))) if spreads else None
