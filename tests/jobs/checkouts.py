"""A checkout nobody has run anything in yet, for the scripts of jobs/schedules/."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parents[2]
SCHEDULES = HERE / "jobs" / "schedules"


def fresh_checkout(folder: Path) -> Path:
    """The schedules' scripts in a folder, beside the pipeline itself."""
    shutil.copytree(HERE / "jobs", folder / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pipeline", "conf"):
        (folder / name).symlink_to(HERE / name)
    return folder


def stand_in(program: Path, body: str) -> Path:
    """An executable shell script."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def run(
    program: Path | str, *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run to its end, with what it says."""
    return subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
