"""Keeps the training text apart from the prompts that the drafters are measured with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

LENGTH = 8
"""Words in a row that two texts must not share."""
PROMPT_SETS = Path(__file__).parent.parent / "data" / "prompts"


def word_runs(text: str, length: int = LENGTH) -> Iterator[tuple[str, ...]]:
    """Every run of `length` words, lower case; a shorter text is one run of all its words."""
    words = re.findall(r"\w+", text.lower())
    if words and len(words) < length:
        yield tuple(words)
    for i in range(len(words) - length + 1):
        yield tuple(words[i : i + length])


def texts_by_kind(folder: Path = PROMPT_SETS) -> dict[str, list[str]]:
    """The user turns of every bundled prompt set, by the set's name."""
    return {
        path.stem: [
            str(json.loads(line)["prompt"])
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        for path in sorted(folder.glob("*.jsonl"))
    }


def bundled_texts(folder: Path = PROMPT_SETS) -> list[str]:
    """The user turns of all bundled prompt sets."""
    return [text for texts in texts_by_kind(folder).values() for text in texts]


class Overlap:
    """Tells whether a text shares a run of words with any of the forbidden ones."""

    def __init__(self, forbidden: Iterable[str], length: int = LENGTH) -> None:
        self._length = length
        self._runs = {run for text in forbidden for run in word_runs(text, length)}

    def shared(self, text: str) -> bool:
        """True where `text` must not be trained on."""
        return any(run in self._runs for run in word_runs(text, self._length))
