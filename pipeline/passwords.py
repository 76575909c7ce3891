"""Addresses without the user and password that they may carry. Pure."""

from __future__ import annotations

import re

# Up to the last @ of a word: a password that should have been escaped may hold / and @ itself, and
# a path in which // became / is still one.
_LOGIN = re.compile(r"(\w:/{1,2})(?:[^\s@/:]*:\S*|[^\s@/]*)@")
# As parameters of a database's driver.
_PARAMETER = re.compile(r"([?&](?:user|\w*password|passwd)=)[^&\s]+", re.IGNORECASE)


def without_password(text: str) -> str:
    """A text with the user and password of every address in it left out."""
    return _PARAMETER.sub(r"\1", _LOGIN.sub(r"\1", text))
