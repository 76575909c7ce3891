"""What pydantic finds wrong with a configuration, as sentences that do not name its types."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import InputError, nearest


class UnknownKeyError(InputError):
    """A key that no record has; names its nearest neighbour."""

    def __init__(self, path: str, key: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no key '{key}'{nearest(key, known)}",
            where=path,
            allowed=", ".join(sorted(known)),
        )


class MissingKeyError(InputError):
    """A key that has to be given and is not."""

    def __init__(self, path: str, key: str) -> None:
        super().__init__(f"the key '{key}' is missing", where=path, remedy=f"add {key}: …")


class BadValueError(InputError):
    """A value of the wrong kind or out of its range."""

    def __init__(self, path: str, value: object, allowed: str) -> None:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}…"
        super().__init__(f"the value is {shown}", where=path, allowed=allowed)


class InconsistentError(InputError):
    """Values that are fine one by one and do not fit together."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem, where=path)


class UnknownKindError(InputError):
    """A `kind` that no record has."""

    def __init__(self, path: str, kind: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no kind '{kind}'{nearest(kind, known)}",
            where=path,
            allowed=", ".join(known),
        )


A_MAPPING = "a mapping, {key: value}"
_A_LIST = "a list, [a, b]"
_WHOLE, _NUMBER, _TEXT, _SWITCH = "a whole number", "a number", "a text", "true or false"

_ALLOWED: Mapping[str, str] = {
    "bool_parsing": _SWITCH,
    "bool_type": _SWITCH,
    "dict_type": A_MAPPING,
    "finite_number": "a finite number",
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "invalid_key": "a text as the key",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "model_attributes_type": A_MAPPING,
    "model_type": A_MAPPING,
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} character",
    "string_type": _TEXT,
    "too_long": "at most {max_length} items",
    "too_short": "at least {min_length} items",
    "tuple_type": _A_LIST,
}
_PATTERNS: Mapping[str, str] = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "letters, digits, dots, dashes and underscores, no spaces",
    r"^\d+\.\d$": "a GPU generation such as 12.1, in quotes",
    r"^[0-9a-f]{40}$": "a full commit hash, 40 hexadecimal digits",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
}


def sentence(record: object, error: ValidationError, where: str) -> InputError:
    """The first thing that does not fit, told with the path of its key.

    Args:
        record: the type that was asked for.
        where: what the value is, such as `model mine`; empty for the whole configuration.
    """
    details = min(error.errors(), key=_rank)
    keys, records = _walk(record, details["loc"])
    parent, key = _join(where, keys[:-1]), str(keys[-1]) if keys else ""
    context = details.get("ctx", {})
    match details["type"]:
        case "extra_forbidden":
            return UnknownKeyError(parent, key, _fields(records))
        case "missing":
            return MissingKeyError(parent, key)
        case "union_tag_not_found" if isinstance(details["input"], Mapping):
            return MissingKeyError(_join(where, keys), "kind")
        case "value_error":
            return InconsistentError(_join(where, keys), str(context["error"]))
        case "union_tag_invalid":
            known = str(context["expected_tags"]).replace("'", "").split(", ")
            return UnknownKindError(_join(where, keys), str(context["tag"]), known)
    return BadValueError(_join(where, keys), details["input"], _allowed(details))


def _rank(details: ErrorDetails) -> tuple[bool, int, bool]:
    """What is told first: an unknown key, since a missing one beside it is usually its shadow.

    Then, of a union's branches, the one followed furthest, which is the one that was meant.
    """
    kind = details["type"]
    return kind != "extra_forbidden", -len(details["loc"]), kind == "tuple_type"


def _allowed(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    if details["type"] == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"a text of the form {context['pattern']}")
    if details["type"] in ("union_tag_not_found", "model_attributes_type"):
        return A_MAPPING
    if details["type"] == "too_long" and not context.get("max_length"):
        return "nothing, since plain decoding drafts no tokens"
    template = _ALLOWED.get(details["type"])
    if template is None:
        return details["msg"].removeprefix("Input should be ")
    for name, value in context.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        template = template.replace(f"{{{name}}}", shown)
    return template.replace("at least 1 items", "at least one item")


def _walk(
    record: object, loc: tuple[int | str, ...]
) -> tuple[list[int | str], list[type[BaseModel]]]:
    """The keys along a location, less the names of union branches, and its parent's records."""
    keys: list[int | str] = []
    here = parent = _records_in(record)
    for part in loc:
        tagged = [r for r in here if _has_tag(r, part)]
        if tagged:
            here = tagged
        elif not (isinstance(part, str) and "[" in part):
            keys.append(part)
            parent = here
            fields = [r.model_fields[part] for r in here if part in r.model_fields]
            here = [r for field in fields for r in _records_in(field.annotation)] or here
    return keys, parent


def _fields(records: Sequence[type[BaseModel]]) -> list[str]:
    return sorted({name for record in records for name in record.model_fields})


def _has_tag(record: type[BaseModel], part: int | str) -> bool:
    kind = record.model_fields.get("kind")
    return kind is not None and part in typing.get_args(kind.annotation)


def _records_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for arg in typing.get_args(annotation) for record in _records_in(arg)]


def _join(where: str, keys: Sequence[int | str]) -> str:
    dotted = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in keys).lstrip(".")
    if not where or not dotted:
        return where or dotted
    return f"{where}: {dotted}" if " " in where else f"{where}.{dotted}".replace(".[", "[")
