"""Engine starts for the checks."""

from __future__ import annotations

from pathlib import Path

from pipeline.plan import EngineConfig
from tests.factories import coordinates, plan


def engine(checkpoint: Path | str, **changed: object) -> EngineConfig:
    """An engine on a machine without a GPU, plain unless told otherwise."""
    base = plan(coordinates()).groups[0].engine
    return base.model_copy(update={"checkpoint": str(checkpoint), **changed})
