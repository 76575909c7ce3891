"""Plain composed configuration to frozen records; `pipeline.mistakes` tells what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from pipeline.errors import InputError
from pipeline.methods import BASELINE
from pipeline.mistakes import (
    A_MAPPING,
    BadValueError,
    MissingKeyError,
    UnknownKeyError,
    sentence,
)
from pipeline.spec import (
    Axes,
    DatasetSpec,
    MeasureSpec,
    MethodSpec,
    ModelSpec,
    PlatformSpec,
    RayTarget,
    Record,
    Search,
    SweepConfig,
    TrackingSpec,
)
from pipeline.values import Name

T = TypeVar("T")
Section = Mapping[str, Any]

_METHOD: TypeAdapter[MethodSpec] = TypeAdapter(MethodSpec)


class NoBaselineError(InputError):
    """A search over K without what its predictions are relative to."""

    def __init__(self, methods: tuple[str, ...]) -> None:
        super().__init__(
            f"search choose_k compares step times with plain decoding's, which is not among"
            f" {', '.join(methods)}",
            where="sweep.axes.method",
            remedy=f"add none to it: method=[none,{','.join(methods)}]",
        )


class SearchLoadError(InputError):
    """A search over K at several loads, each of which may want another K."""

    def __init__(self, concurrency: tuple[int, ...]) -> None:
        super().__init__(
            "search choose_k finds the K for one number of requests at once, and"
            f" {', '.join(map(str, concurrency))} are given",
            where="sweep.axes.concurrency",
            remedy="give one, and start a sweep for each: sweep.axes.concurrency=[1] sweep.name=…",
        )


class OptionNameError(InputError):
    """A file whose `name` is not what the axis calls it; results would go by either."""

    def __init__(self, group: str, option: str, name: object) -> None:
        super().__init__(
            f"its name is {name!r}",
            where=f"{group} {option}",
            allowed=f"{option}, the name of its file",
        )


class _SweepSection(Record):
    name: Name
    question: str = ""
    search: Search = "grid"
    axes: Axes


class _Root(Record):
    """The composed configuration, less the options that are composed one by one."""

    sweep: _SweepSection
    platform: PlatformSpec
    measure: MeasureSpec
    tracking: TrackingSpec
    ray: RayTarget
    output_dir: str = Field(min_length=1)
    dry_run: bool
    retry: Literal["failed", "none"]


def parse_axes(sweep: object) -> Axes:
    """The axes of a sweep section, which say what options are to be composed."""
    if not isinstance(sweep, Mapping):
        raise BadValueError("sweep", sweep, A_MAPPING)
    if "axes" not in sweep:
        known = list(_SweepSection.model_fields)
        unknown = [str(key) for key in sweep if key not in known]
        raise (
            UnknownKeyError("sweep", unknown[0], known)
            if unknown
            else MissingKeyError("sweep", "axes")
        )
    return _parse(TypeAdapter(Axes), sweep["axes"], "sweep.axes")


def parse_sweep(
    root: Section, axes: Axes, sections: Mapping[str, Mapping[str, Any]]
) -> SweepConfig:
    """The complete record of a sweep.

    Args:
        root: the composed configuration, less the options of the axes.
        axes: the grid, narrowed.
        sections: for `model`, `method` and `dataset`, each option on the axis by its name.

    Raises:
        UnknownKeyError, MissingKeyError, BadValueError: the first thing that does not fit, with
            the path of its key.
        NoBaselineError: a search without plain decoding.
        SearchLoadError: a search at several concurrencies.
    """
    known = [*_Root.model_fields, *sections]
    for key in root:
        if key not in known:
            raise UnknownKeyError("", key, known)
    parsed = _parse(TypeAdapter(_Root), {**root, "sweep": {**root["sweep"], "axes": axes}}, "")
    methods = _parse_options(_METHOD, sections, "method")
    if parsed.sweep.search == "choose_k" and all(one.kind != BASELINE for one in methods):
        raise NoBaselineError(tuple(one.name for one in methods))
    if parsed.sweep.search == "choose_k" and len(axes.concurrency) > 1:
        raise SearchLoadError(axes.concurrency)
    return SweepConfig(
        name=parsed.sweep.name,
        question=parsed.sweep.question,
        search=parsed.sweep.search,
        axes=axes,
        models=_parse_options(TypeAdapter(ModelSpec), sections, "model"),
        methods=methods,
        datasets=_parse_options(TypeAdapter(DatasetSpec), sections, "dataset"),
        platform=parsed.platform,
        measure=parsed.measure,
        tracking=parsed.tracking,
        ray=parsed.ray,
        output_dir=parsed.output_dir,
        dry_run=parsed.dry_run,
        retry=parsed.retry,
    )


def _parse_options(
    adapter: TypeAdapter[T], sections: Mapping[str, Mapping[str, Any]], group: str
) -> tuple[T, ...]:
    return tuple(
        _parse_option(adapter, group, name, section) for name, section in sections[group].items()
    )


def _parse_option(adapter: TypeAdapter[T], group: str, name: str, section: object) -> T:
    parsed = _parse(adapter, section, f"{group} {name}")
    if isinstance(section, Mapping) and section.get("name") != name:
        raise OptionNameError(group, name, section.get("name"))
    return parsed


def _parse(adapter: TypeAdapter[T], section: object, where: str) -> T:
    try:
        return adapter.validate_python(section)
    except ValidationError as error:
        raise sentence(adapter._type, error, where) from error
