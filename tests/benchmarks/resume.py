"""What a finished sweep of 10,000 cells costs to be recognised: `python -m tests.benchmarks.resume`

The records are simulated (made by the tests' factory for the cells of a real plan, with as many
costs as a paired cell has) and only read here, beside a report as a finished sweep has one. The
command is the real one. It may take ten seconds, imports included, and starts nothing. The result
is kept beside this file.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline.config import read_command_line
from pipeline.outputs import Outputs
from pipeline.plan import Cell, make_plan
from pipeline.prompts import load_prompts
from pipeline.records import CellRecord, Companion, PromptCost
from pipeline.report import HTML
from pipeline.sources import identity
from tests.factories import cell_record

RESULT = Path(__file__).parent / "results" / "resume.json"
LIMIT_S, ROUNDS = 10.0, 3
COSTS = tuple(
    PromptCost(prompt_id=f"prompt-{i:02}", repeat=repeat, decode_s=2 / 71, steps=26 / 31)
    for i in range(20)
    for repeat in range(2)
)
SWEEP = f"""# @package _global_
sweep:
  name: many
  axes:
    model: ${{platform.models}}
    method: [ngram]
    dataset: [chat, echo, code, json, math]
    k: [2, 4]
    concurrency: {list(range(1, 1001))}
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        arguments = command_line(Path(folder))
        cells, bytes_a_record = simulated_records(Path(folder), arguments)
        seconds = [of_command(arguments) for _ in range(ROUNDS)]
    result = {
        "cells": cells,
        "bytes_a_record": bytes_a_record,
        "median_s": round(statistics.median(seconds), 2),
        "of_limit": round(statistics.median(seconds) / LIMIT_S, 2),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0 if result["of_limit"] <= 1.0 else 1


def command_line(folder: Path) -> list[str]:
    (folder / "sweep").mkdir()
    (folder / "sweep" / "many.yaml").write_text(SWEEP)
    return ["+sweep=many", "tracking=off", f"--config-dir={folder}", f"output_dir={folder}"]


def simulated_records(folder: Path, arguments: list[str]) -> tuple[int, int]:
    """A record for every cell of the plan, written plainly, since nothing depends on it.

    Returns:
        How many, and the bytes of one.
    """
    config = read_command_line(arguments, lambda: "cpu")
    assert config is not None
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    cells = make_plan(config, prompts, identity).cells
    place = Outputs(folder, config.name).folder / "cells"
    place.mkdir(parents=True)
    for cell in cells:
        made = record(cell)
        (place / f"{cell.fingerprint}.json").write_text(made.model_dump_json(indent=1))
    (place.parent / HTML).write_text("simulated")
    return len(cells), len(made.model_dump_json(indent=1))


def record(cell: Cell) -> CellRecord:
    """A cell's record, as large as that of twenty prompts that alternated with the baseline's."""
    made = cell_record(cell.at)
    assert made.counts is not None
    beside = Companion(status="OK", counts=made.counts, metrics=made.metrics, costs=COSTS)
    update = {"fingerprint": cell.fingerprint, "costs": COSTS, "companion": beside}
    return made.model_copy(update=update)


def of_command(arguments: list[str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "pipeline", *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "are recorded already" in said
    assert "engine 1/" not in said
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
