"""Whether a quantisation config leaves a head alone.

An engine that takes an unquantised head for a quantised one reads its weights wrongly or leaves
them out, drafts noise, and accepts next to nothing. Each family of quantisers has its own way to
name what it left out; the rules here follow what vLLM does with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from pipeline.checkpoints.header import Tensor

_LISTS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude")
_REGEX = "re:"
_NEGATIVE = "-:"
_SPECIAL = set(r"*+?^$()[]{}|\\")
_FULL_BITS = 16
_WEIGHT = ".weight"


def quantisation(config: Mapping[str, object] | None) -> dict[str, object] | None:
    """The quantisation part of a model's configuration, or None."""
    for section in (config or {}, (config or {}).get("text_config")):
        if isinstance(section, dict):
            found = section.get("quantization_config")
            if isinstance(found, dict):
                return found
    return None


def quantised_modules(rules: Mapping[str, object], tensors: Mapping[str, Tensor]) -> list[str]:
    """The matrices of a head that these rules take for quantised; empty is what one wants."""
    modules = sorted(
        name.removesuffix(_WEIGHT)
        for name, tensor in tensors.items()
        # Vectors are norms and biases: nothing quantises them.
        if len(tensor.shape) > 1
    )
    excluded = [test for test in (_by_list(rules), _by_dynamic(rules), _by_bits(rules)) if test]
    return [name for name in modules if not any(test(name) for test in excluded)]


def _by_list(rules: Mapping[str, object]) -> Callable[[str], bool] | None:
    """Names, parts of names, `*` patterns or `re:` expressions of layers left out."""
    given = (rules.get(key) for key in _LISTS)
    patterns = [p for value in given if isinstance(value, list) for p in value]
    texts = [pattern for pattern in patterns if isinstance(pattern, str) and pattern]
    return (lambda name: any(_matches(p, name) for p in texts)) if texts else None


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith(_REGEX):
        return _found(re.match, pattern.removeprefix(_REGEX), name)
    if "*" in pattern:
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return f".{pattern.strip('.')}." in f".{name}."


def _by_dynamic(rules: Mapping[str, object]) -> Callable[[str], bool] | None:
    """GPTQ's `dynamic`: expressions, negative ones leave layers out."""
    dynamic = rules.get("dynamic")
    if not isinstance(dynamic, dict):
        return None
    expressions = [k.removeprefix(_NEGATIVE) for k in dynamic if k.startswith(_NEGATIVE)]
    return lambda name: any(_found(re.match, e, name) for e in expressions)


def _by_bits(rules: Mapping[str, object]) -> Callable[[str], bool] | None:
    """AutoRound: bits by layer name or expression, else by the blocks that were quantised."""
    extra = rules.get("extra_config")
    layers = extra if isinstance(extra, dict) else {}
    blocks = _blocks(rules)
    if not layers and not blocks:
        return None

    def excluded(name: str) -> bool:
        for fits in (_is, _ends, _expresses):
            for key, setting in layers.items():
                if fits(key, name):
                    return _bits(setting) >= _FULL_BITS
        return bool(blocks) and not any(name.startswith(block) for block in blocks)

    return excluded


def _blocks(rules: Mapping[str, object]) -> list[str]:
    value = rules.get("block_name_to_quantize") or rules.get("to_quant_block_names")
    parts: Iterable[object] = value.split(",") if isinstance(value, str) else []
    if isinstance(value, list):
        parts = value
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


def _is(key: str, name: str) -> bool:
    return name == key


def _ends(key: str, name: str) -> bool:
    return name.endswith(f".{key}")


def _expresses(key: str, name: str) -> bool:
    return bool(set(key) & _SPECIAL) and _found(re.search, key, name)


def _bits(setting: object) -> int:
    bits = setting.get("bits") if isinstance(setting, dict) else None
    return bits if isinstance(bits, int) else 0


def _found(how: Callable[[str, str], re.Match[str] | None], expression: str, name: str) -> bool:
    try:
        return how(expression, name) is not None
    except (re.error, RecursionError, OverflowError):
        return False
