"""Plain composed configuration to frozen records, with sentences for what does not fit."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import InputError, nearest
from pipeline.spec import (
    Axes,
    DatasetSpec,
    MeasureSpec,
    MethodSpec,
    ModelSpec,
    Name,
    PlatformSpec,
    RayTarget,
    Record,
    SweepConfig,
    TrackingSpec,
)

T = TypeVar("T")
Section = Mapping[str, Any]


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


class _SweepSection(Record):
    name: Name
    question: str = ""
    axes: Axes


class _Root(Record):
    """The composed configuration, less the options that are composed one by one."""

    sweep: _SweepSection
    platform: PlatformSpec
    measure: MeasureSpec
    tracking: TrackingSpec
    ray: RayTarget
    output_dir: str
    dry_run: bool


def parse_sweep(
    root: Section,
    models: Sequence[Section],
    methods: Sequence[Section],
    datasets: Sequence[Section],
) -> SweepConfig:
    """The complete record of a sweep.

    Raises:
        UnknownKeyError, MissingKeyError, BadValueError: the first thing that does not fit, with
            the path of its key.
    """
    parsed = _parse(TypeAdapter(_Root), root, "")
    return SweepConfig(
        name=parsed.sweep.name,
        question=parsed.sweep.question,
        axes=parsed.sweep.axes,
        models=tuple(_parse_option(TypeAdapter(ModelSpec), m, "model") for m in models),
        methods=tuple(_parse_option(_METHOD, m, "method") for m in methods),
        datasets=tuple(_parse_option(TypeAdapter(DatasetSpec), d, "dataset") for d in datasets),
        platform=parsed.platform,
        measure=parsed.measure,
        tracking=parsed.tracking,
        ray=parsed.ray,
        output_dir=parsed.output_dir,
        dry_run=parsed.dry_run,
    )


_METHOD: TypeAdapter[MethodSpec] = TypeAdapter(MethodSpec)


def parse_axes(section: Section) -> Axes:
    """The axes alone, which say what options have to be composed."""
    return _parse(TypeAdapter(Axes), section, "sweep.axes")


def _parse_option(adapter: TypeAdapter[T], section: Section, group: str) -> T:
    return _parse(adapter, section, f"{group} {section.get('name', '?')}")


def _parse(adapter: TypeAdapter[T], section: Section, where: str) -> T:
    try:
        return adapter.validate_python(section)
    except ValidationError as error:
        raise _sentence(adapter, error, where) from error


def _sentence(adapter: TypeAdapter[Any], error: ValidationError, where: str) -> InputError:
    # An unknown key is usually the cause of a missing one beside it, so it is told first.
    details = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    loc = details["loc"]
    keys = [str(part) for part in _without_tags(loc)]
    parent, key = _join(where, keys[:-1]), keys[-1] if keys else ""
    if details["type"] == "extra_forbidden":
        return UnknownKeyError(parent, key, _fields_at(adapter, loc[:-1]))
    if details["type"] == "missing":
        return MissingKeyError(parent, key)
    path = _join(where, keys)
    if details["type"] == "value_error":
        return InconsistentError(path, str(details["ctx"]["error"]))
    if details["type"] == "union_tag_invalid":
        tags = details["ctx"]["expected_tags"].replace("'", "").split(", ")
        return UnknownKindError(path, str(details["ctx"]["tag"]), tags)
    return BadValueError(path, details["input"], _allowed(details))


_PLAINER = {
    "too_short": "at least one item",
    "tuple_type": "a list, [a, b]",
    "dict_type": "a mapping, {key: value}",
    "model_type": "a mapping, {key: value}",
    "model_attributes_type": "a mapping, {key: value}",
    "string_pattern_mismatch": "a text of the form {pattern}",
}


def _allowed(details: ErrorDetails) -> str:
    """What pydantic expects, in words that do not name its own types."""
    plainer = _PLAINER.get(details["type"])
    if plainer is not None:
        return plainer.replace("{pattern}", str(details.get("ctx", {}).get("pattern", "")))
    return details["msg"].removeprefix("Input should be ").removeprefix("String should ")


_TAGS = {"none", "ngram", "mtp", "eagle3", "dflash", "draft_model", "bundled", "path", "hub"}


def _without_tags(loc: tuple[int | str, ...]) -> list[int | str]:
    """A location less the parts that name a branch of a union instead of a key."""
    return [
        part
        for index, part in enumerate(loc)
        if not (isinstance(part, str) and ("[" in part or (part in _TAGS and index < len(loc) - 1)))
    ]


def _fields_at(adapter: TypeAdapter[Any], loc: tuple[int | str, ...]) -> list[str]:
    """The field names of the record that a location leads to."""
    choices = _records_in(adapter._type)
    for part in loc:
        tagged = [c for c in choices if _has_tag(c, part)]
        if tagged:
            choices = tagged
            continue
        nested = [c.model_fields[part] for c in choices if part in c.model_fields]
        choices = [r for field in nested for r in _records_in(field.annotation)] or choices
    return sorted({name for choice in choices for name in choice.model_fields})


def _has_tag(record: type[BaseModel], part: int | str) -> bool:
    kind = record.model_fields.get("kind")
    return kind is not None and part in typing.get_args(kind.annotation)


def _records_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for arg in typing.get_args(annotation) for record in _records_in(arg)]


def _join(where: str, keys: Sequence[str]) -> str:
    dotted = ".".join(keys)
    if not where or not dotted:
        return where or dotted
    return f"{where}: {dotted}" if " " in where else f"{where}.{dotted}"


def unknown_key_in(container: JsonValue, dotted: str) -> UnknownKeyError | None:
    """The error for the first part of a dotted key that a composed configuration lacks."""
    seen: list[str] = []
    for part in dotted.split("."):
        if not isinstance(container, dict):
            return None
        if part not in container:
            return UnknownKeyError(".".join(seen), part, [str(key) for key in container])
        seen.append(part)
        container = container[part]
    return None
