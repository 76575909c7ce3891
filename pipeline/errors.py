"""The one family of errors a user can meet.

A message says what is wrong, where (file, key or cell), what is allowed, and what to do next. Each
subclass owns its sentence, so that the same mistake reads the same wherever it is made. The entry
points print `str(error)` and end with `error.exit_code`; they never show a traceback for these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

from pipeline.passwords import without_password

EXIT_OK = 0
EXIT_CRASH = 1
EXIT_BAD_CONFIG = 2
EXIT_CELLS_FAILED = 3
EXIT_REGRESSION = 4
EXIT_NO_INFRASTRUCTURE = 5


def nearest(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` for the closest known word, or an empty string where none is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean '{close[0]}'?" if close else ""


class PipelineError(Exception):
    """Base of every error that is reported as a sentence instead of a traceback.

    Sentences reach logs and other people's screens, so they name addresses without their logins.

    Args:
        problem: what is wrong, with the offending value.
        where: the file, key, cell or path the problem sits in.
        allowed: what would have been right.
        remedy: what to do next, preferably a command.
    """

    exit_code: ClassVar[int] = EXIT_CRASH

    def __init__(
        self, problem: str, *, where: str = "", allowed: str = "", remedy: str = ""
    ) -> None:
        texts = (without_password(text) for text in (problem, where, allowed, remedy))
        self.problem, self.where, self.allowed, self.remedy = texts
        parts = [f"{self.where}: {self.problem}" if where else self.problem]
        if allowed:
            parts.append(f"allowed: {self.allowed}")
        if remedy:
            parts.append(self.remedy)
        super().__init__("; ".join(parts))


class InputError(PipelineError):
    """A mistake in what the user gave; found before anything costly starts."""

    exit_code = EXIT_BAD_CONFIG


class InfrastructureError(PipelineError):
    """The machine, the cluster or a service is not able to do what was asked."""

    exit_code = EXIT_NO_INFRASTRUCTURE
