"""The scalar values that configuration is made of, with the bounds that hold everywhere."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

# Strict, so that `true` or "4" is not taken for a count.
PositiveInt = Annotated[int, Field(strict=True, gt=0)]
NonNegativeInt = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
PositiveNumber = Annotated[Number, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]


def _finite(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Not a number, in neither sense of the word: it would have no fingerprint."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError("a value is nan or infinite; allowed: finite numbers") from error
    return value


EngineArgs = Annotated[dict[str, JsonValue], AfterValidator(_finite)]


def _listed(value: object) -> object:
    """A single value where a list is meant is a list of one."""
    return [value] if isinstance(value, int | str) else value


Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[tuple[PositiveInt, ...], BeforeValidator(_listed), Field(min_length=1)]
