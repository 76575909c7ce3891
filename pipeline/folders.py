"""The folders that options are read from: ours, and those of `--config-dir`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.commandline import GROUPS
from pipeline.errors import InputError, nearest

# Inside the package where it was installed as a wheel, beside it in a checkout.
_PACKAGED = Path(__file__).parent / "conf"
CONF = (_PACKAGED if _PACKAGED.is_dir() else Path(__file__).parent.parent / "conf").resolve()


class UnknownOptionError(InputError):
    """A group has no option of that name, in our folder and in the user's."""

    def __init__(self, group: str, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no {group} called '{name}'{nearest(name, known)}",
            where=group,
            allowed=", ".join(known),
            remedy=f"or add {group}/{name}.yaml to a folder of your own and pass --config-dir",
        )


class ShadowedOptionError(InputError):
    """A user's file has the name of one of ours, which would be read in its place."""

    def __init__(self, path: Path, group: str) -> None:
        super().__init__(
            f"a {group} called '{path.stem}' exists already and would be read instead",
            where=str(path),
            remedy="give the file, and the name in it, another name",
        )


def options(group: str, folders: Sequence[Path]) -> list[str]:
    """The names of a group's options, ours and the user's."""
    return sorted({path.stem for f in (CONF, *folders) for path in (f / group).glob("*.yaml")})


def refuse_shadowed(folders: Sequence[Path]) -> None:
    """Raise for a user's option that would silently be ours instead."""
    for folder in folders:
        for group in GROUPS:
            for path in sorted((folder / group).glob("*.yaml")):
                if folder != CONF and (CONF / group / path.name).is_file():
                    raise ShadowedOptionError(path, group)


def undecodable(folders: Sequence[Path]) -> str:
    """The path of the first YAML file that is not UTF-8, or an empty string."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*.yaml"))):
        try:
            path.read_text(encoding="utf-8")
        except ValueError:
            return str(path)
    return ""
