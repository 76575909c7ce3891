"""Every situation a night can be in, each by name: the nights before it, and the night itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobs.history import History
from jobs.judge import judge, judged
from jobs.night import LeftOut, Measured, Night
from jobs.suite import NightRule
from tests.factories import coordinates
from tests.jobs.nights import ENVIRONMENT, MTP, NGRAM, NONE, cell, night, quiet, usual

RULE = NightRule()
LONG = 14
K5 = coordinates("ngram", 5, "chat")
Situation = tuple[Sequence[Night], Night]


def _with(number: int, *instead: Measured) -> list[Measured]:
    """The usual cells of a night, some replaced."""
    by_label = {one.label: one for one in instead}
    return [by_label.get(one.label, one) for one in usual(number)]


def _slower(value: float = 1.12) -> Situation:
    again = [cell(NGRAM, value, seed=900 + i) for i in range(2)]
    return quiet(LONG), night(LONG, {"ngram": value}, again=again)


def _slower_by_luck() -> Situation:
    again = [cell(NGRAM, seed=900 + i) for i in range(2)]
    return quiet(LONG), night(LONG, {"ngram": 1.12}, again=again)


def _unconfirmed() -> Situation:
    """Slower, and no time left to measure it again."""
    return quiet(LONG), night(LONG, {"ngram": 1.12})


def _unpaired() -> Situation:
    """A machine that drifted too far while it was measured for a ratio to mean anything."""
    alone = cell(MTP, seed=LONG).model_copy(
        update={"reference": {}, "reason": "its baseline drifted by 7 % around it"}
    )
    return quiet(LONG), night(LONG, cells=_with(LONG, alone))


def _since_yesterday() -> Situation:
    """A first night that was too small to call, and a driver that came with it."""
    before = [*quiet(LONG), night(LONG, {"ngram": 1.168}, environment=_driver())]
    again = [cell(NGRAM, 1.163, seed=900 + i) for i in range(2)]
    return before, night(LONG + 1, {"ngram": 1.163}, again=again, environment=_driver())


def _still_slower() -> Situation:
    before, first = _slower()
    kept = judged(first, judge(History(before), first, RULE))
    again = [cell(NGRAM, 1.12, seed=950 + i) for i in range(2)]
    return [*before, kept], night(LONG + 1, {"ngram": 1.12}, again=again)


def _over() -> Situation:
    before, first = _slower()
    kept = judged(first, judge(History(before), first, RULE))
    return [*before, kept], night(LONG + 1)


def _machine_slower() -> Situation:
    """Everything at half speed, the ratios as ever: a machine that lost half its cores."""

    def cells(number: int, seed: int) -> list[Measured]:
        half = [cell(NONE, 20.0, seed=seed)]
        return half + [cell(at, seed=seed, machine=0.5) for at in (NGRAM, MTP)]

    again = [cells(LONG, 900 + i)[0] for i in range(2)]
    return quiet(LONG), night(LONG, cells=cells(LONG, LONG), again=again)


def _faster() -> Situation:
    again = [cell(MTP, 1.55, seed=900 + i) for i in range(2)]
    tonight = night(LONG, {"mtp": 1.55}, again=again, environment=_vllm())
    return quiet(LONG), tonight


def _drafter() -> Situation:
    """Random weights in the drafter's place: nothing is accepted."""
    idle = cell(
        MTP, status="NOOP_NO_ACCEPT", variant="random", reason="acceptance rate 0.01 is below 0.05"
    )
    return quiet(LONG), night(LONG, cells=_with(LONG, idle), again=[idle])


def _failed() -> Situation:
    dead = cell(MTP, status="FAILED", reason="EngineStartError: the engine ended with code 1")
    return quiet(LONG), night(LONG, cells=_with(LONG, dead), again=[dead])


def _failed_once() -> Situation:
    dead = cell(MTP, status="FAILED", reason="EngineStartError: the engine ended with code 1")
    return quiet(LONG), night(LONG, cells=_with(LONG, dead), again=[cell(MTP, seed=LONG)])


def _k_changed() -> Situation:
    cells = [one for one in usual(LONG) if one.at != NGRAM]
    new = cell(NGRAM, seed=LONG).model_copy(update={"at": K5, "fingerprint": "5" * 64})
    return quiet(LONG), night(LONG, cells=[*cells, new])


def _prompts_edited() -> Situation:
    cells = [_edited(one, "prompts") for one in usual(LONG)]
    return quiet(LONG), night(LONG, cells=cells)


def _checkpoint_edited() -> Situation:
    cells = [_edited(one, "checkpoint") for one in usual(LONG)]
    cells[0] = cells[0].model_copy(update={"outputs": cell(NONE, answers="other").outputs})
    return quiet(LONG), night(LONG, cells=cells)


def _edited(one: Measured, part: str) -> Measured:
    parts = {**one.parts, part: "e" * 64}
    return one.model_copy(update={"parts": parts, "fingerprint": f"e{one.fingerprint[1:]}"})


def _not_lossless() -> Situation:
    wrong = cell(MTP, seed=LONG).model_copy(update={"lossless": "not lossless"})
    return quiet(LONG), night(LONG, cells=_with(LONG, wrong), again=[wrong, wrong])


def _not_lossless_by_chance() -> Situation:
    """A rescoring that said so once, and did not when it was done again."""
    wrong = cell(MTP, seed=LONG).model_copy(update={"lossless": "not lossless"})
    return quiet(LONG), night(LONG, cells=_with(LONG, wrong), again=[cell(MTP, seed=901)])


def _one_start_failed() -> Situation:
    """One start of three that did not come up, and no time to find out whether it does."""
    dead = cell(MTP, status="FAILED", reason="EngineStartError: the engine ended with code 1")
    starts = [usual(LONG), _with(LONG + 1, dead), usual(LONG + 2)]
    return quiet(LONG), night(LONG, cells=starts[0], more=[*starts[1], *starts[2]])


def _fewer_starts() -> Situation:
    """Further starts that another sweep on the machine kept from being made."""
    reason = "start 2 of 3 of each engine: another sweep measures on this machine"
    tonight = night(LONG)
    less = tuple(LeftOut(at=at, reason=reason) for at in (NONE, NGRAM, MTP))
    return quiet(LONG), tonight.model_copy(update={"fewer_starts": less})


def _outputs() -> Situation:
    other = cell(NONE, 40.0, seed=LONG, answers="other")
    return quiet(LONG), night(LONG, cells=_with(LONG, other), environment=_vllm())


def _recommendation() -> Situation:
    again = [cell(NGRAM, 1.6, seed=900 + i) for i in range(2)]
    return quiet(LONG), night(LONG, {"ngram": 1.6}, again=again)


def _left_out() -> Situation:
    cells = [one for one in usual(LONG) if one.at != MTP]
    reason = "about 12 min, of which the budget had 3 min left"
    return quiet(LONG), night(LONG, cells=cells, left_out=[LeftOut(at=MTP, reason=reason)])


def _drift() -> Situation:
    """One percent a week for four weeks."""
    months = [night(n, {"ngram": 1.2 * 0.99 ** (n / 7)}) for n in range(28)]
    again = [cell(NGRAM, 1.2 * 0.96, seed=900 + i) for i in range(2)]
    return months, night(28, {"ngram": 1.2 * 0.96}, again=again)


def _vllm() -> dict[str, str]:
    return {**ENVIRONMENT, "vllm": "0.33.0"}


def _driver() -> dict[str, str]:
    return {**ENVIRONMENT, "driver": "590.12"}


SITUATIONS: dict[str, Callable[[], Situation]] = {
    "quiet": lambda: (quiet(LONG), night(LONG)),
    "first": lambda: ([], night(0)),
    "second": lambda: (quiet(1), night(1)),
    "slower": _slower,
    "slower_by_luck": _slower_by_luck,
    "unconfirmed": _unconfirmed,
    "unpaired": _unpaired,
    "slower_since_yesterday": _since_yesterday,
    "still_slower": _still_slower,
    "over": _over,
    "machine_slower": _machine_slower,
    "drift": _drift,
    "faster": _faster,
    "drafter_replaced": _drafter,
    "failed": _failed,
    "failed_once": _failed_once,
    "k_changed": _k_changed,
    "prompts_edited": _prompts_edited,
    "checkpoint_edited": _checkpoint_edited,
    "not_lossless": _not_lossless,
    "not_lossless_by_chance": _not_lossless_by_chance,
    "one_start_failed": _one_start_failed,
    "fewer_starts": _fewer_starts,
    "outputs_changed": _outputs,
    "recommendation": _recommendation,
    "left_out": _left_out,
    "new_engine": lambda: (quiet(LONG), night(LONG, environment=_vllm())),
}
