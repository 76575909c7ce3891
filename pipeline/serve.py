"""The `vllm serve` command that serves what a cell measured."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from pipeline.plan import EngineConfig


def serve_command(config: EngineConfig, preloaded: Sequence[str] = ()) -> str:
    """One shell line: environment, checkpoint, engine arguments and speculative configuration.

    Args:
        preloaded: the libraries that were preloaded into the measured engine.

    The measuring front end's own setting (`engine_core`) is no part of it: `vllm serve` always
    keeps its engine core in a process of its own.
    """
    preload = {"LD_PRELOAD": ":".join(preloaded)} if preloaded else {}
    env = sorted({**preload, **config.env}.items())
    parts = [f"{key}={shlex.quote(value)}" for key, value in env]
    parts += ["vllm serve", shlex.quote(config.checkpoint)]
    if config.revision is not None:
        parts.append(f"--revision {shlex.quote(config.revision)}")
    if config.trust_remote_code:
        parts.append("--trust-remote-code")
    parts += [_flag(name, value) for name, value in config.engine_args.items()]
    if config.speculative is not None:
        parts.append(f"--speculative-config {shlex.quote(_compact(config.speculative))}")
    return " ".join(part for part in parts if part)


def _flag(name: str, value: JsonValue) -> str:
    flag = name.replace("_", "-")
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    text = _compact(value) if isinstance(value, dict | list) else str(value)
    return f"--{flag} {shlex.quote(text)}"


def _compact(value: Mapping[str, JsonValue] | list[JsonValue]) -> str:
    return json.dumps(value, separators=(",", ":"))
