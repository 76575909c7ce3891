"""Real nights on this machine: quiet ones, and one for each thing that a night has to notice.

    python -m tests.benchmarks.nights WORK [nights to run, by name]

Every night is the real command in a process of its own, on real engines; only the hours between
the nights are left out. The suite has two cells of files that can be edited, with fewer repeats
than the shipped one has, and so calls only what is larger than 3 %; shipped_nights.py runs that
one. Each provoked night begins from the same history of quiet ones, which is kept beside the work
folder: started again, with names or without, the command goes on from there. What each night ended
with and said goes to results/nights.json, with how much the quiet nights differed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import exp, sqrt
from pathlib import Path
from statistics import fmean

import psutil
import yaml
from pydantic import Field

from jobs.history import History, level
from jobs.levels import Level, own_spread
from jobs.signals import SIGNALS, sample
from pipeline import zoo
from pipeline.execution import host
from pipeline.outputs import write_atomically
from pipeline.spec import Record
from pipeline.zoo import materialise

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
PROMPTS = ROOT / "pipeline" / "data" / "prompts" / "echo.jsonl"
TARGET, DRAFTER = zoo.TARGET, f"{zoo.TARGET}-eagle3"
LEARN, QUIET = 2, 3
SLICE_S = 0.02
COMMAND = (
    "+sweep=nightly_cpu model=mine method=[none,eagle3] dataset=[own]"
    " sweep.axes.k={eagle3:[1]} measure.max_tokens=24 measure.repeats=2"
)
RULE = {
    "effects": {"speedup": 0.03, "speed": 0.10, "length": 0.02},
    "assumed": {"speedup": 0.03, "speed": 0.15, "length": 0.005},
    "min_nights": LEARN,
}


class RealNight(Record):
    """What one night did."""

    name: str
    expected_exit: int
    exit_code: int
    wall_s: float
    title: str
    message: str

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it has to."""
        return self.exit_code == self.expected_exit


class RealNights(Record):
    """All nights, and how the quiet ones differed.

    Attributes:
        night_sd: by cell and signal, the standard deviation of the quiet nights' means (relative),
            and its part that the scatter of prompts explains.
        start_sd: by how much the starts of one night differ beyond that scatter, where there are
            several.
    """

    cpu: str
    cores: int
    nights: tuple[RealNight, ...]
    night_sd: dict[str, tuple[float, float]]
    start_sd: dict[str, float] = Field(default_factory=dict)


def prepare(work: Path) -> None:
    """A folder with a target, a drafter, prompts and a suite of its own, all of them editable."""
    conf = work / "conf"
    for folder in ("model", "dataset", "suite"):
        (conf / folder).mkdir(parents=True, exist_ok=True)
    for name, place in ((TARGET, "target"), (DRAFTER, "drafter")):
        shutil.copytree(materialise(name), work / place, dirs_exist_ok=True)
    shutil.copy(PROMPTS, work / "prompts.jsonl")
    model = yaml.safe_load((ROOT / "conf" / "model" / "smollm2-135m.yaml").read_text())
    model |= {"name": "mine", "checkpoint": str(work / "target")}
    model["drafters"] = {"eagle3": {"checkpoint": str(work / "drafter")}}
    dataset = {
        "name": "own",
        "source": {"kind": "path", "path": str(work / "prompts.jsonl")},
        "max_tokens": 128,
    }
    suite = yaml.safe_load((ROOT / "conf" / "suite" / "nightly_cpu.yaml").read_text())
    suite |= {"name": "real", "command": COMMAND.split(), "rule": RULE}
    suite |= {"starts": 1, "measure_again": 1}
    suite["tell"] = [{"kind": "console"}, {"kind": "file", "folder": str(work / "last")}]
    for kind, content in (("model", model), ("dataset", dataset), ("suite", suite)):
        path = conf / kind / f"{content['name']}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))


def run(work: Path, name: str, expected: int, *extra: str, half: bool = False) -> RealNight:
    """One night of the editable suite; `half` gives its engines half of their CPU time."""
    arguments = ["suite=real", "--config-dir", str(work / "conf"), *extra]
    return night_of(work, arguments, work / "last", name, expected, half=half)


def night_of(
    work: Path, arguments: list[str], last: Path, name: str, expected: int, *, half: bool = False
) -> RealNight:
    """One night of any suite, whose last message lies in `last`."""
    began = time.monotonic()
    with (work / f"{name}.log").open("w") as log:
        command = subprocess.Popen(
            [sys.executable, "-m", "jobs.nightly", *arguments],
            cwd=work,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        if half:
            hold_back(command.pid)
        code = command.wait()
    message = last / "message.md"
    text = message.read_text() if message.is_file() else ""
    found = RealNight(
        name=name,
        expected_exit=expected,
        exit_code=code,
        wall_s=round(time.monotonic() - began, 1),
        title=text.partition("\n")[0].removeprefix("# "),
        message=text,
    )
    print(f"{name}: {found.exit_code} (expected {expected}), {found.wall_s} s: {found.title}")
    return found


def hold_back(command: int) -> None:
    """Stop the engines of a running command half of the time, until it ends.

    Their threads stay as many as they are: another number would change the order of additions and
    with it some answers, which a night tells too.
    """
    looked, engines = 0.0, list[psutil.Process]()
    while psutil.pid_exists(command) and psutil.Process(command).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > looked + 1:
            looked, engines = time.monotonic(), _engines(command)
        for act in (psutil.Process.suspend, psutil.Process.resume):
            for engine in engines:
                with suppress(psutil.Error):
                    act(engine)
            time.sleep(SLICE_S)


def _engines(command: int) -> list[psutil.Process]:
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(command).children(recursive=True):
            with suppress(psutil.Error):
                if "pipeline.execution.engine_main" in process.cmdline():
                    found.append(process)
    return found


def edit_prompts(work: Path) -> None:
    """Change one word of the first prompt."""
    first, *rest = (work / "prompts.jsonl").read_text().splitlines()
    row = json.loads(first)
    row["prompt"] = f"Please: {row['prompt']}"
    (work / "prompts.jsonl").write_text("\n".join([json.dumps(row), *rest]) + "\n")


def edit_weights(folder: Path, wanted: Callable[[str], bool], *, random: bool) -> None:
    """Replace tensors by noise of their own size, or double them."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        for name, tensor in tensors.items():
            if wanted(name) and tensor.is_floating_point():
                noise = torch.randn(tensor.shape) * tensor.float().std()
                tensors[name] = (noise if random else 2 * tensor.float()).to(tensor.dtype)
        save_file(tensors, path, metadata={"format": "pt"})


def replace_drafter(work: Path) -> None:
    """Random weights where the trained drafter's were."""
    edit_weights(work / "drafter", lambda name: True, random=True)


def edit_checkpoint(work: Path) -> None:
    """Double the output of one layer of the target."""
    edit_weights(work / "target", lambda name: ".layers.15.mlp.down_proj" in name, random=False)


def provoked(work: Path) -> dict[str, Callable[[], RealNight]]:
    """A night for each thing to notice, by name."""

    def after(edit: Callable[[Path], None], name: str, expected: int) -> RealNight:
        edit(work)
        return run(work, name, expected)

    k = "sweep.axes.k={eagle3:[2]}"
    return {
        "half the CPU": lambda: run(work, "half the CPU", 4, half=True),
        "random drafter": partial(after, replace_drafter, "random drafter", 4),
        "K changed": lambda: run(work, "K changed", 4, k),
        "prompts edited": partial(after, edit_prompts, "prompts edited", 5),
        "checkpoint edited": partial(after, edit_checkpoint, "checkpoint edited", 4),
    }


def quiet_levels(work: Path, suite: str) -> dict[str, list[Level]]:
    """By cell and signal, the nights of a suite."""
    from jobs.keeping import everything
    from pipeline.tracking.ledger import Keeper

    history: History = everything(Keeper("nightly_cpu", None, work / "mlruns"), suite)
    found = {}
    for cell in history.nights[-1].cells:
        for signal in SIGNALS:
            of = partial(sample, signal=signal)
            every = (level(night, cell.fingerprint, of) for night in history.nights)
            if levels := [one for one in every if one]:
                found[f"{cell.label} {signal}"] = levels
    return found


def differences(levels: Mapping[str, list[Level]]) -> dict[str, tuple[float, float]]:
    """How the nights' means differed, and how much of that their prompts explain."""
    found = {}
    for name, nights in levels.items():
        spread = own_spread(nights)
        both = fmean(map(spread.of, nights))
        total, scatter = (sqrt(max(0.0, v)) for v in (both, both - spread.shift))
        found[name] = (round(exp(total) - 1, 4), round(exp(scatter) - 1, 4))
    return found


def start_differences(levels: Mapping[str, list[Level]]) -> dict[str, float]:
    """By how much the starts of one night differed beyond the scatter of their prompts."""
    found = {}
    for name, nights in levels.items():
        several = [night for night in nights if len(night.samples) - night.again > 1]
        if several:
            shift = fmean(own_spread(_starts(night)).shift for night in several)
            found[name] = round(exp(sqrt(max(0.0, shift))) - 1, 4)
    return found


def _starts(night: Level) -> list[Level]:
    usual = night.samples[: len(night.samples) - night.again]
    return [night._replace(samples=(one,), again=0) for one in usual]


def learned(work: Path) -> RealNights:
    """The nights that all others begin from."""
    prepare(work)
    names = [f"learning {i + 1}" for i in range(LEARN)] + [f"quiet {i + 1}" for i in range(QUIET)]
    nights = [run(work, name, 5 if name.startswith("learning") else 0) for name in names]
    facts = host.facts()
    return RealNights(
        cpu=str(facts["cpu"]),
        cores=os.cpu_count() or 0,
        nights=tuple(nights),
        night_sd=differences(quiet_levels(work, "real")),
    )


def main(argv: list[str]) -> int:
    work, wanted = Path(argv[0]).resolve(), argv[1:]
    saved = work.with_name(f"{work.name}.saved")
    so_far = saved / "nights.json"
    if not so_far.is_file():
        done = learned(work)
        shutil.copytree(work, saved, dirs_exist_ok=True)
        write_atomically(so_far, done.model_dump_json(indent=1) + "\n")
    done = RealNights.model_validate_json(so_far.read_text())
    for name, night in provoked(work).items():
        if not wanted or name in wanted:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(saved, work)
            tonight = night()
            others = tuple(one for one in done.nights if one.name != name)
            done = done.model_copy(update={"nights": (*others, tonight)})
            # Kept after every night, since one takes minutes.
            for path in (so_far, RESULTS / "nights.json"):
                write_atomically(path, done.model_dump_json(indent=1) + "\n")
    return int(not all(night.as_expected for night in done.nights))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
