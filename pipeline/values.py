"""The base of records, and the scalars of configuration with the bounds that hold everywhere."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


class Record(BaseModel):
    """Base of every record: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


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


# What the model and the method say themselves; given twice, the engine would refuse to start.
_RESERVED_ARGS = frozenset(
    {
        *("model", "revision", "trust_remote_code", "disable_log_stats"),
        # vLLM's two ways to configure a drafter.
        *("speculative_config", "spec_method", "spec_model", "spec_tokens"),
    }
)
_RESERVED_DRAFTING = frozenset({"method", "model", "num_speculative_tokens"})
# By whole words, since names of settings have tokens and tokenizers in them.
_SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|CREDENTIALS?|API_?KEY)(_|$)|PASSWORD|PASSWD", re.IGNORECASE
)


def _refuse(reserved: frozenset[str], value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    taken = sorted(reserved & value.keys())
    if taken:
        raise ValueError(
            f"'{taken[0]}' is set by the model or the method; allowed: what is left to vLLM"
        )
    return value


def _no_synthetic(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """vLLM can pretend that drafts were accepted, which is for tests of vLLM itself."""
    for key, setting in value.items():
        if key.startswith("synthetic") or setting == "synthetic":
            raise ValueError(
                f"'{key}' makes acceptance up, so what comes out is no measurement;"
                " allowed: rejection_sample_method standard or block"
            )
    return value


def _no_secrets(value: dict[str, Any]) -> dict[str, Any]:
    """Configuration is recorded; the engine inherits the environment it is started from."""
    for key in value:
        if _SECRET.search(key):
            raise ValueError(
                f"'{key}' looks like a secret, which would be recorded; allowed: to set it in the"
                " environment of the command, which the engine inherits"
            )
    return value


EngineArgs = Annotated[
    dict[str, JsonValue],
    AfterValidator(_finite),
    AfterValidator(partial(_refuse, _RESERVED_ARGS)),
    AfterValidator(_no_secrets),
]
Drafting = Annotated[
    dict[str, JsonValue],
    AfterValidator(_finite),
    AfterValidator(partial(_refuse, _RESERVED_DRAFTING)),
    AfterValidator(_no_synthetic),
]
# vLLM's speculative configuration, complete.
Speculative = Annotated[dict[str, JsonValue], AfterValidator(_finite)]
Environment = Annotated[dict[str, str], AfterValidator(_no_secrets)]


def _listed(value: object) -> object:
    """A single value where a list is meant is a list of one."""
    return [value] if isinstance(value, int | str) else value


Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
Counts = Annotated[tuple[PositiveInt, ...], BeforeValidator(_listed), Field(min_length=1)]
