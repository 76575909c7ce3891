"""The `key=value` arguments of the small verbs (`python -m pipeline.ui port=5001`), as the main
command has them but without Hydra.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pipeline.errors import InputError, nearest


def helped(argv: Sequence[str], usage: str) -> bool:
    """Whether the usage was asked for; it is on standard output then."""
    asked = list(argv[:1]) == ["help"] or bool({"-h", "--help"} & set(argv))
    if asked:
        sys.stdout.write(f"{usage}\n")
    return asked


def options(
    argv: Sequence[str], known: Sequence[str], usage: str
) -> tuple[list[str], dict[str, str]]:
    """Split arguments into plain words and `key=value` options.

    Raises:
        InputError: a key is unknown, stands twice or has no value.
    """
    words: list[str] = []
    given: dict[str, str] = {}
    for argument in argv:
        key, equals, value = argument.partition("=")
        if not equals:
            words.append(argument)
            continue
        if key not in known:
            raise InputError(f"'{key}' is not an option{nearest(key, known)}", allowed=usage)
        if key in given or not value:
            raise InputError(f"'{key}' needs exactly one value", allowed=usage)
        given[key] = value
    return words, given
