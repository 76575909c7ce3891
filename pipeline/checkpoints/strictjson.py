"""JSON as strict as a header needs it: one meaning per name, UTF-8, bounded size."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from pipeline.checkpoints.errors import DamagedJsonError, reading, shown

MAX_JSON_BYTES = 100_000_000
_MAX_DEPTH = 64
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse(text: bytes) -> dict[str, object]:
    """One JSON object.

    Raises:
        ValueError: not UTF-8, not JSON, not an object, nested too deeply, or a name stands twice.
    """
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    if _SURROGATE.search(text):
        # A lone half of a pair is valid JSON and no text: it could be neither written nor printed.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def read(path: Path) -> tuple[bytes, dict[str, object]]:
    """The bytes of a JSON file and the object in it.

    Raises:
        UnreadableFileError: the file cannot be read.
        DamagedJsonError: it holds no JSON object, or more than 100 MB.
    """
    with reading(path), path.open("rb") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        raise DamagedJsonError(path, f"it is larger than {MAX_JSON_BYTES} bytes")
    try:
        value = parse(text)
        _refuse_deep(value, _MAX_DEPTH)
        return text, value
    except ValueError as error:
        raise DamagedJsonError(path, f"it is not valid JSON ({shown(str(error))})") from error


def is_count(value: object) -> bool:
    """A whole number of at least 0; JSON's true is not one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


def _refuse_deep(value: object, levels: int) -> None:
    """What is read here is written again, by code that recurses."""
    if levels == 0:
        raise ValueError("it is nested too deeply")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if isinstance(item, dict | list):
            _refuse_deep(item, levels - 1)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")
