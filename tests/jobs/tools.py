"""The files of a cluster, and the programs that judge them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "jobs" / "cluster"


def tool(name: str) -> str:
    """A program of this environment or of the system; without it the test is skipped."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def private_token(folder: Path) -> Path:
    """A cluster's token, as only its owner may read it."""
    path = folder / "token"
    path.write_text("0" * 32)
    path.chmod(0o600)
    return path
