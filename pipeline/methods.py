"""A method and its K as vLLM's speculative configuration, and what each method requires.

To add a method: one YAML under `conf/method/`, its record in `pipeline.spec`, and one function
here, registered with `@_speculative.register`.
"""

from __future__ import annotations

from functools import singledispatch

from pipeline.spec import (
    Drafter,
    DrafterMethod,
    MethodSpec,
    ModelSpec,
    NgramMethod,
    NoMethod,
)
from pipeline.values import Speculative

BASELINE = "none"


def speculative_config(method: MethodSpec, k: int, model: ModelSpec) -> Speculative | None:
    """vLLM's `speculative_config` for one (method, K) on a model; None for plain decoding.

    The method is always named: vLLM reads a drafter without one as a draft model.
    """
    return _speculative(method, k, model.drafters.get(method.kind, Drafter()))


@singledispatch
def _speculative(method: object, k: int, drafter: Drafter) -> Speculative | None:
    raise AssertionError(f"no speculative configuration for {type(method).__name__}")


@_speculative.register
def _(method: NoMethod, k: int, drafter: Drafter) -> Speculative | None:
    return None


@_speculative.register
def _(method: NgramMethod, k: int, drafter: Drafter) -> Speculative | None:
    return {
        "method": method.kind,
        "num_speculative_tokens": k,
        "prompt_lookup_min": method.prompt_lookup_min,
        "prompt_lookup_max": method.prompt_lookup_max,
        **drafter.speculative,
    }


@_speculative.register
def _(method: DrafterMethod, k: int, drafter: Drafter) -> Speculative | None:
    config: Speculative = {"method": method.kind, "num_speculative_tokens": k}
    if drafter.checkpoint is not None:
        config["model"] = drafter.checkpoint
    if drafter.revision is not None:
        config["revision"] = drafter.revision
    return {**config, **drafter.speculative}


def k_values(
    method: MethodSpec,
    model: ModelSpec,
    chosen: tuple[int, ...] | dict[str, tuple[int, ...]] | None,
) -> tuple[int, ...]:
    """The values of K to try: the sweep's choice, else the drafter's, else the method's.

    Plain decoding has the one value 0. Duplicates are dropped, order is kept.
    """
    if isinstance(method, NoMethod):
        return (0,)
    if isinstance(chosen, dict):
        chosen = chosen.get(method.name)
    drafter = model.drafters.get(method.kind)
    values = chosen or (drafter.k if drafter else None) or method.k
    return tuple(dict.fromkeys(values))


def why_not(method: MethodSpec, k: int, model: ModelSpec) -> str | None:
    """The reason why a model cannot run a method at K, or None where it can."""
    if isinstance(method, DrafterMethod) and method.kind not in model.drafters:
        have = ", ".join(sorted(model.drafters)) or "none"
        return f"{method.kind} needs a drafter for {model.name}; it has drafters for: {have}"
    drafter = model.drafters.get(method.kind)
    if drafter is not None and drafter.max_k is not None and k > drafter.max_k:
        because = f" ({drafter.max_k_reason})" if drafter.max_k_reason else ""
        return f"K={k} exceeds this drafter's limit of {drafter.max_k}{because}"
    return None
