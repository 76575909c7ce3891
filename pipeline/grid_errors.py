"""What can be wrong with a grid whose every option is fine by itself."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import InputError, nearest


class EmptyGridError(InputError):
    """Nothing of the grid can be measured."""

    def __init__(self, sweep: str, reasons: Sequence[str]) -> None:
        first = reasons[0] if reasons else "an axis is empty"
        super().__init__(
            f"the grid is empty: all {len(reasons)} combinations were pruned (first: {first})",
            where=f"sweep {sweep}",
            remedy="widen sweep.axes or choose another model",
        )


class UnknownMethodInAxisError(InputError):
    """`sweep.axes.k` names a method that the sweep does not hold, or that has no K."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"'{name}' is not a method of this sweep that has a K{nearest(name, known)}",
            where="sweep.axes.k",
            allowed=", ".join(known) or "null, since no method here has a K",
        )


class CapTooLargeError(InputError):
    """An answer may be longer than the model's whole context."""

    def __init__(self, model: str, dataset: str, cap: int, limit: int) -> None:
        super().__init__(
            f"an answer may have {cap} tokens, and {model} holds {limit} with its prompt",
            where=f"dataset {dataset}",
            allowed=f"max_tokens well below {limit}",
            remedy="lower max_tokens, or raise the model's engine_args.max_model_len",
        )


class DuplicateCellError(InputError):
    """Two cells of the grid would be one measurement made twice."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(
            f"{second} is the same measurement as {first}",
            where="sweep.axes",
            remedy="leave one of the two options out",
        )
