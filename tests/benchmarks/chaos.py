"""A hundred kills: `python -m tests.benchmarks.chaos WORK_FOLDER [--kills 100] [--lock FILE]`

A real sweep of short cells (real Ray, real vLLM with its engine core in a process of its own,
n-gram drafts) is started again and again. Each time one process is killed with SIGKILL at a random
moment, by the clock or by the cells that are durable: the driver, Ray's raylet, the Ray worker, the
measuring process or the engine core. A command that lives through a kill meets the next one; one
that ends is followed by the same command. A sweep that is complete is compared with one that nobody
disturbed, and the next one begins.

Counted: what was at stake (cells that were durable at the moments of the kills, summed), cells lost
(durable once and gone, or missing at the end of a sweep), cells measured again after they were
durable, processes left 15 s after a kill that belong to nobody, and 15 s after the command's end at
all. What happened so far is kept in the work folder, so that it can be stopped at any time and goes
on; the figures are written beside this file when all kills are done.
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

from pipeline.execution.leftovers import orphans
from pipeline.outputs import Outputs

RESULT = Path(__file__).parent / "results" / "chaos.json"
MARK = "CHAOS_UNDER_TEST"
SWEEP = "smoke"
COMMAND = [
    *(sys.executable, "-m", "pipeline", f"+sweep={SWEEP}", "tracking=off"),
    *("method=ngram", "dataset=[short0,short1,short2,short3]", "sweep.axes.concurrency=[1,2,3]"),
    *("measure.max_tokens=6", "measure.warmup_tokens=4", "platform.engine_core=own_process"),
    "--config-dir=../options",
]
# Two prompts a data set, so that a cell takes about a second.
FILES = ("chat", "echo", "code", "json")
DATASET = "name: short{}\nsource: {{kind: bundled, file: {}.jsonl}}\nlimit: 2\nmax_tokens: 6\n"
VICTIMS = ("driver", "raylet", "worker", "measuring", "core")
TITLES, BEGAN = ("ray::", "VLLM::"), time.time()
GONE_S, COMMAND_S, CELLS, BY_CLOCK = 15.0, 900.0, 12, 0.75
LONGEST_WAIT_S, LONGEST_WAIT_FOR_THE_LAST_S = 25.0, 50.0
"""An engine's start takes most of the first; so that sweeps end too, the last cell has longer."""


@dataclass
class Tally:
    """What happened so far, and the kills still to be made."""

    plan: list[str]
    command: list[str] = field(default_factory=lambda: list(COMMAND))
    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    at_stake: int = 0
    commands: int = 0
    sweeps: int = 0
    cells_lost: int = 0
    measured_again: int = 0
    left_after_kill: int = 0
    left_after_end: int = 0
    other_identities: int = 0
    exit_codes: Counter[str] = field(default_factory=Counter)
    # Of the sweep in progress: by fingerprint, the start and the moment that measured it.
    durable: dict[str, str] = field(default_factory=dict)
    undisturbed: list[str] = field(default_factory=list)


def main() -> int:
    arguments = parsed()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    state = arguments.folder / "tally.json"
    tally = restored(state, arguments.kills)
    write_options(arguments.folder)
    lock = FileLock(arguments.lock or arguments.folder / "lock")
    if not tally.undisturbed:
        with lock:
            tally.undisturbed = undisturbed(arguments.folder / "undisturbed")
        state.write_text(json.dumps(vars(tally)))
    while tally.plan or tally.durable:  # the last sweep is led to its end by nobody killing it
        with lock:
            round_of(arguments.folder / "disturbed", tally)
        state.write_text(json.dumps(vars(tally)))
        report(tally)
    RESULT.write_text(json.dumps(figures(tally), indent=1) + "\n")
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--lock", type=Path, help="held while a command runs")
    return parser.parse_args()


def restored(state: Path, kills: int) -> Tally:
    if not state.exists():
        plan = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
        random.shuffle(plan)
        return Tally(plan)
    kept = json.loads(state.read_text())
    if kept["command"] != COMMAND:
        sys.exit(f"{state} is of another command, whose cells have other identities: begin anew")
    counters = {name: Counter(kept[name]) for name in ("kills", "moments", "exit_codes")}
    return Tally(**kept | counters)


def write_options(folder: Path) -> None:
    place = folder / "options" / "dataset"
    place.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(FILES):
        (place / f"short{number}.yaml").write_text(DATASET.format(number, file))


def started(folder: Path) -> subprocess.Popen[bytes]:
    """The command, in a folder of its own whose mark all its processes carry."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            COMMAND,
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, MARK: str(folder)},
            start_new_session=True,
        )


def undisturbed(folder: Path) -> list[str]:
    """The identities of a sweep that nobody disturbs."""
    shutil.rmtree(folder, ignore_errors=True)
    assert started(folder).wait(COMMAND_S) == 0, (folder / "log").read_text()
    return sorted(r.fingerprint for r in Outputs(folder / "outputs", SWEEP).cells())


def round_of(folder: Path, tally: Tally) -> None:
    """One command, kills for as long as it lives, and what all of them left."""
    process = started(folder)
    tally.commands += 1
    victims = []
    while tally.plan and (moment := kill(folder, tally.plan[-1], process)):
        victims.append(tally.plan.pop())
        tally.kills[victims[-1]] += 1
        tally.moments[moment] += 1
        tally.at_stake += durable(folder)
        time.sleep(GONE_S)
        tally.left_after_kill += len(nobodys(folder))
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
    count(folder, tally)
    if process.returncode == 0:
        finish(folder, tally)


def kill(folder: Path, victim: str, process: subprocess.Popen[bytes]) -> str:
    """Wait for the victim and for a random moment; what chose it, or nothing if none came."""
    left = CELLS - durable(folder)
    by_clock = random.random() < BY_CLOCK or left < 2
    seconds = random.uniform(0, LONGEST_WAIT_FOR_THE_LAST_S if left < 2 else LONGEST_WAIT_S)
    cells = CELLS - left + random.randrange(1, max(left, 2))
    there = None
    while process.poll() is None:
        time.sleep(0.25)
        there = there or (time.monotonic() if found(folder, victim, process) else None)
        due = time.monotonic() > (there or 0) + seconds if by_clock else durable(folder) >= cells
        targets = found(folder, victim, process) if there and due else []
        with suppress(psutil.Error):
            for target in targets[:1]:
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


def found(folder: Path, victim: str, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    if victim == "driver":
        return [psutil.Process(process.pid)] if process.poll() is None else []
    return [p for p in marked(folder) if is_a(victim, p)]


def is_a(victim: str, process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return {
            "raylet": process.name() == "raylet",
            "worker": line.startswith("ray::on_node"),
            "measuring": "pipeline.execution.engine_main" in line,
            "core": "EngineCore" in line,
        }[victim]
    return False


def marked(folder: Path) -> list[psutil.Process]:
    """Everything that a command in the folder has running."""
    here = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            mark = process.environ().get(MARK, "")
            if process.status() != psutil.STATUS_ZOMBIE and (
                mark == str(folder) or (not mark and titled(process))
            ):
                here.append(process)
    return here


def titled(process: psutil.Process) -> bool:
    """Whether it has a title of Ray's or vLLM's and is younger than this script.

    Who sets a title may write it over its environment. So nothing else may run Ray here meanwhile.
    """
    title = " ".join(process.cmdline()) or process.name()
    return process.create_time() > BEGAN and title.startswith(TITLES)


def nobodys(folder: Path) -> list[psutil.Process]:
    pids = {p.pid for p in marked(folder)}
    return [p for p in orphans() if p.pid in pids]


def gone_by(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while marked(folder) and time.monotonic() < deadline:
        time.sleep(0.2)


def count(folder: Path, tally: Tally) -> None:
    """Compare what is durable now with what was before."""
    now = measured(folder)
    tally.cells_lost += len(tally.durable.keys() - now.keys())
    tally.measured_again += sum(now[f] != moment for f, moment in tally.durable.items() if f in now)
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
    for name in ("plan", "command", "durable", "undisturbed"):
        kept.pop(name)
    return {"cells_of_a_sweep": len(tally.undisturbed), **kept}


def report(tally: Tally) -> None:
    sys.stdout.write(f"{len(tally.plan)} kills to go: {json.dumps(figures(tally))}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
