"""A grid's own limits: mistakes that no option shows by itself, and points that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from pipeline.grid_errors import CapTooLargeError, UnknownMethodInAxisError
from pipeline.methods import why_not
from pipeline.prompts import PromptSet
from pipeline.spec import Axes, MethodSpec, ModelSpec, NoMethod, PlatformSpec, SweepConfig


def check_axes(config: SweepConfig, prompts: Mapping[str, PromptSet]) -> None:
    """Refuse what cannot be meant.

    Raises:
        UnknownMethodInAxisError: a K list is given for a method outside the sweep.
        CapTooLargeError: an answer may be longer than a model's context.
    """
    if isinstance(config.axes.k, dict):
        known = tuple(m.name for m in config.methods if not isinstance(m, NoMethod))
        for name in config.axes.k:
            if name not in known:
                raise UnknownMethodInAxisError(name, known)
    # What can be told without a tokenizer; a prompt's own length is added when it is encoded.
    for model, (name, prompt_set) in product(config.models, prompts.items()):
        limit = model.engine_args.get("max_model_len")
        cap = max(prompt.max_tokens for prompt in prompt_set.prompts)
        if isinstance(limit, int) and cap >= limit:
            raise CapTooLargeError(model.name, name, cap, limit)


def why_left_out(config: SweepConfig, model: ModelSpec, method: MethodSpec, k: int) -> str | None:
    """The reason why a point of the grid is not measured, or None where it is."""
    return (
        _left_out(config.axes, model, method)
        or _unfit(model, config.platform)
        or why_not(method, k, model)
    )


def _left_out(axes: Axes, model: ModelSpec, method: MethodSpec) -> str | None:
    for left in axes.leave_out:
        if (left.model, left.method) == (model.name, method.name):
            return f"{left.reason} (sweep.axes.leave_out)"
    return None


def _unfit(model: ModelSpec, platform: PlatformSpec) -> str | None:
    if model.resources.gpus and platform.device == "cpu":
        return f"{model.name} needs {model.resources.gpus} GPU; platform {platform.name} has none"
    return None
