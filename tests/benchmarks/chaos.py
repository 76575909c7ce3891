"""Random kills: `python -m tests.benchmarks.chaos WORK_FOLDER [OVERRIDE ...] [--kills N]`

Real sweeps of short cells (real Ray, real vLLM with its engine core in a process of its own, plain
decoding and n-gram drafts) are started again and again, every other one with the baseline beside
its method, and every other one with the baseline around it. Each time one process is killed with
SIGKILL at a random moment, by the clock or by the cells that are durable: the driver, Ray's raylet,
the Ray worker, the measuring process or the engine core. A command that lives through a kill meets
the next one; one that ends is followed by the same command. A sweep that is complete is compared
with one that nobody disturbed, and the next one begins.

Counted: what was at stake (cells that were durable at the moments of the kills, summed); cells lost
(durable once and gone, or missing at the end of a sweep, or of a command that hangs); cells
measured again after they were durable, of which those whose baseline was cut off at one end are
counted by themselves, since only measuring them again gives them one; processes left 15 s after a
kill outside the tree of the command, and 15 s after its end at all; shared memory that a command
left; tracebacks that it showed.

What happened so far is kept in the work folder, so that it can be stopped at any time and goes on.
Each work folder is a run, and its figures stand beside this file with those of other runs; the
first one was made before baselines, what was at stake, shared memory and tracebacks were counted.
Overrides go to the command: `platform.engine_args.dtype=float32` spares a processor without bf16.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from filelock import FileLock

from pipeline.execution import host
from pipeline.outputs import Outputs
from pipeline.provenance import git_commit
from tests.benchmarks.victims import MARK, VICTIMS, found, gone_by, marked, nobodys

RESULT = Path(__file__).parent / "results" / "chaos.json"
SWEEP = "smoke"
COMMAND = [
    *(sys.executable, "-m", "pipeline", f"+sweep={SWEEP}", "tracking=off"),
    *("method=[none,ngram]", "dataset=[short0,short1,short2]", "sweep.axes.concurrency=[1,2]"),
    *("measure.max_tokens=6", "measure.warmup_tokens=4", "platform.engine_core=own_process"),
    "--config-dir=../options",
]
PAIRINGS = ("interleaved", "bracketed")
# Two prompts a data set, so that a cell takes about a second.
FILES = ("chat", "echo", "code")
DATASET = "name: short{}\nsource: {{kind: bundled, file: {}.jsonl}}\nlimit: 2\nmax_tokens: 6\n"
GONE_S, COMMAND_S, CELLS, BY_CLOCK = 15.0, 900.0, 12, 0.75
LONGEST_WAIT, LONGEST_WAIT_FOR_THE_LAST = 0.3, 0.8
"""Shares of what a sweep takes that nobody disturbs: an engine's start takes most of the first; so
that sweeps end too, the last cell has longer."""
SHARED = Path("/dev/shm")


@dataclass
class Tally:
    """What happened so far, and the kills still to be made."""

    plan: list[str]
    command: list[str]
    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    at_stake: int = 0
    commands: int = 0
    sweeps: int = 0
    cells_lost: int = 0
    measured_again: int = 0
    measured_again_for_a_baseline: int = 0
    left_after_kill: int = 0
    left_after_end: int = 0
    shared_memory_left: int = 0
    tracebacks: int = 0
    other_identities: int = 0
    exit_codes: Counter[str] = field(default_factory=Counter)
    # Of the sweep in progress: by fingerprint, the start and the moment that measured it.
    durable: dict[str, str] = field(default_factory=dict)
    undisturbed: list[str] = field(default_factory=list)
    undisturbed_s: float = 0.0
    commit: str = field(default_factory=lambda: str(git_commit()))
    cpu: str = field(default_factory=lambda: str(host.facts()["cpu"]))

    @property
    def pairing(self) -> str:
        """How the sweep in progress brings its baseline close in time."""
        return PAIRINGS[self.sweeps % len(PAIRINGS)]


def main() -> int:
    arguments = parsed()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    state = arguments.folder / "tally.json"
    tally = restored(state, [*COMMAND, *arguments.overrides], arguments.kills)
    write_options(arguments.folder)
    lock = FileLock(arguments.lock or arguments.folder / "lock")
    if not tally.undisturbed:
        with lock:
            undisturbed(arguments.folder / "undisturbed", tally)
        state.write_text(json.dumps(vars(tally)))
    while tally.plan or tally.durable:  # the last sweep is led to its end by nobody killing it
        with lock:
            round_of(arguments.folder / "disturbed", tally)
        state.write_text(json.dumps(vars(tally)))
        report(tally)
        keep(arguments.folder.name, figures(tally))
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*", help="of the command")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--lock", type=Path, help="held while a command runs")
    return parser.parse_intermixed_args()


def restored(state: Path, command: list[str], kills: int) -> Tally:
    if not state.exists():
        # In rounds of all kinds, so that a run that is cut short has met each of them as often.
        rounds = (random.sample(VICTIMS, len(VICTIMS)) for _ in range(0, kills, len(VICTIMS)))
        return Tally([victim for one in rounds for victim in one][:kills], command)
    kept = json.loads(state.read_text())
    if kept["command"] != command:
        sys.exit(f"{state} is of another command, whose cells have other identities: begin anew")
    counters = {name: Counter(kept[name]) for name in ("kills", "moments", "exit_codes")}
    return Tally(**kept | counters)


def write_options(folder: Path) -> None:
    place = folder / "options" / "dataset"
    place.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(FILES):
        (place / f"short{number}.yaml").write_text(DATASET.format(number, file))


def started(folder: Path, command: list[str], pairing: str) -> subprocess.Popen[bytes]:
    """The command, in a folder of its own whose mark all its processes carry."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, f"platform.pairing={pairing}"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, MARK: str(folder)},
            start_new_session=True,
        )


def undisturbed(folder: Path, tally: Tally) -> None:
    """Tell what a sweep takes that nobody disturbs, in seconds, and the identities of its cells."""
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    process = started(folder, tally.command, PAIRINGS[0])
    assert process.wait(COMMAND_S) == 0, (folder / "log").read_text()
    tally.undisturbed_s = time.monotonic() - began
    tally.undisturbed = sorted(r.fingerprint for r in Outputs(folder / "outputs", SWEEP).cells())


def round_of(folder: Path, tally: Tally) -> None:
    """One command, kills for as long as it lives, and what all of them left."""
    process = started(folder, tally.command, tally.pairing)
    tally.commands += 1
    said, shared, victims = (folder / "log").stat().st_size, set(SHARED.iterdir()), []
    while tally.plan and (moment := kill(folder, tally, process)):
        victims.append(tally.plan.pop())
        tally.kills[victims[-1]] += 1
        tally.moments[moment] += 1
        tally.at_stake += len(tally.durable)
        time.sleep(GONE_S)
        tally.left_after_kill += len(nobodys(folder, process))
        count(folder, tally)
    with suppress(subprocess.TimeoutExpired):
        process.wait(COMMAND_S)
    if process.poll() is None:
        # A command that hangs is as bad as a lost sweep.
        tally.cells_lost += len(tally.undisturbed)
        process.kill()
        process.wait()
    tally.exit_codes[f"{' '.join(victims) or 'none'}: {process.returncode}"] += 1
    gone_by(folder, GONE_S)
    tally.left_after_end += len(marked(folder))
    tally.shared_memory_left += len(set(SHARED.iterdir()) - shared)
    tally.tracebacks += (folder / "log").read_bytes()[said:].count(b"Traceback (most recent")
    count(folder, tally)
    if process.returncode == 0:
        finish(folder, tally)


def kill(folder: Path, tally: Tally, process: subprocess.Popen[bytes]) -> str:
    """Wait for the victim and for a random moment; what chose it, or nothing if none came."""
    victim, left = tally.plan[-1], CELLS - durable(folder)
    by_clock = random.random() < BY_CLOCK or left < 2
    longest = LONGEST_WAIT_FOR_THE_LAST if left < 2 else LONGEST_WAIT
    seconds = random.uniform(0, longest * tally.undisturbed_s)
    cells = CELLS - left + random.randrange(1, max(left, 2))
    there, deadline = None, time.monotonic() + COMMAND_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.25)
        there = there or (time.monotonic() if found(folder, victim, process) else None)
        due = time.monotonic() > (there or 0) + seconds if by_clock else durable(folder) >= cells
        targets = found(folder, victim, process) if there and due else []
        with suppress(psutil.Error):
            for target in targets[:1]:
                count(folder, tally)
                target.kill()
                return "clock" if by_clock else "cells"
    return ""


def measured(folder: Path) -> dict[str, str]:
    """Of every cell that is durable and OK, the start and the moment that measured it."""
    return {
        record.fingerprint: f"{record.start_id} {record.started_at}"
        for record in Outputs(folder / "outputs", SWEEP).cells()
        if record.status == "OK"
    }


def durable(folder: Path) -> int:
    """How many cells no kill may lose any more; one that failed has a record too."""
    return len(measured(folder))


def count(folder: Path, tally: Tally) -> None:
    """Compare what is durable now with what was before."""
    now = measured(folder)
    tally.cells_lost += len(tally.durable.keys() - now.keys())
    again = sum(now[f] != moment for f, moment in tally.durable.items() if f in now)
    if tally.pairing == "bracketed":
        tally.measured_again_for_a_baseline += again
    else:
        tally.measured_again += again
    tally.durable = now


def finish(folder: Path, tally: Tally) -> None:
    """A command told that it was done: every cell has to be there; the next sweep begins."""
    tally.cells_lost += len(set(tally.undisturbed) - tally.durable.keys())
    tally.other_identities += len(tally.durable.keys() - set(tally.undisturbed))
    tally.sweeps += 1
    tally.durable = {}
    shutil.move(folder / "log", folder.parent / f"sweep{tally.sweeps}.log")
    shutil.rmtree(folder)


def figures(tally: Tally) -> dict[str, object]:
    kept = dict(vars(tally))
    for name in ("plan", "command", "durable", "undisturbed", "undisturbed_s"):
        kept.pop(name)
    overrides = tally.command[len(COMMAND) :]
    return {"cells_of_a_sweep": len(tally.undisturbed), "overrides": overrides, **kept}


def keep(run: str, figures: dict[str, object]) -> None:
    """Put a run's figures beside those of the others."""
    others = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    RESULT.write_text(json.dumps({**others, run: figures}, indent=1) + "\n")


def report(tally: Tally) -> None:
    sys.stdout.write(f"{len(tally.plan)} kills to go: {json.dumps(figures(tally))}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
