"""The boundary: a command line and `conf/` become one frozen `SweepConfig`.

The only module that imports Hydra and OmegaConf. Hydra composes the sweep; every option that the
axes name is composed once and the crossing is left to plain Python (`pipeline.plan`), since
composing takes tens of milliseconds and a grid has thousands of cells.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    ConfigCompositionException,
    MissingConfigException,
    OverrideParseException,
    SearchPathException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.errors import InputError, nearest
from pipeline.parse import parse_axes, parse_sweep, unknown_key_in
from pipeline.spec import SweepConfig

GROUPS = ("model", "method", "dataset")
_CHECKOUT = Path(__file__).parent.parent / "conf"
CONF = _CHECKOUT if _CHECKOUT.is_dir() else Path(__file__).parent / "conf"


class ConfigError(InputError):
    """A command line or a configuration file that cannot be composed."""


class NoSweepError(InputError):
    """The command names no sweep."""

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__(
            "no sweep is chosen",
            allowed=", ".join(known),
            remedy="add +sweep=NAME, for example +sweep=spec_methods",
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
    overrides = [arg for arg in argv if not arg.startswith("-")]
    if {"-m", "--multirun"} & set(argv):
        raise ConfigError(
            "--multirun is not used here",
            remedy="give an axis a list: sweep.axes.method=[none,mtp]",
        )
    named = any(o.lstrip("+~").partition("=")[0] == "platform" for o in overrides)
    # In front, since Hydra takes no override after a flag's value.
    arguments = [*argv] if named else [f"platform={detect_platform()}", *argv]
    with _translated(arguments):
        return _run_hydra(arguments)


def _run_hydra(arguments: Sequence[str]) -> SweepConfig | None:
    outcome: list[SweepConfig | Exception] = []

    def task(cfg: DictConfig) -> None:
        try:
            outcome.append(_read(cfg, arguments))
        except Exception as error:  # noqa: BLE001 - raised again below, outside Hydra's task
            # Hydra announces on the console whatever leaves its task.
            outcome.append(error)

    # Hydra prints its own errors and ends with 1; the full errors are asked for and told as ours.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    before, sys.argv = sys.argv, [sys.argv[0], *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)()
    finally:
        sys.argv = before
    if not outcome:
        return None
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


@contextlib.contextmanager
def _translated(arguments: Sequence[str]) -> Iterator[None]:
    """Tell what Hydra, OmegaConf and the YAML reader raise as one sentence of ours."""
    try:
        yield
    except (ConfigCompositionException, OverrideParseException) as error:
        raise _composition_error(error, arguments) from error
    except SearchPathException as error:
        raise ConfigError(_first_line(error), where="--config-dir") from error
    except OmegaConfBaseException as error:
        where = getattr(error, "full_key", None) or ""
        raise ConfigError(_first_line(error), where=where) from error
    except yaml.YAMLError as error:
        raise _yaml_error(error) from error
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"a configuration file cannot be read ({_first_line(error)})") from error


def _read(cfg: DictConfig, arguments: Sequence[str]) -> SweepConfig:
    if "sweep" not in cfg:
        raise NoSweepError(_options("sweep"))
    root = _plain(cfg)
    chosen = {group: root.pop(group, None) for group in GROUPS}
    _narrow(root["sweep"], arguments)
    axes = parse_axes(root["sweep"].get("axes") or {})
    sections: dict[str, list[dict[str, Any]]] = {}
    for group in GROUPS:
        names = getattr(axes, group)
        whole = chosen[group] if len(names) == 1 else None
        sections[group] = [whole] if whole else _compose_each(group, names, arguments)
    return parse_sweep(root, sections["model"], sections["method"], sections["dataset"])


def _narrow(sweep: dict[str, Any], arguments: Sequence[str]) -> None:
    """Let `method=ngram` or `method=[none,ngram]` on the command line replace the sweep's axis."""
    parser = OverridesParser.create()
    overrides = parser.parse_overrides(list(HydraConfig.get().overrides.task))
    for group in GROUPS:
        given = [o.value() for o in overrides if o.key_or_group == group and o.value() is not None]
        names = [
            str(name) for value in given for name in (value if isinstance(value, list) else [value])
        ]
        if names:
            sweep.setdefault("axes", {})[group] = names
        _refuse_stray_values(group, names, arguments)


def _refuse_stray_values(group: str, names: Sequence[str], arguments: Sequence[str]) -> None:
    if len(names) > 1 and any(a.lstrip("+~").startswith(f"{group}.") for a in arguments):
        raise ConfigError(
            f"{group}.* is set while {len(names)} options are chosen",
            remedy=f"choose one with {group}=NAME, or write a file of your own and use --config-dir",
        )


def _compose_each(
    group: str, names: Sequence[str], arguments: Sequence[str]
) -> list[dict[str, Any]]:
    """Compose each option of a group once, from our files and the user's `--config-dir` alike."""
    sections = []
    for name in dict.fromkeys(names):
        composed = compose("config", overrides=[f"{group}={name}", *_platform(arguments)])
        sections.append(_plain(composed)[group])
    return sections


def _platform(arguments: Sequence[str]) -> list[str]:
    return [a for a in arguments if a.partition("=")[0] == "platform"]


def _plain(cfg: DictConfig) -> dict[str, Any]:
    container = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items() if key != "hydra"}


def _options(group: str) -> list[str]:
    from hydra.core.global_hydra import GlobalHydra

    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options(group))


# --- errors ---------------------------------------------------------------------------------


def _composition_error(error: Exception, arguments: Sequence[str]) -> InputError:
    if isinstance(error, MissingConfigException):
        return _missing_config(error)
    if isinstance(error, OverrideParseException):
        return ConfigError(
            f"'{error.override}' cannot be read as an override ({_first_line(error)})",
            allowed="key=value, key=[a,b], +group=name",
        )
    for argument in arguments:
        key = argument.partition("=")[0]
        if key.split(".")[0] in GROUPS and "." in key and f"'{key}'" in str(error):
            group = key.split(".")[0]
            return _value_without_choice(group, key, arguments)
        if not key.startswith(("+", "~", "-")) and f"'{key}'" in str(error):
            return _unknown_override(key, arguments) or ConfigError(_first_line(error), where=key)
    return ConfigError(" ".join(str(error).split())[:300])


def _value_without_choice(group: str, key: str, arguments: Sequence[str]) -> InputError:
    if any(a.startswith(f"{group}=") for a in arguments):
        return _unknown_override(key, arguments) or ConfigError("it cannot be set", where=key)
    return ConfigError(
        f"{group} options can be changed only when one is chosen",
        where=key,
        remedy=f"add {group}=NAME to the command",
    )


def _unknown_override(key: str, arguments: Sequence[str]) -> InputError | None:
    """Compose without the values and find where the key leaves the known tree."""
    if key == "sweep":
        return ConfigError("a sweep is added, not replaced", where=key, remedy="write +sweep=NAME")
    groups = [
        a
        for a in arguments
        if "=" in a and "." not in a.partition("=")[0] and a.partition("=")[0].lstrip("+") != key
    ]
    groups = [a for a in groups if not a.startswith("-")]
    with hydra.initialize_config_dir(str(CONF.resolve()), version_base="1.3"):
        try:
            cfg = compose("config", overrides=groups)
        except Exception:  # noqa: BLE001 - the first error is the one to tell
            cfg = compose("config")
    container = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(container, dict)
    known = dict.fromkeys(GROUPS) | {str(k): v for k, v in container.items()}
    return unknown_key_in(known, key)


def _missing_config(error: MissingConfigException) -> InputError:
    missing = (error.missing_cfg_file or "").removesuffix(".yaml")
    group, _, name = missing.rpartition("/")
    options = list(error.options or [])
    if not group:
        return ConfigError(_first_line(error))
    return ConfigError(
        f"there is no {group} called '{name}'{nearest(name, options)}",
        where=group,
        allowed=", ".join(options),
        remedy=f"or add {group}/{name}.yaml to a folder of your own and pass --config-dir",
    )


def _yaml_error(error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _first_line(error)
    where = f"{mark.name}, line {mark.line + 1}" if mark else ""
    return ConfigError(f"the file is not valid YAML ({problem})", where=where)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
