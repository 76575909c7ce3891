"""Does a method give what plain decoding would have given? Judged by rescoring its outputs.

Comparing texts misleads both ways: verifying several tokens at once runs other kernels than
decoding one, near-ties flip, and everything after a flip differs though nothing is wrong. So each
output is scored by the plain engine (`pipeline.analysis.rescoring`), and the plain engine's own
outputs, scored the same way, are the noise floor: prefill and decoding differ even there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Literal

from scipy.stats import binomtest

from pipeline.analysis.rescoring import (
    NEAR_TIE_NAT,
    WidestGap,
    likelihoods,
    tokens,
    wide_gaps,
    widest_gap,
)
from pipeline.analysis.statistics import Interval, Rule, mean_interval
from pipeline.analysis.wording import percent
from pipeline.records import RescoredOutput
from pipeline.spec import Record

# A gap this many times the floor's largest is no rounding: some token was not verified.
FAR = 8.0

LosslessVerdict = Literal["lossless", "not lossless", "too little to tell"]


class GreedyCheck(Record):
    """Greedy decoding: how many tokens the plain engine would not have chosen, against the floor.

    Attributes:
        wide, floor_wide: tokens with a gap above `NEAR_TIE_NAT`, of the method and of the baseline.
        p: chance of so many of the method's if both had the same share.
    """

    verdict: LosslessVerdict
    sentence: str
    tokens: int
    wide: int
    floor_tokens: int
    floor_wide: int
    p: float
    widest: WidestGap | None
    floor_widest: WidestGap | None

    @property
    def share(self) -> float:
        """Share of the method's tokens with a wide gap."""
        return self.wide / self.tokens if self.tokens else 0.0

    @property
    def floor_share(self) -> float:
        """Share of the baseline's own tokens with a wide gap: the noise floor."""
        return self.floor_wide / self.floor_tokens if self.floor_tokens else 0.0


class SampledCheck(Record):
    """Sampling: the log-likelihood per token of the method's outputs less that of the baseline's.

    Attributes:
        difference: mean over prompts, nats per token, with its interval.
    """

    verdict: LosslessVerdict
    sentence: str
    prompts: int
    difference: Interval | None


class Agreement(Record):
    """How many texts are the same token by token. Information only: it decides nothing.

    Attributes:
        first_difference: by prompt, the first position (from 0) at which the two differ.
    """

    outputs: int
    same: int
    first_difference: dict[str, int]


def check_greedy(
    method: Sequence[RescoredOutput], floor: Sequence[RescoredOutput], rule: Rule
) -> GreedyCheck:
    """Judge greedy outputs of a method against the baseline's own, rescored the same way.

    Lossless: the share of wide gaps is no larger than the floor's beyond a one-sided binomial
    margin at `rule.confidence`, and no gap is `FAR` times the floor's largest. The margin is that
    of the wide gaps of both together, split as their tokens are, so that a floor without a single
    wide gap forbids no first one.
    """
    total, floor_total = tokens(method), tokens(floor)
    wide, floor_wide = wide_gaps(method), wide_gaps(floor)
    p = _excess(wide, total, floor_wide, floor_total)
    widest, floor_widest = widest_gap(method), widest_gap(floor)
    verdict, reason = _judge_greedy(p, widest, floor_widest, rule)
    return GreedyCheck(
        verdict=verdict,
        sentence=(
            f"{wide} of {total} tokens have a gap above {NEAR_TIE_NAT} nat, against"
            f" {floor_wide} of {floor_total} of the baseline's own (p = {p:.2g}); {reason}"
        ),
        tokens=total,
        wide=wide,
        floor_tokens=floor_total,
        floor_wide=floor_wide,
        p=p,
        widest=widest,
        floor_widest=floor_widest,
    )


def check_sampled(
    method: Sequence[RescoredOutput], baseline: Sequence[RescoredOutput], rule: Rule
) -> SampledCheck:
    """Judge sampled outputs: their mean log-likelihood per token must equal the baseline's.

    Paired by prompt, repeats averaged first; equal where the interval of the mean difference
    includes 0. A method that sharpens the distribution lies above, one that flattens it below.
    """
    ours, theirs = likelihoods(method), likelihoods(baseline)
    common = sorted(ours.keys() & theirs.keys())
    if len(common) < rule.min_prompts:
        sentence = (
            f"{len(common)} prompts are fewer than the {rule.min_prompts} it takes:"
            " raise the dataset's limit"
        )
        return SampledCheck(
            verdict="too little to tell", sentence=sentence, prompts=len(common), difference=None
        )
    found = mean_interval([ours[prompt] - theirs[prompt] for prompt in common], rule)
    lossless = found.low <= 0 <= found.high
    return SampledCheck(
        verdict="lossless" if lossless else "not lossless",
        sentence=(
            f"log-likelihood per token is {found.mean:+.3f} nat from the baseline's"
            f" ({percent(rule.confidence)} interval {found.low:+.3f} to {found.high:+.3f},"
            f" {len(common)} prompts), which {'includes' if lossless else 'excludes'} 0"
        ),
        prompts=len(common),
        difference=found,
    )


def agreement(
    method: Mapping[str, Sequence[int]], baseline: Mapping[str, Sequence[int]]
) -> Agreement:
    """Compare output token ids of the prompts that both sides have."""
    common = sorted(method.keys() & baseline.keys())
    differing = {}
    for prompt in common:
        pairs = enumerate(zip_longest(method[prompt], baseline[prompt]))
        if (first := next((i for i, (a, b) in pairs if a != b), None)) is not None:
            differing[prompt] = first
    return Agreement(
        outputs=len(common), same=len(common) - len(differing), first_difference=differing
    )


def _judge_greedy(
    p: float, widest: WidestGap | None, floor: WidestGap | None, rule: Rule
) -> tuple[LosslessVerdict, str]:
    if widest is None or floor is None:
        return "too little to tell", "one of the two has no tokens"
    where = f"the largest is {widest.gap_nat:.3g} nat (prompt {widest.prompt_id}, token"
    where += f" {widest.position}; the baseline's own {floor.gap_nat:.3g})"
    if widest.gap_nat > FAR * max(floor.gap_nat, NEAR_TIE_NAT):
        return "not lossless", f"{where}: too large for a near-tie, a token was not verified"
    if p <= 1 - rule.confidence:
        return "not lossless", f"{where}: more wide gaps than chance explains"
    return "lossless", where


def _excess(wide: int, tokens: int, floor_wide: int, floor_tokens: int) -> float:
    """Chance that at least `wide` of all wide gaps fall on the method if shares are the same."""
    if wide == 0 or floor_tokens == 0:
        return 1.0
    split = tokens / (tokens + floor_tokens)
    return float(binomtest(wide, wide + floor_wide, split, alternative="greater").pvalue)
