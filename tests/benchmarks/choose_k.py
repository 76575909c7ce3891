"""Whether a search over K finds what the full grid finds: `python -m tests.benchmarks.choose_k DIR`

The real search runs first, on real engines; then the same command as a grid measures in the same
folder what the search did without. Kept is what the search recommends, what it predicted of each K,
what each K measured, and the grid's fastest: the recommendation has to be it, or to have an
interval that overlaps its own. Both commands resume, so that this can be stopped and goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipeline.analysis.choose_k import Choice, MeasuredK
from pipeline.analysis.judging import find
from pipeline.analysis.k_search import KSearch, searches
from pipeline.evidence import gather
from pipeline.outputs import Outputs, read, write_atomically
from pipeline.plan import Plan
from pipeline.spec import Record

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).parent / "results" / "choose_k.json"
SWEEP, METHOD = "choose_k", "mtp"
COMMAND = [
    *(sys.executable, "-m", "pipeline", f"+sweep={SWEEP}", "tracking=off"),
    *(
        f"method=[none,{METHOD}]",
        "dataset=[code,json,math]",
        f"sweep.axes.k={{{METHOD}:[1,2,3,4]}}",
    ),
]


class Compared(Record):
    """A search beside the grid that it did without.

    Attributes:
        predicted: speed-up over the baseline by K, before the grid was measured.
        searched: what the search measured.
        grid: the same and the K that it left out; speed-ups with their intervals.
        best: what the grid recommends and its fastest.
    """

    recommended: int
    starts_saved: int
    predicted: dict[int, float]
    searched: tuple[MeasuredK, ...]
    grid: tuple[MeasuredK, ...]
    best: Choice

    @property
    def agrees(self) -> bool:
        """Whether the recommendation is the grid's fastest, or cannot be told from it."""
        by_k = {one.k: one for one in self.grid}
        ours, fastest = by_k[self.recommended], by_k[self.best.fastest]
        return ours.high >= fastest.low


def main(work: Path) -> int:
    work.mkdir(parents=True, exist_ok=True)
    first = work / "search.json"
    if not first.exists():
        run(work, "choose_k")
        write_atomically(first, concluded(work).model_dump_json(indent=1))
    run(work, "grid")
    search, grid = KSearch.model_validate_json(first.read_text()), concluded(work)
    compared = Compared(
        recommended=search.choice.k,
        starts_saved=search.starts_saved,
        predicted={
            one.k: round(one.speedup, 3)
            for one in (search.forecast.predicted if search.forecast else ())
        },
        searched=rounded(search),
        grid=rounded(grid),
        best=grid.choice,
    )
    write_atomically(RESULT, compared.model_dump_json(indent=1) + "\n")
    sys.stdout.write(compared.model_dump_json(indent=1) + "\n")
    return int(not compared.agrees)


def run(work: Path, search: str) -> None:
    """The real command, with its output to this one's."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*COMMAND, f"sweep.search={search}"], cwd=work, env=env, check=True)


def concluded(work: Path) -> KSearch:
    """What the records of the folder say, read as a search."""
    outputs = Outputs(work / "outputs", SWEEP)
    plan = read(outputs.folder / "plan.json", Plan).model_copy(update={"search": "choose_k"})
    evidence = gather(outputs, {cell.fingerprint for cell in plan.cells})
    (found,) = searches(plan, evidence, find(evidence))
    return found


def rounded(search: KSearch) -> tuple[MeasuredK, ...]:
    return tuple(
        MeasuredK(k=m.k, **{n: round(getattr(m, n), 3) for n in ("value", "low", "high")})
        for m in search.measured
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
