"""The driver's memory over 5,000 cells: `python -m tests.benchmarks.driver_memory`

Groups are simulated (no engine, no Ray); the driver, its records on disk and its progress are real.
Resident memory is read after every 500 cells and may grow by a tenth from the 1,000th to the last.
The result is kept beside this file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.execution.events import CellDone, Event, GroupJob
from tests.execution.simulated import simulated_group
from tests.sweeps import SimulatedSweep

RESULT = Path(__file__).parent / "results" / "driver_memory.json"
EVERY, LIMIT = 500, 1.10
SWEEP = (
    *("tracking=off", "method=ngram", "dataset=[chat,echo,code,json,math]"),
    f"sweep.axes.k=[{','.join(map(str, range(1, 51)))}]",
    f"sweep.axes.concurrency=[{','.join(map(str, range(1, 21)))}]",
)


def main() -> int:
    resident: list[int] = []
    told = 0

    def watched(job: GroupJob) -> Iterator[Event]:
        nonlocal told
        for event in simulated_group(job):
            yield event
            told += isinstance(event, CellDone)
            if isinstance(event, CellDone) and told % EVERY == 0:
                resident.append(psutil.Process().memory_info().rss)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        sweep = SimulatedSweep(patch, Path(folder) / "outputs", *SWEEP)
        # What the report costs is its own matter.
        patch.setattr("pipeline.driver.Driver._report", lambda *_: None)
        sweep.run(measure=watched)
    growth = resident[-1] / resident[1]
    result = {
        "cells": told,
        "growth_from_1000_to_the_last": round(growth, 3),
        "resident_of_the_first_500": [round(r / resident[0], 3) for r in resident],
        "of_limit": round(growth / LIMIT, 3),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    sys.stderr.write(json.dumps(result, indent=1) + "\n")
    return 0 if growth <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
