"""A verdict as a message: a title, sections of lines, and Markdown. Pure.

What changed around the cells comes first, since it explains most of what follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from jobs.ended import key_parts
from jobs.findings import Finding, Kind, NightVerdict
from jobs.suite import Suite
from pipeline.errors import EXIT_CELLS_FAILED, EXIT_NO_INFRASTRUCTURE, EXIT_REGRESSION
from pipeline.results import counted
from pipeline.spec import Record

_SECTIONS: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("Regressions", ("worse", "drift")),
    ("Answers changed", ("not lossless", "outputs")),
    ("Cells that measured nothing", ("noop", "suspect", "failed", "missing")),
    ("Recommendation changed", ("recommendation",)),
    ("Improvements", ("better",)),
    ("Not confirmed", ("unconfirmed",)),
    ("Not compared", ("no baseline", "not comparable", "new")),
)
_NOUNS: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("regression", ("worse", "drift")),
    ("changed answer", ("not lossless", "outputs")),
    ("idle drafter", ("noop",)),
    ("doubtful cell", ("suspect",)),
    ("failed cell", ("failed",)),
    ("missing cell", ("missing",)),
    ("changed recommendation", ("recommendation",)),
    ("improvement", ("better",)),
    ("unconfirmed change", ("unconfirmed",)),
)
# Cells beyond this number that share a sentence share a line.
_MANY = 3


class Line(Record):
    """One thing said: of what, and what; `news` marks what the night before did not say."""

    about: str
    text: str
    news: bool = True

    @property
    def said(self) -> str:
        """The text, marked where it is none."""
        return self.text if self.news else f"{self.text} (as the night before)"


class Section(Record):
    """Lines under a heading."""

    heading: str
    lines: tuple[Line, ...]


class Message(Record):
    """What people are told about a night, and what its command ends with."""

    title: str
    exit_code: int
    sections: tuple[Section, ...] = ()
    footer: tuple[str, ...] = ()


def compose(suite: Suite, verdict: NightVerdict, further: Sequence[str] = ()) -> Message:
    """The message of a night, whole; who is told and how is the channels' matter.

    Args:
        further: arguments of the night by which its suite and its store are found, and which the
            command to copy needs too.
    """
    sections = [Section(heading="Changed since the night before", lines=_changes(verdict))]
    for heading, kinds in _SECTIONS:
        lines = tuple(_lines(verdict.of(*kinds)))
        sections.append(Section(heading=heading, lines=lines))
    over = tuple(
        Line(about=_about(key), text=f"{_what(key)} the night before") for key in verdict.resolved
    )
    sections.append(Section(heading="Over", lines=over))
    left = tuple(Line(about=one.label, text=one.reason) for one in verdict.left_out)
    sections.append(Section(heading="Left out for the budget", lines=left))
    sections.append(Section(heading="Measured by fewer starts", lines=tuple(_fewer(verdict))))
    return Message(
        title=title(verdict),
        exit_code=verdict.exit_code,
        sections=tuple(section for section in sections if section.lines),
        footer=tuple(_footer(suite, verdict, further)),
    )


def title(verdict: NightVerdict) -> str:
    """The night in one line."""
    return f"{verdict.suite} {verdict.date}: {', '.join(_counts(verdict)) or _quiet(verdict)}"


def markdown(message: Message) -> str:
    """The message as Markdown."""
    parts = [f"# {message.title}"]
    for section in message.sections:
        lines = [f"- **{one.about}**: {one.said}" for one in section.lines]
        parts += [f"## {section.heading}", "\n".join(lines)]
    parts += ["\n".join(message.footer)]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(message: Message) -> str:
    """The message as text for a terminal or the text half of a mail."""
    parts = [message.title]
    for section in message.sections:
        lines = [f"  {one.about}: {one.said}" for one in section.lines]
        parts.append("\n".join([f"{section.heading}:", *lines]))
    return "\n\n".join([*parts, "\n".join(message.footer).replace("`", "")]) + "\n"


def _changes(verdict: NightVerdict) -> tuple[Line, ...]:
    return tuple(
        Line(about=one.what, text=f"{one.before} -> {one.after}") for one in verdict.changes
    )


def _fewer(verdict: NightVerdict) -> Iterator[Line]:
    """The cells that say less than in other nights, of which fewer starts make the level."""
    new = verdict.newly_fewer
    return _shared((one.label, one.reason, one.label in new) for one in verdict.fewer_starts)


def _lines(findings: Sequence[Finding]) -> Iterator[Line]:
    return _shared((finding.about, _text(finding), finding.news) for finding in findings)


def _shared(said: Iterable[tuple[str, str, bool]]) -> Iterator[Line]:
    """A line for each (about, text, news); cells about which the same is said share one."""
    same: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for about, text, news in said:
        same[text, news].append(about)
    for (text, news), every in same.items():
        if len(every) > _MANY:
            yield Line(about=f"{len(every)} cells", text=f"{text}: {', '.join(every)}", news=news)
        else:
            yield from (Line(about=one, text=text, news=news) for one in every)


def _text(finding: Finding) -> str:
    text = finding.sentence
    if finding.kind == "unconfirmed":
        text += "; there was no time, or no way, to measure it again"
    if finding.since is not None:
        text += f". Since {finding.since}"
        if finding.suspects:
            text += f", when this changed: {', '.join(finding.suspects)}"
    return text


def _counts(verdict: NightVerdict) -> Iterator[str]:
    for noun, kinds in _NOUNS:
        if count := len(verdict.of(*kinds)):
            yield counted(count, noun)
    if verdict.lost:
        yield f"{len(verdict.lost)} without a baseline"


def _quiet(verdict: NightVerdict) -> str:
    if not verdict.compared:
        return f"{counted(len(verdict.cells), 'cell')}, none with a baseline yet"
    text = f"nothing changed in {counted(len(verdict.compared), 'cell')}"
    if verdict.changes:
        names = [one.what for one in verdict.changes]
        more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
        text += f", but around them {', '.join(names[:_MANY])}{more}"
    text += f"; {len(verdict.left_out)} left out" if verdict.left_out else ""
    fewer = len(verdict.fewer_starts)
    return text + (f"; {fewer} measured by fewer starts" if fewer else "")


def _footer(suite: Suite, verdict: NightVerdict, further: Sequence[str]) -> Iterator[str]:
    again = len(verdict.measured_again)
    yield (
        f"{counted(len(verdict.cells), 'cell')} measured, {len(verdict.compared)} compared,"
        f" {again} measured again; {verdict.node_class}; night {verdict.night}."
    )
    code = verdict.exit_code
    if code in (EXIT_REGRESSION, EXIT_CELLS_FAILED, EXIT_NO_INFRASTRUCTURE):
        yield f"Exit code {code}."
    another = verdict.lost and verdict.of("no baseline")
    if another or verdict.of("better", "worse", "drift", "outputs", "missing"):
        own = "".join(f" {quote(word)}" for word in further)
        yield (
            "To accept this as the new level: `python -m jobs.baseline accept"
            f" suite={suite.name} night={verdict.night} reason=WHY{own}`"
        )


def _about(key: str) -> str:
    return key_parts(key)[2]


def _what(key: str) -> str:
    kind, signal, _ = key_parts(key)
    return f"{kind} ({signal})" if signal else kind
