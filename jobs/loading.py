"""`conf/suite/NAME.yaml`, or the same in a user's folder, as a `Suite`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from jobs.suite import Suite
from pipeline import folders
from pipeline.errors import InputError
from pipeline.mistakes import A_MAPPING, BadValueError, sentence
from pipeline.parse import OptionNameError


class SuiteFileError(InputError):
    """A suite's file that cannot be read as YAML."""


def load_suite(name: str, users: Sequence[Path] = ()) -> Suite:
    """Read a suite.

    Args:
        users: folders of options besides ours, as of `--config-dir`.

    Raises:
        InputError: there is no such suite, or its file does not fit; a sentence says where.
    """
    found = [
        path for f in (*users, folders.CONF) if (path := f / "suite" / f"{name}.yaml").is_file()
    ]
    if not found:
        raise folders.UnknownOptionError("suite", name, folders.options("suite", users))
    content = _content(found[0])
    if not isinstance(content, dict):
        raise BadValueError(f"suite {name}", content, A_MAPPING)
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        raise sentence(Suite, error, f"suite {name}") from error
    if suite.name != name:
        raise OptionNameError("suite", name, suite.name)
    return suite


def _content(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteFileError(
            f"the file cannot be read ({error.strerror})", where=str(path)
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise SuiteFileError(f"the file is not valid YAML ({problem})", where=str(path)) from error
