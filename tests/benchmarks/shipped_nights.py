"""Real nights of the suite that is shipped for a machine without a GPU, as a user runs them.

    python -m tests.benchmarks.shipped_nights WORK

`python -m jobs.nightly suite=nightly_cpu` again and again with nothing changed: as many nights as
it takes to have a baseline, then three that have to be quiet. Kept after every night, so that the
command can be stopped and goes on; the figures go to results/shipped_nights.json, with how much
the nights differed, which is the noise that simulated_nights.py simulates.
"""

import os
import sys
from pathlib import Path

from jobs.suite import NightRule
from pipeline.execution import host
from pipeline.outputs import write_atomically
from tests.benchmarks.nights import (
    QUIET,
    RESULTS,
    RealNights,
    differences,
    night_of,
    quiet_levels,
    start_differences,
)

SUITE = "nightly_cpu"
LEARN = NightRule().min_nights
NIGHTS = {f"learning {i + 1}": 5 for i in range(LEARN)} | {
    f"quiet {i + 1}": 0 for i in range(QUIET)
}


def main(argv: list[str]) -> int:
    work = Path(argv[0]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    so_far = work / "nights.json"
    done = RealNights(
        cpu=str(host.facts()["cpu"]), cores=os.cpu_count() or 0, nights=(), night_sd={}
    )
    if so_far.is_file():
        done = RealNights.model_validate_json(so_far.read_text())
    for name, expected in list(NIGHTS.items())[len(done.nights) :]:
        last = work / "outputs" / "nights" / SUITE / "last"
        tonight = night_of(work, [f"suite={SUITE}"], last, name, expected)
        done = done.model_copy(update={"nights": (*done.nights, tonight)})
        write_atomically(so_far, done.model_dump_json(indent=1) + "\n")
    levels = quiet_levels(work, SUITE)
    done = done.model_copy(
        update={"night_sd": differences(levels), "start_sd": start_differences(levels)}
    )
    write_atomically(RESULTS / "shipped_nights.json", done.model_dump_json(indent=1) + "\n")
    return int(not all(night.as_expected for night in done.nights))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
