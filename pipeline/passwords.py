"""Addresses without the user and password that they may carry. Pure."""

from __future__ import annotations

import re

# Up to the last @ of a word: a password that should have been escaped may hold / and @ itself, and
# a path in which // became / is still one.
_LOGIN = re.compile(r"(\w:/{1,2})(?:[^\s@/:]*:\S*|[^\s@/]*)@")


def without_password(text: str) -> str:
    """A text with the user and password of every address in it left out."""
    return _LOGIN.sub(r"\1", text)
