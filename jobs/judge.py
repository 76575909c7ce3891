"""The verdict on a night: what to measure again, and what to say once that is done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from jobs import checks, sentences
from jobs.changes import environment_changes, steps, suspects
from jobs.findings import NO_BASELINE_AFTER, Finding, NightVerdict, Point, Trend
from jobs.history import History, eligible, level, standard
from jobs.levels import Level, Spread, nightly
from jobs.moves import Move, Watched, called, compared, spread, suspected
from jobs.night import Measured, Night
from jobs.recommend import recommend
from jobs.signals import SIGNALS, UNITS, Signal, sample
from jobs.suite import NightRule

# Nights that a trend shows.
_TREND_NIGHTS = 60


def to_measure_again(history: History, night: Night, rule: NightRule) -> tuple[str, ...]:
    """Fingerprints of the cells that look moved, or are not OK though they were."""
    judge = _Judge(history.before(night), night, rule)
    return tuple(cell.fingerprint for cell in night.cells if judge.doubts(cell))


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
            "found": tuple(finding.key for finding in verdict.findings),
        }
    )


class _Judge:
    def __init__(self, history: History, night: Night, rule: NightRule) -> None:
        self._history, self._night, self._rule = history, night, rule
        self._spreads: Mapping[Signal, Spread] = {s: history.spread(s, rule) for s in SIGNALS}

    def doubts(self, cell: Measured) -> bool:
        """Whether a cell has to be measured again before anything is said of it."""
        if cell.status != "OK":
            last = self._history.last
            return last is not None and any(
                before.label == cell.label and before.status == "OK" for before in last.cells
            )
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
        before = history.last.found if history.last is not None else ()
        keys = {finding.key for finding in found}
        return NightVerdict(
            suite=night.suite,
            night=night.id,
            at=night.at,
            node_class=night.node_class,
            changes=environment_changes(history.last, night) if history.last is not None else (),
            findings=tuple(f.model_copy(update={"news": f.key not in before}) for f in found),
            resolved=tuple(key for key in before if key not in keys and not _one_off(key)),
            left_out=night.left_out,
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
            move = called(watched, self._rule)
            if move is not None:
                yield self._told(cell, watched, move)

    def _told(self, cell: Measured, watched: Watched, move: Move) -> Finding:
        history, night, rule = self._history, self._night, self._rule
        chain = (*watched.earlier, watched.tonight)
        stepped = steps(chain, spread(watched, rule)) if move.kind == "step" else ()
        began = stepped[-1].night if stepped else night.id
        return Finding(
            kind="drift" if move.kind == "drift" and move.way == "worse" else move.way,
            about=cell.label,
            sentence=sentences.moved(
                watched, move, rule, *sentences.sides(history, night, cell, rule)
            ),
            signal=watched.signal,
            deviation=move.deviation,
            since=None if move.kind == "drift" else stepped[-1].date if stepped else night.date,
            suspects=tuple(map(str, suspects((*history.nights, night), began))),
            trend=_trend(watched, rule),
        )

    def _uncompared(self, cell: Measured) -> Iterator[Finding]:
        if cell.status != "OK" or self._is_compared(cell):
            return
        say = partial(Finding, about=cell.label)
        parts = checks.changed_parts(self._history, cell)
        if not checks.known(self._history, cell.label) and self._history.nights:
            yield say(kind="new", sentence="is measured for the first time")
        elif not any(self._watched(cell)):
            yield say(kind="not comparable", sentence=cell.reason or "has no baseline beside it")
        elif not eligible(cell, self._rule):
            yield say(kind="no baseline", sentence=sentences.ineligible(cell, self._rule))
        else:
            nights = max((len(self._good(watched)) for watched in self._watched(cell)), default=0)
            yield say(kind="no baseline", sentence=sentences.too_few(nights, parts, self._rule))

    def _is_compared(self, cell: Measured) -> bool:
        return any(compared(watched, self._rule) for watched in self._watched(cell))

    def _is_lost(self, cell: Measured) -> bool:
        """Whether a cell of this name was a baseline before, and this one can use none."""
        if cell.status != "OK" or self._is_compared(cell) or not eligible(cell, self._rule):
            return False
        return bool(checks.changed_parts(self._history, cell))

    def _good(self, watched: Watched) -> tuple[Level, ...]:
        return standard(watched.earlier, watched.decided, self._rule)


def _trend(watched: Watched, rule: NightRule) -> Trend:
    chain = (*watched.earlier, watched.tonight._replace(good=False))[-_TREND_NIGHTS:]
    values = nightly(chain)
    good = [v for v, one in zip(values, chain, strict=True) if one.good][-rule.nights :]
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
