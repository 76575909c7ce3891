"""Did the drafter work? A status for a measured cell, and the sentence that explains it.

A drafter that is silently off measures plain decoding under its own name, and no speed tells it
from a drafter that does not help. So the counts are judged before any speed is looked at, and only
an OK cell enters a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pipeline.analysis.acceptance import counted
from pipeline.analysis.counts import count, decode_steps, drafts_of_requests, undrafted_steps
from pipeline.methods import BASELINE
from pipeline.records import CounterDelta, Counts, PassRecord, Status

# Methods that copy from the text: finding nothing to copy is an outcome, not a fault.
MATCHING = frozenset({"ngram"})
# Accepted tokens per draft below which a trained drafter is guessing.
MIN_ACCEPTED_PER_DRAFT = 0.05
# Share of steps a drafter model must draft at; it can always draft, save near the context's end.
MIN_COVERAGE = 0.9

Judgement = tuple[Status, str]


def judge(kind: str, k: int, passes: Sequence[PassRecord]) -> Judgement:
    """The status of a measured cell and why, with the numbers; an OK may have nothing to add.

    Args:
        kind: the method's kind, such as `eagle3`; `none` is plain decoding.
        k: the most tokens one step may draft.
        passes: the cell's measured passes.
    """
    if not any(r.chunk_tokens for one in passes for r in one.requests):
        return "SUSPECT", "no request put out a token, so there is nothing to judge"
    if kind == BASELINE:
        return _judge_baseline(passes)
    silent = [one.repeat for one in passes if not counted(one)]
    if silent:
        return "NOOP_NOT_CONFIGURED", (
            f"the engine has no speculative decoding counters (repeats {_listed(silent)}):"
            f" it started without {kind}; read its log for a speculative configuration it dropped"
        )
    if problem := next(_inconsistencies(passes, k), None):
        return "SUSPECT", problem
    counts = count(passes, k)
    return _judge_matching(counts) if kind in MATCHING else _judge_drafter(kind, counts)


def probe(kind: str, k: int, warm_up: PassRecord) -> Judgement | None:
    """What the warm-up already shows to be wrong with a drafter; None where nothing does.

    It drafts too little to judge acceptance by, but whether anything drafts is seen.
    """
    if kind == BASELINE:
        status, reason = _judge_baseline([warm_up])
    elif not counted(warm_up) or next(_inconsistencies([warm_up], k), None):
        status, reason = judge(kind, k, [warm_up])
    elif kind in MATCHING or count([warm_up], k).drafts:
        return None
    else:
        status, reason = _judge_drafter(kind, count([warm_up], k))
    return None if status == "OK" else (status, reason)


def _judge_baseline(passes: Sequence[PassRecord]) -> Judgement:
    drafting = [p.repeat for p in passes if p.counters or any(r.drafted for r in p.requests)]
    if not drafting:
        return "OK", ""
    return "SUSPECT", (
        "plain decoding was asked for, but the engine has speculative decoding counters"
        f" (repeats {_listed(drafting)}): its engine arguments configure a drafter"
    )


def _judge_matching(counts: Counts) -> Judgement:
    if counts.drafts > 0:
        return "OK", ""
    return "OK", (
        f"nothing in the text matched in {decode_steps(counts)} steps, so nothing was drafted:"
        " coverage is 0 and every step was plain decoding"
    )


def _judge_drafter(kind: str, counts: Counts) -> Judgement:
    drafts, steps = counts.drafts, decode_steps(counts)
    if steps == 0:
        return "SUSPECT", (
            f"all {counts.requests} answers ended with their first token, which comes from prefill:"
            " no step could draft; raise the token cap or choose prompts that ask for more"
        )
    if drafts == 0:
        return "NOOP_NO_DRAFTS", (
            f"{kind} is configured but drafted nothing in {steps} steps:"
            " its speed is plain decoding's"
        )
    if counts.accepted / drafts < MIN_ACCEPTED_PER_DRAFT:
        return "NOOP_NO_ACCEPT", (
            f"{counts.accepted} tokens were accepted in {drafts} drafts"
            f" ({counts.accepted / drafts:.3f} per draft; a trained {kind} has at least"
            f" {MIN_ACCEPTED_PER_DRAFT}): its weights are missing, untrained or of another model"
        )
    if drafts / steps < MIN_COVERAGE:
        return "SUSPECT", (
            f"{kind} drafted at {drafts} of {steps} steps (coverage {drafts / steps:.2f}, at least"
            f" {MIN_COVERAGE} expected): {undrafted_steps(counts)} steps were plain decoding"
        )
    return "OK", ""


def _inconsistencies(passes: Sequence[PassRecord], k: int) -> Iterator[str]:
    for one in passes:
        own = drafts_of_requests(one.requests, k)
        for source, found in (("requests' records", own), ("engine's counters", one.counters)):
            if found is not None and (problem := _impossible(found, k)):
                yield f"repeat {one.repeat}: the {source} cannot be right: {problem}"
        if own is not None and one.counters is not None:
            yield from _disagreements(one, own, one.counters, k)
    counts = count(passes, k)
    if counts.truncated > k * counts.requests:
        yield (
            f"{counts.accepted} accepted tokens are {counts.truncated} more than came out;"
            f" cutting the ends of {counts.requests} answers explains at most {k} each"
        )


def _impossible(found: CounterDelta, k: int) -> str | None:
    """Which identity of the counts is broken, or None."""
    positions = found.accepted_per_position
    if any(after > before for before, after in pairwise((found.drafts, *positions))):
        return (
            f"a position accepted more often than the one before it"
            f" ({found.drafts} drafts, then {_listed(positions)})"
        )
    if sum(positions[:k]) != found.accepted:
        return (
            f"{_listed(positions)} accepted at {len(positions)} positions (K={k})"
            f" do not add up to {found.accepted} accepted"
        )
    if not found.accepted <= found.drafted <= k * found.drafts:
        return (
            f"{found.accepted} accepted, {found.drafted} drafted and {found.drafts} drafts"
            f" of at most {k}"
        )
    return None


def _disagreements(
    one: PassRecord, own: CounterDelta, engine: CounterDelta, k: int
) -> Iterator[str]:
    """Counts of the two sources may differ by one last step, K tokens, per request."""
    allowed = k * len(one.requests)
    for name in ("drafts", "drafted", "accepted"):
        here, there = getattr(own, name), getattr(engine, name)
        if abs(here - there) > allowed:
            yield (
                f"repeat {one.repeat}: requests' records say {here} {name} and the engine's"
                f" counters {there}; {len(one.requests)} requests explain at most {allowed}"
            )


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
