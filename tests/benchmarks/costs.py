"""What the pipeline itself costs: `python -m tests.benchmarks.costs outputs/SWEEP`

From the newest finished start of a sweep: engine starts per engine group, the share of its wall
time in neither an engine start nor generation (at most 0.10), and the driver's peak memory (at most
500 MiB). And measured here: planning 1,000 cells, as a share of the second it may take. Each line
is a ratio to its limit; the result is kept beside this file.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from pipeline.config import read_command_line
from pipeline.outputs import Outputs, read
from pipeline.plan import Plan, make_plan
from pipeline.prompts import load_prompts
from pipeline.records import StartRecord
from pipeline.sources import identity

RESULT = Path(__file__).parent / "results" / "costs.json"
MEMORY_LIMIT_BYTES = 500 * 1024**2
OTHER_LIMIT = 0.10
PLAN_LIMIT_S = 1.0
ROUNDS = 5


def main(folder: Path) -> int:
    outputs = Outputs(folder.parent, folder.name)
    start = next(s for s in reversed(outputs.starts()) if s.outcome == "finished")
    costs = {**of_start(start, read(folder / "plan.json", Plan)), **of_planning()}
    RESULT.write_text(json.dumps(costs, indent=1) + "\n")
    sys.stdout.write(json.dumps(costs, indent=1) + "\n")
    limits = [value for name, value in costs.items() if name.endswith("_of_limit")]
    return 0 if max(limits) <= 1.0 else 1


def of_start(start: StartRecord, plan: Plan) -> dict[str, float]:
    assert start.split is not None
    assert start.driver_peak_bytes is not None
    wall = start.split.wall_s
    return {
        "engine_starts_per_group": start.engine_starts / len(plan.groups),
        "share_engine_starts": round(start.split.engine_start_s / wall, 3),
        "share_generation": round(start.split.generation_s / wall, 3),
        "share_other": round(start.split.other_s / wall, 3),
        "share_other_of_limit": round(start.split.other_s / wall / OTHER_LIMIT, 2),
        "driver_memory_of_limit": round(start.driver_peak_bytes / MEMORY_LIMIT_BYTES, 2),
    }


def of_planning() -> dict[str, float]:
    many = ",".join(map(str, range(1, 101)))
    config = read_command_line(
        [
            "+sweep=spec_methods",
            "method=ngram",
            f"sweep.axes.k=[{many}]",
            "sweep.axes.concurrency=[1,2]",
        ],
        lambda: "cpu",
    )
    assert config is not None
    prompts = {d.name: load_prompts(d) for d in config.datasets}
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        plan = make_plan(config, prompts, identity)
        seconds.append(time.perf_counter() - began)
    assert len(plan.cells) == 1000
    return {"planning_1000_cells_of_limit": round(statistics.median(seconds) / PLAN_LIMIT_S, 3)}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
