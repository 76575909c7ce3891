"""The answer of a sweep in words that a newcomer can act on: one headline and paragraph per table.

What the advice of single kinds of prompt adds is said only where the headline's setting is neither
their fastest nor within the noise of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pipeline.analysis.findings import Advice, Advised, Findings
from pipeline.analysis.wording import span
from pipeline.spec import Record

# Settings to avoid that a paragraph has room for; the rest stands with each kind of prompt.
MOST_AVOIDED = 3


class Answer(Record):
    """What to do with one model at one concurrency.

    Attributes:
        headline: `use mtp K=2`.
        text: how much faster, how sure, where something else is better, what to avoid and why.
        serve_command: starts what the headline says.
        kinds: the advice for each kind of prompt.
    """

    model: str
    concurrency: int
    headline: str
    text: str
    serve_command: str | None
    kinds: tuple[Advice, ...]


def answers(findings: Findings) -> tuple[Answer, ...]:
    """One answer per model and concurrency, in the order of the advice."""
    grouped = groupby(findings.advice, key=lambda one: (one.model, one.concurrency))
    return tuple(_answer(tuple(own)) for _, own in grouped)


def answer_markdown(findings: Findings) -> str:
    """The answers as paragraphs of Markdown."""
    found = answers(findings)
    several = len({(one.model, one.concurrency) for one in found}) > len({o.model for o in found})
    return "\n\n".join(f"**{title(one, several)}: {one.headline}.** {one.text}" for one in found)


def title(one: Answer, several: bool) -> str:
    """What an answer is about; the concurrency where there are several."""
    return f"{one.model}, {one.concurrency} at once" if several else one.model


def _answer(advice: Sequence[Advice]) -> Answer:
    kinds = tuple(one for one in advice if one.dataset is not None)
    lead = next((one for one in advice if one.dataset is None), kinds[0])
    return Answer(
        model=lead.model,
        concurrency=lead.concurrency,
        headline=_headline(lead, kinds),
        text=" ".join(sentence(part) for part in _parts(lead, kinds)),
        serve_command=lead.serve_command,
        kinds=kinds,
    )


def _headline(lead: Advice, kinds: Iterable[Advice]) -> str:
    if lead.use is not None:
        return f"use {lead.use.setting}"
    if lead.nearest is not None:
        return "keep plain decoding"
    if any(one.use for one in kinds):
        return "it depends on the kind of prompt"
    return "nothing can be said yet"


def _parts(lead: Advice, kinds: Sequence[Advice]) -> Iterator[str]:
    yield f"{_scope(lead, kinds)}{lead.sentence}"
    if lead.dataset is None:
        yield from _resting_on(lead, kinds)
        yield from _elsewhere(lead, kinds)
    avoided = list(_avoided(lead, kinds))
    if avoided:
        more = len(avoided) - MOST_AVOIDED
        rest = f"; {more} more below" if more > 0 else ""
        yield f"avoid {'; '.join(avoided[:MOST_AVOIDED])}{rest}"


def _scope(lead: Advice, kinds: Sequence[Advice]) -> str:
    if lead.use is None and lead.nearest is None:
        return ""
    return f"for {lead.dataset}, " if lead.dataset else f"over all {len(kinds)} kinds of prompt, "


def _resting_on(lead: Advice, kinds: Sequence[Advice]) -> Iterator[str]:
    """The few kinds of prompt that a setting advised for all of them owes its place to."""
    if lead.use is None:
        return
    own = [str(one.dataset) for one in kinds if _among_the_fastest(lead.use.setting, one)]
    if len(own) * 2 < len(kinds):
        where = f"for {listed(own)} only" if own else "for no kind by itself"
        yield f"it is the fastest, or within the noise of it, {where}"


def _elsewhere(lead: Advice, kinds: Iterable[Advice]) -> Iterator[str]:
    """Kinds of prompt for which something else was measurably better, by what that is."""
    chosen = lead.use.setting if lead.use else None
    others = [
        one for one in kinds if (one.use or one.nearest) and not _among_the_fastest(chosen, one)
    ]
    found = [
        f"for {one.dataset} use {one.use.setting}, {_ratio(one.use)} times as fast"
        for one in others
        if one.use
    ]
    plain = [str(one.dataset) for one in others if one.use is None]
    if plain and lead.use:
        found.append(f"for {listed(plain)} nothing was measurably faster than plain decoding")
    if found:
        yield "; ".join(found)


def _among_the_fastest(setting: str | None, one: Advice) -> bool:
    return any(good.setting == setting for good in _as_good(one))


def _as_good(one: Advice) -> Iterator[Advised]:
    if one.use is not None:
        yield one.use
        yield from one.tied


def _avoided(lead: Advice, kinds: Iterable[Advice]) -> Iterator[str]:
    """Settings that were slower over all kinds, then those that were slower for some."""
    everywhere = {one.setting for one in lead.avoid}
    for one in lead.avoid:
        yield f"{one.setting}, {_ratio(one)} times plain decoding{_because(one)}"
    if lead.dataset is not None:
        return
    pairs = [(str(kind.dataset), one) for kind in kinds for one in kind.avoid]
    settings = dict.fromkeys(one.setting for _, one in pairs if one.setting not in everywhere)
    for setting in settings:
        own = sorted(
            ((dataset, one) for dataset, one in pairs if one.setting == setting),
            key=lambda item: (
                item[1].comparison.estimate.ratio if item[1].comparison.estimate else 1
            ),
        )
        worst = own[0][1]
        where = listed([dataset for dataset, _ in own])
        least = "" if len(own) == 1 else "down to "
        yield f"{setting} for {where}, {least}{_ratio(worst)} times plain decoding{_because(worst)}"


def _because(one: Advised) -> str:
    return f" ({one.why})" if one.why else ""


def _ratio(one: Advised) -> str:
    assert one.comparison.estimate is not None, "only settings with an estimate are spoken of"
    return span(one.comparison.estimate)


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def sentence(text: str) -> str:
    """With a full stop, and a capital unless it begins with the name of a setting or a cell."""
    first, _, rest = text.partition(" ")
    named = rest.startswith("K=") or not first.strip(",:").isalpha()
    begun = text if named else text[:1].upper() + text[1:]
    return begun if begun.endswith(".") else f"{begun}."
