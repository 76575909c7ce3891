"""What a command line may say: flags apart from overrides, and the rules that overrides follow.

Hydra alone would take the last of two sweeps, ignore an empty list and answer a misspelt flag with
its usage. Here each of these is one sentence. Overrides arrive parsed (`pipeline.config` asks Hydra
for that) and leave as the text that Hydra is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.errors import InputError, nearest

# A sweep crosses several options of these …
AXES = ("model", "method", "dataset")
# … and takes one of each of these, of which all but the sweep have a default.
SINGLE = ("sweep", "platform", "measure", "tracking")
GROUPS = (*AXES, *SINGLE)
_NEEDED = ("ray", "output_dir", "dry_run", "retry")

# Flags that Hydra answers by itself, and whether a value follows.
_SHOW = {
    **dict.fromkeys(("--help", "-h", "--hydra-help", "--version"), False),
    **dict.fromkeys(("--cfg", "-c", "--info", "-i"), True),
}
_WITH_SHOW = {"--resolve": False}
_CONFIG_DIR = ("--config-dir", "-cd")
_FLAGS = _SHOW | _WITH_SHOW | dict.fromkeys(_CONFIG_DIR, True)


class CommandLineError(InputError):
    """An argument that is not understood, or that contradicts another."""


class NotOneOptionError(InputError):
    """A group that takes the name of one option is given something else."""

    def __init__(self, group: str, given: str) -> None:
        plus = "+" if group == "sweep" else ""
        super().__init__(
            f"'{given}' does not choose one {group}",
            where=group,
            allowed=f"the name of one, {plus}{group}=NAME",
        )


class TwiceError(InputError):
    """The same thing is chosen in two places, and only one of them could be followed."""

    def __init__(self, what: str, first: str, second: str) -> None:
        super().__init__(
            f"it is chosen twice, by '{first}' and by '{second}'",
            where=what,
            remedy="leave one of them out",
        )


def readable(text: str) -> str:
    """An argument in one line; of an address, which may hold a password, the key alone."""
    key, equals, value = text.partition("=")
    return f"{key}{equals}…" if "://" in value else " ".join(text.split())


@dataclass(frozen=True)
class Override:
    """One `key=value` as Hydra's grammar reads it; `sweeps` marks `a,b` and `range(…)`."""

    text: str
    prefix: Literal["", "+", "++", "~"]
    key: str
    value: object
    package: str | None
    sweeps: bool

    @property
    def said(self) -> str:
        """The text as errors repeat it."""
        return readable(self.text)

    @property
    def names(self) -> list[object]:
        """The options an axis is narrowed to."""
        return list(self.value) if isinstance(self.value, list) else [self.value]


@dataclass(frozen=True)
class Arguments:
    """A command line taken apart: `show` flags make Hydra answer instead of a sweep running."""

    overrides: tuple[str, ...]
    show: tuple[str, ...]
    folders: tuple[Path, ...]


def split(argv: Sequence[str]) -> Arguments:
    """Take flags and their values out of a command line, in whatever order they stand."""
    overrides: list[str] = []
    show: list[str] = []
    folders: list[Path] = []
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-"):
            overrides.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        takes_value = _checked(flag)
        if takes_value and not equals:
            value = _following(flag, rest)
        if flag in _CONFIG_DIR:
            folders.append(_folder(value))
        else:
            show.append(f"{flag}={value}" if value and flag.startswith("--") else flag)
            show.extend([value] if value and not flag.startswith("--") else [])
    if show and not any(f.partition("=")[0] in _SHOW for f in show):
        raise CommandLineError(f"'{show[0]}' is only for --cfg", remedy="add --cfg=job")
    return Arguments(tuple(overrides), tuple(show), tuple(folders))


def _checked(flag: str) -> bool:
    if flag in ("-m", "--multirun"):
        raise CommandLineError(
            f"{flag} is not used here", remedy="give an axis a list: sweep.axes.method=[none,mtp]"
        )
    if flag not in _FLAGS:
        known = [f for f in _FLAGS if f.startswith("--")]
        raise CommandLineError(
            f"there is no flag '{flag}'{nearest(flag, known)}", allowed=", ".join(known)
        )
    return _FLAGS[flag]


def _following(flag: str, rest: list[str]) -> str:
    if rest and not rest[0].startswith("-") and "=" not in rest[0]:
        return rest.pop(0)
    if flag in ("--info", "-i"):
        return "all"
    raise CommandLineError(f"{flag} needs a value", remedy=f"write {flag} VALUE")


def _folder(value: str) -> Path:
    path = Path(value).expanduser().resolve()
    if not path.is_dir():
        raise CommandLineError(
            f"there is no folder '{value}'",
            where="--config-dir",
            allowed="a folder that holds model/, method/, dataset/ or another group",
        )
    return path


def check(overrides: Sequence[Override]) -> None:
    """Refuse what Hydra would take and what would then not mean what it says."""
    seen: dict[str, Override] = {}
    for override in overrides:
        _check_form(override)
        if override.key in GROUPS:
            _check_choice(override)
            if override.key in seen:
                raise TwiceError(override.key, seen[override.key].said, override.said)
            seen[override.key] = override
    for override in overrides:
        group, _, rest = override.key.partition(".")
        axis = override.key.removeprefix("sweep.axes.")
        if axis in seen and axis != override.key:
            raise TwiceError(f"axis {axis}", seen[axis].said, override.said)
        if group in AXES and rest:
            _check_one_is_chosen(override.key, group, seen.get(group))


def quoted(text: str) -> str:
    """A text as Hydra's grammar takes it literally."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_form(override: Override) -> None:
    if not override.key:
        raise CommandLineError(f"'{override.said}' sets nothing", allowed="key=value")
    if override.key.split(".")[0].split("/")[0] == "hydra":
        raise CommandLineError(
            f"'{override.said}' would change nothing, since Hydra runs nothing here",
            remedy="leave it out; sweeps are set by the keys that --cfg=job prints",
        )
    if override.package is not None:
        raise CommandLineError(
            f"'{override.said}' places an option elsewhere", allowed=f"{override.key}=NAME"
        )
    if override.sweeps:
        raise CommandLineError(
            f"'{override.said}' gives several values without brackets",
            remedy=f"write a list: {override.key}=[a,b]",
        )
    if override.prefix == "~" and "=" in override.text:
        raise CommandLineError(
            f"'{override.said}' takes a key away and gives it a value",
            remedy=f"write ~{override.key}",
        )
    if override.prefix == "~" and override.key in (*GROUPS, *_NEEDED):
        raise CommandLineError(
            f"'{override.said}' takes away what a sweep needs",
            remedy=f"leave it out, or choose another {override.key}",
        )


def _check_choice(override: Override) -> None:
    group, wanted = override.key, "+" if override.key == "sweep" else ""
    names = override.names if group in AXES else [override.value]
    if not names:
        raise CommandLineError("the list is empty", where=group, allowed="at least one name")
    for name in names:
        if not isinstance(name, str) or not name:
            if group in AXES:
                raise CommandLineError(
                    f"'{override.said}' does not name a {group}",
                    where=group,
                    allowed=f"{group}=NAME or {group}=[NAME,NAME]",
                )
            raise NotOneOptionError(group, override.said)
        if "://" in name:
            raise CommandLineError(
                "an address is no option's name",
                where=group,
                remedy="write tracking.uri=ADDRESS" if group == "tracking" else "",
            )
    if override.prefix != wanted:
        verb = "added, not replaced" if wanted else "replaced, not added"
        raise CommandLineError(
            f"a {group} is {verb}",
            where=override.said,
            remedy=f"write {wanted}{override.said.lstrip('+')}",
        )


def _check_one_is_chosen(key: str, group: str, choice: Override | None) -> None:
    if choice is None:
        raise CommandLineError(
            f"{group} options can be changed only when one is chosen",
            where=key,
            remedy=f"add {group}=NAME to the command",
        )
    if len(choice.names) > 1:
        raise CommandLineError(
            f"it is set while {len(choice.names)} options are chosen",
            where=key,
            remedy=f"choose one with {group}=NAME, or put files of your own in a --config-dir",
        )


def as_hydra_takes_it(override: Override) -> list[str]:
    """The text for Hydra; nothing for an axis of several options, which are composed one by one.

    A value is forced in, so that a key which a file leaves at its default can be set, and a key
    that no record has is told by the parser of records, which knows them all.
    """
    if override.key in AXES:
        names = override.names
        return [f"{override.key}={quoted(str(names[0]))}"] if len(names) == 1 else []
    if override.key in GROUPS or override.prefix == "~":
        return [override.text]
    forced = f"++{override.text.lstrip('+')}"
    if override.key == "sweep.axes.k":
        # K is a list or a mapping, and neither can be laid over the other.
        return ["++sweep.axes.k=null", forced]
    return [forced]


def narrowed(sweep: object, overrides: Sequence[Override]) -> object:
    """A sweep section whose axes are replaced by `method=ngram` or `method=[none,ngram]`.

    A list of K for a method that was narrowed away goes with it; one for a method that the sweep
    never held stays, to be found as a mistake.
    """
    axes = sweep.get("axes") if isinstance(sweep, dict) else None
    if not isinstance(sweep, dict) or not isinstance(axes, dict):
        return sweep
    given = {o.key: o.names for o in overrides if o.key in AXES}
    narrow = {**axes, **given}
    k, before, after = axes.get("k"), axes.get("method"), given.get("method")
    typed = any(o.key.startswith("sweep.axes.k") for o in overrides)
    if after and not typed and isinstance(k, dict) and isinstance(before, list):
        gone = [name for name in before if name not in after]
        narrow["k"] = {name: values for name, values in k.items() if name not in gone} or None
    return {**sweep, "axes": narrow}
