"""The boundary: a command line and `conf/` become one frozen `SweepConfig`.

The only module that imports Hydra and OmegaConf. Hydra composes the sweep; every option that the
axes name is composed once and the crossing is left to plain Python (`pipeline.plan`), since
composing takes tens of milliseconds and a grid has thousands of cells.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    GrammarParseError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from pipeline import commandline, folders
from pipeline.commandline import AXES, GROUPS, Override, quoted
from pipeline.errors import InputError, nearest
from pipeline.mistakes import MissingKeyError
from pipeline.parse import parse_axes, parse_sweep
from pipeline.spec import SweepConfig

_PREFIX = {
    OverrideType.CHANGE: "",
    OverrideType.ADD: "+",
    OverrideType.FORCE_ADD: "++",
    OverrideType.DEL: "~",
}


class ConfigError(InputError):
    """A configuration file or a value that cannot be composed."""


class NoSweepError(InputError):
    """The command names no sweep."""

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__(
            "no sweep is chosen",
            allowed=", ".join(known),
            remedy="add +sweep=NAME, for example +sweep=spec_methods",
        )


class SweepFileError(InputError):
    """A sweep's file whose keys land in the wrong place."""

    def __init__(self) -> None:
        super().__init__(
            "the file has no section 'sweep' at the root of the configuration",
            where="sweep",
            remedy="start it with the line '# @package _global_' and put its keys under 'sweep:'",
        )


def read_command_line(
    argv: Sequence[str], detect_platform: Callable[[], str]
) -> SweepConfig | None:
    """Compose and parse what a command line asks for.

    Args:
        argv: the arguments after the program's name.
        detect_platform: names the platform of this machine; asked only when the command line
            names none.

    Returns:
        The sweep, or None where Hydra answered by itself (`--help`, `--cfg job`, `--info`).

    Raises:
        InputError: the command line or a file does not fit; one sentence says what and where.
    """
    arguments = commandline.split(argv)
    folders.refuse_shadowed(arguments.folders)
    overrides = _parsed(arguments.overrides)
    commandline.check(overrides)
    texts = [text for o in overrides for text in commandline.as_hydra_takes_it(o)]
    if not any(o.key == "platform" for o in overrides):
        texts.append(f"platform={detect_platform()}")
    composer = _Composer(texts, arguments.folders)
    with hydra.initialize_config_dir(str(folders.CONF), version_base="1.3"):
        root = composer.compose([])
        if not arguments.show:
            if not any(o.key == "sweep" for o in overrides):
                raise NoSweepError(folders.options("sweep", arguments.folders))
            return _read(root, overrides, composer)
    _show(arguments.show, composer.texts)
    return None


def _parsed(texts: Sequence[str]) -> list[Override]:
    parser = OverridesParser.create()
    parsed = []
    for text in texts:
        try:
            parsed.append(_plain_override(parser.parse_override(text)))
        except (OverrideParseException, HydraException) as error:
            raise ConfigError(
                f"'{commandline.readable(text)}' cannot be read as a setting",
                allowed="key=value, key=[a,b] or group=name, with quotes around special characters",
            ) from error
    return parsed


def _plain_override(override: HydraOverride) -> Override:
    assert override.input_line is not None
    sweeps = override.is_sweep_override()
    return Override(
        text=override.input_line,
        prefix=_PREFIX[override.type],  # type: ignore[arg-type]
        key=override.key_or_group,
        value=None if sweeps else _plain_value(override.value()),
        package=override.package,
        sweeps=sweeps,
    )


def _plain_value(value: object) -> object:
    """Hydra's quoted strings as the text they hold."""
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    return getattr(value, "text", value)


class _Composer:
    """Composes the command line's configuration, with an option of a group put in."""

    def __init__(self, texts: Sequence[str], users: Sequence[Path]) -> None:
        self._folders = users
        paths = ", ".join(quoted(f"file://{folder}") for folder in users)
        self.texts = [*texts, f"hydra.searchpath=[{paths}]"] if users else list(texts)
        self._composed: dict[frozenset[str], dict[str, Any]] = {}

    def compose(self, choices: Sequence[str]) -> dict[str, Any]:
        """Plain containers, every interpolation resolved; composed once for the same choices."""
        groups = {choice.partition("=")[0] for choice in choices}
        texts = [*(t for t in self.texts if t.partition("=")[0] not in groups), *choices]
        known = frozenset(texts)
        if known not in self._composed:
            with self._translated():
                self._composed[known] = _plain(compose("config", overrides=texts))
        return dict(self._composed[known])

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Tell what Hydra, OmegaConf and the YAML reader raise as one sentence of ours."""
        try:
            yield
        except MissingConfigException as error:
            missing = (error.missing_cfg_file or "").removesuffix(".yaml")
            group, _, name = missing.rpartition("/")
            known = folders.options(group, self._folders)
            raise folders.UnknownOptionError(group, name, known) from error
        except OmegaConfBaseException as error:
            raise _resolution_error(error) from error
        except yaml.YAMLError as error:
            raise _yaml_error(error) from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"the file is not text in UTF-8 ({error.reason} at byte {error.start})",
                where=folders.undecodable(self._folders),
                remedy="save it as UTF-8",
            ) from error
        except (HydraException, ValueError, TypeError, OSError) as error:
            raise _composition_error(error) from error


def _plain(cfg: DictConfig) -> dict[str, Any]:
    container = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def _read(root: dict[str, Any], overrides: Sequence[Override], composer: _Composer) -> SweepConfig:
    for group in AXES:
        root.pop(group, None)
    sweep = root.get("sweep")
    if sweep is None or (isinstance(sweep, dict) and "sweep" in sweep):
        raise SweepFileError()
    root["sweep"] = commandline.narrowed(sweep, overrides)
    axes = parse_axes(root["sweep"])
    sections: dict[str, dict[str, object]] = {group: {} for group in AXES}
    # One option of each group at a time, since most of the time is Hydra's, whatever is chosen.
    for names in zip_longest(*(getattr(axes, group) for group in AXES)):
        chosen = {group: name for group, name in zip(AXES, names, strict=True) if name is not None}
        composed = composer.compose([f"{group}={quoted(name)}" for group, name in chosen.items()])
        for group, name in chosen.items():
            sections[group][name] = _section(composed, group, name)
    return parse_sweep(root, axes, sections)


def _section(composed: Mapping[str, Any], group: str, name: str) -> object:
    if group not in composed:
        raise ConfigError(
            "its file puts the keys elsewhere", where=f"{group} {name}", remedy="remove @package"
        )
    return composed[group]


def _show(flags: Sequence[str], texts: Sequence[str]) -> None:
    """Let Hydra print what it was asked for; what would not compose has been told before."""
    entry = hydra.main(version_base="1.3", config_path=str(folders.CONF), config_name="config")
    before, sys.argv = sys.argv, [sys.argv[0], *texts, *flags]
    try:
        entry(lambda _: None)()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


# --- errors ---------------------------------------------------------------------------------


def _composition_error(error: Exception) -> InputError:
    text = " ".join(str(error).split())
    if isinstance(error.__cause__, GrammarParseError):
        override = text.removeprefix("Error merging override ").lstrip("+")
        return ConfigError(f"'{override}' holds a reference that is not closed", allowed="${key}")
    if found := re.match(r"Error merging override \+*([\w./-]+)=(.*)", text):
        return ConfigError(
            f"the value {found[2]} has another shape than what it replaces",
            where=found[1],
            allowed="a list for a list, a mapping {key: value} for a mapping",
        )
    if found := re.match(r"invalid literal for int\(\) with base 10: '(.*)'", text):
        return ConfigError(
            f"'{found[1]}' is set inside a list",
            remedy="set the whole value: sweep.axes.k={ngram:[2,4]} gives K by method",
        )
    if found := re.match(r"Could not delete from config. '(.*)' does not exist", text):
        return ConfigError(
            "it is not there", where=found[1], remedy=f"leave ~{found[1]} out of the command"
        )
    if found := re.match(r"Multiple values for (\S+)\. To override", text):
        return ConfigError(
            "a file chooses it a second time",
            where=found[1],
            remedy=f"write 'override /{found[1]}: NAME' in that file's defaults",
        )
    if found := re.match(r"(?:In '(.*?)': )?Could not override '(.*?)'", text):
        return ConfigError(
            f"there is no group '{found[2]}'{nearest(found[2], GROUPS)}",
            where=found[1] or "",
            allowed=", ".join(GROUPS),
        )
    if found := re.match(r"Invalid defaults list in '(.*?)'", text):
        return ConfigError(
            "its defaults are of another shape", where=found[1], allowed="a list, - NAME on a line"
        )
    return ConfigError(f"the configuration cannot be composed ({text[:300]})")


def _resolution_error(error: OmegaConfBaseException) -> InputError:
    where = getattr(error, "full_key", None) or ""
    first = _first_line(error)
    if isinstance(error, MissingMandatoryValue):
        parent, _, key = where.rpartition(".")
        return MissingKeyError(parent, key)
    if isinstance(error, InterpolationKeyError):
        first = (
            f"it refers to a key that does not exist: {first.removeprefix('Interpolation key ')}"
        )
    return ConfigError(
        first, where=where, remedy="`--cfg job` prints the configuration with its references"
    )


def _yaml_error(error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _first_line(error)
    where = f"{mark.name}, line {mark.line + 1}" if mark else str(getattr(error, "name", ""))
    return ConfigError(
        f"the file is not valid YAML ({problem})", where=where, remedy="correct that line"
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
