"""Warnings about a head: sentences on what an engine would make of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.checkpoints.errors import listed
from pipeline.checkpoints.exclusion import quantisation, quantised_modules
from pipeline.checkpoints.head import is_unquantised, promise, read_config
from pipeline.checkpoints.header import Tensor


def excluded(config: Mapping[str, object] | None, head: Mapping[str, Tensor]) -> bool | None:
    """Whether the quantisation config leaves an unquantised head alone; None: no such question."""
    rules = quantisation(config)
    if rules is None or not head or not is_unquantised(head.values()):
        return None
    return not quantised_modules(rules, head)


def warnings(folder: Path, prefix: str, head: Mapping[str, Tensor]) -> tuple[str, ...]:
    """What to know about this head before serving with it.

    Args:
        folder: the checkpoint, for its configuration.
        prefix: what the head's names begin with.
        head: its tensors.

    Raises:
        DamagedJsonError, UnreadableFileError: the configuration cannot be used.
    """
    config = read_config(folder)
    found = (_count(config, prefix, head), _quantised(config, head))
    return tuple(sentence for sentence in found if sentence)


def _count(config: Mapping[str, object] | None, prefix: str, head: Mapping[str, Tensor]) -> str:
    promised = promise(config, prefix, head)
    if promised.layers is None:
        return "there is no config.json: how many tensors the head should have is not known"
    if promised.layers == 0:
        return "config.json promises no MTP layer (mtp_num_hidden_layers): engines will not use it"
    if promised.tensors not in (None, len(head)):
        return (
            f"config.json promises {promised.tensors} tensors"
            f" ({promised.layers} MTP layers), {len(head)} are here"
        )
    return ""


def _quantised(config: Mapping[str, object] | None, head: Mapping[str, Tensor]) -> str:
    if excluded(config, head) is not False:
        return ""
    modules = quantised_modules(quantisation(config) or {}, head)
    return (
        f"the head is not quantised, but quantization_config does not exclude {len(modules)} of"
        f" its matrices ({listed(modules)}): an engine would accept about 0 % of its drafts"
    )
