"""The verdict on a night: what to measure again, and what to say once that is done. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, partial

from jobs import checks, sentences
from jobs.changes import Step, beginning, environment_changes, suspects
from jobs.ended import ended, replaced
from jobs.findings import NO_BASELINE_AFTER, Finding, NightVerdict, Point, Trend
from jobs.history import History, eligible, level, since, standard
from jobs.levels import Level, Spread, nightly
from jobs.moves import Move, Watched, called, compared, days, spread, suspected, unconfirmed
from jobs.night import Measured, Night
from jobs.recommend import recommend
from jobs.signals import SIGNALS, UNITS, Signal, main_signal, sample
from jobs.suite import NightRule

# Nights that a trend shows.
_TREND_NIGHTS = 60
# Nights this many days apart are neighbours: a machine may be off for some.
_NEIGHBOURS = 7.0


def to_measure_again(history: History, night: Night, rule: NightRule) -> tuple[str, ...]:
    """Fingerprints of the cells that look moved, or are not OK though they were."""
    judge = _Judge(history.before(night), night, rule)
    return tuple(cell.fingerprint for cell in night.last if judge.doubts(cell))


def judge(history: History, night: Night, rule: NightRule) -> NightVerdict:
    """Everything to say about a night, the cells measured again included."""
    return _Judge(history.before(night), night, rule).verdict()


def judged(night: Night, verdict: NightVerdict) -> Night:
    """The night as it is kept: with what later nights have to know of its verdict."""
    changed = {finding.about for finding in verdict.of(*NO_BASELINE_AFTER)}
    return night.model_copy(
        update={
            "recommended": verdict.recommended,
            "called": tuple(sorted(changed)),
            "found": (*(finding.key for finding in verdict.findings), *verdict.standing),
        }
    )


class _Judge:
    def __init__(self, history: History, night: Night, rule: NightRule) -> None:
        self._history, self._night, self._rule = history, night, rule
        self._spreads: Mapping[Signal, Spread] = {s: history.spread(s, rule) for s in SIGNALS}

    def doubts(self, cell: Measured) -> bool:
        """Whether a cell has to be measured again before anything is said of it."""
        before = self._history.standing(cell.label)
        every = self._night.measurements(cell.fingerprint)
        if cell.status != "OK":
            was_good = before is not None and before.status == "OK"
            return was_good or any(one.status == "OK" for one in every)
        was_exact = before is not None and before.lossless == "lossless"
        if was_exact and any(one.lossless == "not lossless" for one in every):
            return True
        return any(suspected(watched, self._rule) for watched in self._watched(cell))

    def verdict(self) -> NightVerdict:
        history, night, rule = self._history, self._night, self._rule
        recommended, moved_on = recommend(history, night, self._spreads["speedup"], rule)
        found = [
            *(finding for cell in night.cells for finding in self._moves(cell)),
            *checks.lossless(history, night),
            *checks.outputs(history, night, rule),
            *checks.statuses(history, night),
            *checks.missing(history, night, rule),
            *moved_on,
            *(finding for cell in night.cells for finding in self._uncompared(cell)),
        ]
        heard = history.last_heard
        before = heard.found if heard is not None else ()
        quiet = [key for key in before if not _one_off(key) and not replaced(key, found)]
        over = [key for key in quiet if ended(key, night, self._compared)]
        left_before = {one.label for one in heard.left_out} if heard is not None else set()
        fewer_before = {one.label for one in heard.fewer_starts} if heard is not None else set()
        return NightVerdict(
            suite=night.suite,
            night=night.id,
            at=night.at,
            node_class=night.node_class,
            changes=environment_changes(heard, night) if heard is not None else (),
            findings=tuple(f.model_copy(update={"news": _is_news(f, before)}) for f in found),
            resolved=tuple(over),
            standing=tuple(key for key in quiet if key not in over),
            left_out=night.left_out,
            newly_left_out=tuple(o.label for o in night.left_out if o.label not in left_before),
            fewer_starts=night.fewer_starts,
            newly_fewer=tuple(o.label for o in night.fewer_starts if o.label not in fewer_before),
            recommended=recommended,
            cells=tuple(cell.label for cell in night.cells),
            compared=tuple(c.label for c in night.cells if self._is_compared(c)),
            measured_again=tuple(dict.fromkeys(cell.label for cell in night.again)),
            lost=tuple(c.label for c in night.cells if self._is_lost(c)),
        )

    def _watched(self, cell: Measured) -> Iterator[Watched]:
        for signal in SIGNALS:
            of = partial(sample, signal=signal)
            tonight = level(self._night, cell.fingerprint, of)
            if tonight is not None:
                yield Watched(
                    signal,
                    tonight,
                    self._history.levels(cell.fingerprint, of, self._rule),
                    self._history.decided(cell.label),
                    self._spreads[signal],
                )

    def _moves(self, cell: Measured) -> Iterator[Finding]:
        for watched in self._watched(cell):
            if (move := called(watched, self._rule)) is not None:
                yield self._told(cell, watched, move)
            elif (move := unconfirmed(watched, self._rule)) is not None:
                yield self._told(cell, watched, move).model_copy(update={"kind": "unconfirmed"})

    def _told(self, cell: Measured, watched: Watched, move: Move) -> Finding:
        history, night, rule = self._history, self._night, self._rule
        step = _began(watched, move, rule) if move.kind == "step" else None
        # Without a step in the history, a move that one night shows began with it.
        alone = move.kind == "step" and move.deviation.nights == 1
        date, began = (step.date, step.night) if step else (night.date if alone else None, night.id)
        having = [n for n in history.nights if any(c.label == cell.label for c in n.cells)]
        return Finding(
            kind="drift" if move.kind == "drift" and move.way == "worse" else move.way,
            about=cell.label,
            sentence=sentences.moved(
                watched, move, rule, *sentences.sides(history, night, cell, rule)
            ),
            signal=watched.signal,
            deviation=move.deviation,
            since=date,
            suspects=tuple(map(str, suspects((*having, night), began))),
            trend=_trend(watched, rule),
        )

    def _uncompared(self, cell: Measured) -> Iterator[Finding]:
        if cell.status != "OK" or self._is_compared(cell):
            return
        say = partial(Finding, about=cell.label)
        parts = checks.changed_parts(self._history, cell)
        if not checks.known(self._history, cell.label) and self._history.nights:
            yield say(kind="new", sentence="is measured for the first time")
        elif not any(watched.signal == main_signal(cell) for watched in self._watched(cell)):
            yield say(kind="not comparable", sentence=cell.reason or "has no baseline beside it")
        elif not eligible(cell, self._rule):
            yield say(kind="no baseline", sentence=sentences.ineligible(cell, self._rule))
        else:
            nights = max((len(self._good(watched)) for watched in self._watched(cell)), default=0)
            yield say(kind="no baseline", sentence=sentences.too_few(nights, parts, self._rule))

    def _is_compared(self, cell: Measured) -> bool:
        """Whether the speed was; tokens per step alone would hide that a pair is gone."""
        return main_signal(cell) in self._compared[cell.label]

    @cached_property
    def _compared(self) -> dict[str, set[Signal]]:
        """By label, the signals that have nights to be compared with, and were."""
        return {
            cell.label: {
                one.signal for one in self._watched(cell) if compared(one, self._rule) is not None
            }
            for cell in self._night.cells
        }

    def _is_lost(self, cell: Measured) -> bool:
        """Whether a cell of this name was a baseline before, and this one can use none."""
        if cell.status != "OK" or self._is_compared(cell) or not eligible(cell, self._rule):
            return False
        if checks.changed_parts(self._history, cell):
            return True
        of = partial(sample, signal=main_signal(cell))
        unpaired = not of(cell)
        return unpaired and bool(self._history.levels(cell.fingerprint, of, self._rule))

    def _good(self, watched: Watched) -> tuple[Level, ...]:
        return standard(watched.earlier, watched.decided, self._rule)


def _began(watched: Watched, move: Move, rule: NightRule) -> Step | None:
    """The step that a move began with, among the nights of the level it is compared with."""
    decided, level = watched.decided, since(watched.earlier, watched.decided)
    if decided is not None and decided.action == "pin":
        # Of the nights between an old pinned night and these, nobody knows any more.
        pinned = [one for one in watched.earlier if one.night == decided.night]
        after = (*level, watched.tonight)[0]
        level = (*(one for one in pinned if days((one, after))[-1] <= _NEIGHBOURS), *level)
    found, chain = move.deviation, (*level, watched.tonight)
    return beginning(chain, spread(watched, rule), found.ratio, found.nights)


def _trend(watched: Watched, rule: NightRule) -> Trend:
    chain = (*watched.earlier, watched.tonight._replace(good=False))[-_TREND_NIGHTS:]
    values = nightly(chain)
    compared_with = {one.night for one in standard(watched.earlier, watched.decided, rule)}
    good = [v for v, one in zip(values, chain, strict=True) if one.night in compared_with]
    return Trend(
        points=tuple(
            Point(date=one.at[:10], value=value, good=one.good)
            for one, value in zip(chain, values, strict=True)
        ),
        unit=UNITS[watched.signal],
        level=sum(good) / len(good) if good else None,
    )


def _one_off(key: str) -> bool:
    """What is said once and does not end: a first night, and a recommendation that changed."""
    return key.partition(":")[0] in ("new", "recommendation")


def _is_news(finding: Finding, before: Collection[str]) -> bool:
    # Its key does not say from what to what, and it is found only where people heard otherwise.
    return finding.kind == "recommendation" or finding.key not in before
