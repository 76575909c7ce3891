"""What can be wrong with a night besides its figures: cells that do nothing, fail, or are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobs.findings import Finding, Kind
from jobs.history import History
from jobs.night import Measured, Night
from jobs.suite import NightRule

# Every other status is a drafter that did nothing.
_KINDS: dict[str, Kind] = {"FAILED": "failed", "THROTTLED": "failed", "SUSPECT": "suspect"}


def statuses(history: History, night: Night) -> Iterator[Finding]:
    """Cells that are not OK, and stayed so when they were measured again.

    One that never was OK has not changed: it is a failed cell, whatever its drafter did. One that
    some starts measured and others did not says nothing yet.
    """
    for last in night.last:
        if last.status == "OK":
            continue
        reason = f": {last.reason}" if last.reason else ""
        every = night.measurements(last.fingerprint)
        bad = sum(one.status != "OK" for one in every)
        if bad < len(every) and not any(one.fingerprint == last.fingerprint for one in night.again):
            yield Finding(
                kind="unconfirmed",
                about=last.label,
                sentence=f"{bad} of {len(every)} starts ended {last.status}, the others OK{reason}",
            )
            continue
        good = _last_ok(history, last.label)
        since = f"was OK until {good.date}" if good is not None else "was not OK before either"
        yield Finding(
            kind=_KINDS.get(last.status, "noop") if good is not None else "failed",
            about=last.label,
            sentence=f"{since}, is {last.status}{reason}",
        )


def missing(history: History, night: Night, rule: NightRule) -> Iterator[Finding]:
    """Cells that the suite measured before and did not plan tonight."""
    here = {cell.label for cell in night.cells} | {one.label for one in night.left_out}
    seen: dict[str, Night] = {}
    for earlier in history.nights[-rule.nights :]:
        for cell in earlier.cells:
            decided = history.decided(cell.label)
            if decided is None or decided.action != "accept" or decided.night <= earlier.id:
                seen[cell.label] = earlier
    for label, last in seen.items():
        if label not in here:
            yield Finding(
                kind="missing",
                about=label,
                sentence=f"was measured until {last.date}; the suite does not have it any more",
            )


def lossless(history: History, night: Night) -> Iterator[Finding]:
    """Methods whose answers the target itself would not have given."""
    for cell in night.cells:
        if night.inexact(cell.fingerprint):
            before = (c for n in history.nights for c in n.cells if c.label == cell.label)
            was = any(one.lossless == "lossless" for one in before)
            yield Finding(
                kind="not lossless",
                about=cell.label,
                sentence=f"its answers are {'no longer' if was else 'not'} the target's own, by"
                " rescoring",
            )


def outputs(history: History, night: Night, rule: NightRule) -> Iterator[Finding]:
    """Targets whose own greedy answers are not those of the nights before.

    Only prompts that were answered the same in every one of those nights count: where a near-tie
    falls one way or the other by itself, a difference says nothing.
    """
    for cell in night.cells:
        steady = _steady(history, cell, rule)
        given = [one.outputs for one in night.measurements(cell.fingerprint) if one.outputs]
        # A start that still gives the usual answer shows that the target has not lost it.
        changed = [
            prompt
            for prompt, digest in steady.items()
            if given and all(one.get(prompt, digest) != digest for one in given)
        ]
        if steady and len(changed) > rule.outputs * len(steady):
            yield Finding(
                kind="outputs",
                about=cell.label,
                sentence=(
                    f"the target answers {len(changed)} of {len(steady)} prompts otherwise than in"
                    f" all nights before (prompt {min(changed)} is one)"
                ),
            )


def changed_parts(history: History, cell: Measured) -> tuple[str, ...]:
    """What makes a cell another one than the last of its name."""
    for night in reversed(history.nights):
        for earlier in night.cells:
            if earlier.label == cell.label and earlier.fingerprint != cell.fingerprint:
                return tuple(
                    part
                    for part, digest in cell.parts.items()
                    if earlier.parts.get(part, digest) != digest
                )
    return ()


def known(history: History, label: str) -> bool:
    """Whether any night measured a cell of this name."""
    return any(cell.label == label for night in history.nights for cell in night.cells)


def _last_ok(history: History, label: str) -> Night | None:
    for night in reversed(history.nights):
        if any(cell.label == label and cell.status == "OK" for cell in night.last):
            return night
    return None


def _steady(history: History, cell: Measured, rule: NightRule) -> dict[str, str]:
    """The prompts that the nights of the baseline answered the same in every start, with that."""
    decided = history.decided(cell.label)
    first = decided.night if decided is not None and decided.action == "accept" else ""
    nights = [
        [one.outputs for one in night.measurements(earlier.fingerprint) if one.outputs]
        for night in history.nights
        for earlier in night.cells
        if earlier.label == cell.label and _asked_the_same(earlier, cell)
        if night.id >= first and history.uncalled(night, cell.label)
    ]
    answered = [starts for starts in nights if starts][-rule.nights :]
    if len(answered) < rule.min_nights:
        return {}
    return _agreed([one for starts in answered for one in starts])


def _asked_the_same(earlier: Measured, cell: Measured) -> bool:
    """Whether two cells differ in the checkpoint at most."""
    return all(earlier.parts.get(part) == cell.parts.get(part) for part in ("prompts", "settings"))


def _agreed(nights: Sequence[dict[str, str]]) -> dict[str, str]:
    first, *others = nights
    return {
        prompt: digest
        for prompt, digest in first.items()
        if all(other.get(prompt) == digest for other in others)
    }
