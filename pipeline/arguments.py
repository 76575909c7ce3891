"""Engine arguments of a sweep against those the installed vLLM takes, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from pipeline.errors import InputError, nearest
from pipeline.installed import Argument, InstalledVllm
from pipeline.spec import ModelSpec, SweepConfig


class UnknownArgumentError(InputError):
    """An engine argument that the installed vLLM does not have."""

    def __init__(self, where: str, name: str, known: Sequence[str], version: str) -> None:
        super().__init__(
            f"vLLM {version} has no argument '{name}'{nearest(name, known)}",
            where=where,
            remedy="correct it or leave it out; `vllm serve --help=all` lists all",
        )


class ArgumentValueError(InputError):
    """An engine argument of a kind that vLLM does not take."""

    def __init__(self, where: str, value: JsonValue, takes: Argument, version: str) -> None:
        choices = ", ".join(sorted(takes.choices or ()))
        super().__init__(
            f"vLLM {version} does not take {value!r}",
            where=where,
            allowed=choices or " or ".join(sorted(takes.kinds or ())),
        )


def check_arguments(config: SweepConfig, vllm: InstalledVllm | None) -> None:
    """Compare every engine argument by name and kind; where vLLM is not here, nothing is said.

    Raises:
        UnknownArgumentError, ArgumentValueError: the first that does not fit, by its place.
    """
    if vllm is None:
        return
    for where, arguments in _engine_arguments(config):
        _check(where, arguments, vllm.engine, vllm.version)
    for model in config.models:
        for kind, drafter in model.drafters.items():
            where = f"{_drafter(model, kind)}.speculative"
            _check(where, drafter.speculative, vllm.speculative, vllm.version)


def _engine_arguments(config: SweepConfig) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    yield f"platform {config.platform.name}: engine_args", config.platform.engine_args
    yield "measure: engine_args", config.measure.engine_args
    for model in config.models:
        yield f"model {model.name}: engine_args", model.engine_args
        for kind, drafter in model.drafters.items():
            yield f"{_drafter(model, kind)}.engine_args", drafter.engine_args


def _drafter(model: ModelSpec, kind: str) -> str:
    return f"model {model.name}: drafters.{kind}"


def _check(
    where: str,
    arguments: Mapping[str, JsonValue],
    known: Mapping[str, Argument],
    version: str,
) -> None:
    if not known:
        return
    for name, value in arguments.items():
        if name not in known:
            raise UnknownArgumentError(where, name, list(known), version)
        if not known[name].takes(value):
            raise ArgumentValueError(f"{where}.{name}", value, known[name], version)
