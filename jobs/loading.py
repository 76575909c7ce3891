"""`conf/suite/NAME.yaml`, or the same in a user's folder, as a `Suite`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from jobs.suite import Suite
from pipeline import folders
from pipeline.errors import InputError
from pipeline.mistakes import A_MAPPING, sentence
from pipeline.parse import OptionNameError
from pipeline.values import Name

_NAME: TypeAdapter[str] = TypeAdapter(Name)


class SuiteFileError(InputError):
    """A suite's file that cannot be read as YAML."""


class HiddenValueError(InputError):
    """A mistake whose sentence would repeat an address, which may be a secret."""

    def __init__(self, told: InputError) -> None:
        super().__init__(
            "an address does not belong here; it is not shown, since it may be a secret",
            where=told.where.partition("://")[0],
            allowed=told.allowed,
            remedy="name the environment variable that holds it with url_env",
        )


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once; of two, the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key.value}' stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_suite(name: str, users: Sequence[Path] = ()) -> Suite:
    """Read a suite.

    Args:
        users: folders of options besides ours, as of `--config-dir`.

    Raises:
        InputError: there is no such suite, or its file does not fit; a sentence says where.
    """
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        raise sentence(Name, error, "suite") from error
    found = [
        path for f in (*users, folders.CONF) if (path := f / "suite" / f"{name}.yaml").is_file()
    ]
    if not found:
        raise folders.UnknownOptionError("suite", name, folders.options("suite", users))
    content = _content(found[0])
    if not isinstance(content, dict):
        raise SuiteFileError("the file holds no suite", where=str(found[0]), allowed=A_MAPPING)
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        told, channels = sentence(Suite, error, f"suite {name}"), f"suite {name}: tell"
        hidden = told.where.startswith(channels) and "://" in str(told)
        raise (HiddenValueError(told) if hidden else told) from error
    if suite.name != name:
        raise OptionNameError("suite", name, suite.name)
    return suite


def _content(path: Path) -> object:
    try:
        # A loader of safe YAML.
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise SuiteFileError(
            f"the file cannot be read ({error.strerror})", where=str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise SuiteFileError("the file is not UTF-8", where=str(path)) from error
    except yaml.YAMLError as error:
        # Not the lines around it, which may hold a secret.
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        told = problem or type(error).__name__
        raise SuiteFileError(f"the file is not valid YAML ({told})", where=where) from error
