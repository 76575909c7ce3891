"""Simulated nights: how often the nightly verdict is wrong, and how soon it finds what is there.

    python -m tests.benchmarks.simulated_nights

Nothing here is measured; the noise that is simulated is stated beside every figure. The first rows
have the rule, the prompts, the repeats and the starts of the suite `nightly_cpu`, and the noise of
real nights (results/shipped_nights.json). Each simulated night measures every cell against a
baseline beside it, a prompt at a time; a cell that looks moved is measured again, as a real night
does.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from math import log, sqrt
from pathlib import Path

import numpy as np
from pydantic import Field

from jobs.history import settled
from jobs.levels import Level, Spread, own_spread, suite_spread
from jobs.loading import load_suite
from jobs.moves import Watched, called, suspected
from jobs.signals import Signal, size
from jobs.suite import NightRule
from pipeline.outputs import write_atomically
from pipeline.spec import Record

RESULTS = Path(__file__).parent / "results"
FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)
SHIPPED = load_suite("nightly_cpu")
FOUND_FIRST_NIGHT, FOUND_WITHIN_THREE, QUARTERS = 0.90, 0.80, 4


@dataclass(frozen=True)
class SimulatedNights:
    """A suite on a simulated machine; standard deviations are of natural logarithms.

    Attributes:
        starts: of each engine a night, before anything is measured again.
        request_sd: of the ratio of two requests with the same true cost; 0.075 makes the scatter of
            six real nights' means, 0.0115 and 0.0073 of two cells (results/shipped_nights.json);
            they had one repeat each.
        start_sd: of what one start of an engine shifts all its ratios by; 0.0116, averaged over
            three starts, makes the 0.0067 by which those nights differed beyond their scatter.
            Within a night their starts differed by 0.0179 and 0.0071.
        night_sd: of what one night shifts all ratios of a cell by beyond that; none was seen.
        machine_sd: of what one night shifts absolute speeds by; ratios are free of it.
        prompt_sd: of the true ratio over prompts.
    """

    cells: int = 40
    prompts: int = 20
    repeats: int = 2
    starts: int = SHIPPED.starts
    request_sd: float = 0.075
    start_sd: float = 0.0116
    night_sd: float = 0.0
    machine_sd: float = 0.10
    prompt_sd: float = 0.2


class SimulatedCell:
    """One cell: its true ratios, and the nights so far."""

    def __init__(self, nights: SimulatedNights, rng: np.random.Generator, signal: Signal) -> None:
        self.nights, self.rng, self.signal = nights, rng, signal
        self.true = rng.normal(0, nights.prompt_sd, nights.prompts)
        self.levels: list[Level] = []

    def measure(self, night: int, shift: float) -> Level:
        """A night's samples of a cell that is truly `exp(shift)` times as fast as it was."""
        sd = self.nights.night_sd if self.signal == "speedup" else self.nights.machine_sd
        self._tonight = self.rng.normal(0, sd) + shift
        at = FIRST + timedelta(days=night)
        samples = tuple(self._sample() for _ in range(self.nights.starts))
        return Level(f"{night:04d}", at.isoformat(), samples, good=True)

    def again(self, tonight: Level, count: int) -> Level:
        """The same night, with new starts of the engine."""
        new = (self._sample() for _ in range(count))
        return tonight._replace(samples=(*tonight.samples, *new), again=count)

    def _sample(self) -> dict[str, float]:
        noise = self.nights
        own = noise.request_sd / sqrt(noise.repeats)
        start = self._tonight + self.rng.normal(0, noise.start_sd)
        values = self.true + start + self.rng.normal(0, own, noise.prompts)
        return dict(zip(_prompts(noise.prompts), values, strict=True))


class SimulatedSuite:
    """Cells of one signal, judged night by night as real ones are."""

    def __init__(
        self,
        nights: SimulatedNights,
        rule: NightRule,
        rng: np.random.Generator,
        signal: Signal = "speedup",
    ) -> None:
        self.rule, self.signal = rule, signal
        self.cells = [SimulatedCell(nights, rng, signal) for _ in range(nights.cells)]
        self.measured_again = 0
        self._last: set[int] = set()

    def quiet(self, nights: int) -> None:
        """Nights that nobody judged: a history to begin with."""
        for night in range(nights):
            for cell in self.cells:
                cell.levels.append(cell.measure(night, 0.0))

    def night(self, night: int, shift: float = 0.0) -> list[int]:
        """One judged night; returns the cells that were called and were not the night before."""
        spread = self._spread()
        found = []
        for i, cell in enumerate(self.cells):
            tonight = cell.measure(night, shift)
            if suspected(self._watched(cell, tonight, spread), self.rule):
                tonight = cell.again(tonight, SHIPPED.measure_again)
                self.measured_again += 1
                if called(self._watched(cell, tonight, spread), self.rule):
                    tonight = tonight._replace(good=False)
                    found.append(i)
            cell.levels.append(tonight)
        news = [i for i in found if i not in self._last]
        self._last = set(found)
        return news

    def _watched(self, cell: SimulatedCell, tonight: Level, spread: Spread) -> Watched:
        return Watched(self.signal, tonight, tuple(cell.levels[-60:]), None, spread)

    def _spread(self) -> Spread:
        good = (settled(cell.levels, None, self.rule) for cell in self.cells)
        assumed = size(self.signal, self.rule.assumed)
        return suite_spread(map(own_spread, good), assumed, self.rule.assumed_nights)


class SimulatedOutcome(Record):
    """What one simulated suite came to; shares are of cells.

    Attributes:
        effect, assumed: what the rule says of this signal; all else is as in every rule.
        false_alarms_a_year: messages about a cell in 365 nights in which nothing changed.
        measured_again_a_night: cells measured again in such a night.
        found_first_night: a slow-down of 5 %, called in its first night.
        found_within_three: a slow-down of 3 %, called within three nights.
        drift_found_within_28: slower by 1 % a week, called within 28 nights.
        drift_nights: the median number of nights until then.
        peers_false_alarms_a_year: of a fixed 3 % on one run's absolute speed against the last run.
        peers_found_first_night: a slow-down of 5 % that this rule calls in its first night.
        peers_paired_false_alarms_a_year: the same on one run's ratio to a baseline beside it.
        peers_paired_found_first_night: the same.
    """

    noise: dict[str, float]
    signal: Signal
    effect: float
    assumed: float
    false_alarms_a_year: int
    measured_again_a_night: float
    found_first_night: float
    found_within_three: float
    drift_found_within_28: float
    drift_nights: float | None
    peers_false_alarms_a_year: int
    peers_found_first_night: float
    peers_paired_false_alarms_a_year: int
    peers_paired_found_first_night: float


class SimulatedReport(Record):
    """All rows, the rule of the shipped suite, and the seed."""

    rule: NightRule
    seed: int
    trials: int
    outcomes: tuple[SimulatedOutcome, ...]
    promises_kept: bool = Field(description="of the first row")


def simulate(
    noise: SimulatedNights,
    rule: NightRule,
    seed: int,
    trials: int,
    signal: Signal = "speedup",
    year: int = 365,
) -> SimulatedOutcome:
    """One row: a quiet year, and slow-downs that begin after a quiet month."""
    rng = np.random.default_rng(seed)
    quiet = SimulatedSuite(noise, rule, rng, signal)
    alarms = sum(len(quiet.night(night)) for night in range(year))
    five = _nights_to_find(noise, rule, rng, trials, signal, [log(1 / 1.05)])
    three = _nights_to_find(noise, rule, rng, trials, signal, [log(1 / 1.03)] * 3)
    week = [log(1 / 1.01) * night / 7 for night in range(1, 29)]
    drifting = _nights_to_find(noise, rule, rng, trials, signal, week)
    found = [nights for nights in drifting if nights is not None]
    absolute, paired = (_peers(noise, rng, one, year) for one in (True, False))
    return SimulatedOutcome(
        noise={name: float(value) for name, value in asdict(noise).items()},
        signal=signal,
        effect=size(signal, rule.effects),
        assumed=size(signal, rule.assumed),
        false_alarms_a_year=round(alarms * 365 / year),
        measured_again_a_night=round(quiet.measured_again / year, 2),
        found_first_night=_share(five),
        found_within_three=_share(three),
        drift_found_within_28=_share(drifting),
        drift_nights=float(np.median(found)) if found else None,
        peers_false_alarms_a_year=round(absolute[0] * 365 / year),
        peers_found_first_night=absolute[1],
        peers_paired_false_alarms_a_year=round(paired[0] * 365 / year),
        peers_paired_found_first_night=paired[1],
    )


def _nights_to_find(
    noise: SimulatedNights,
    rule: NightRule,
    rng: np.random.Generator,
    trials: int,
    signal: Signal,
    shifts: list[float],
) -> list[int | None]:
    """By cell, the first night called (from 1), or None; every cell is a trial of its own."""
    first: list[int | None] = []
    while len(first) < trials:
        suite = SimulatedSuite(noise, rule, rng, signal)
        suite.quiet(28)
        found: dict[int, int] = {}
        for night, shift in enumerate(shifts, 1):
            for cell in suite.night(27 + night, shift):
                found.setdefault(cell, night)
        first += [found.get(i) for i in range(noise.cells)]
    return first[:trials]


def _peers(
    noise: SimulatedNights, rng: np.random.Generator, absolute: bool, year: int
) -> tuple[int, float]:
    """A fixed 3 % on the mean of one run against the last: false alarms, and 5 % found at once."""
    within = noise.request_sd / sqrt(noise.repeats * noise.prompts)
    shared = noise.machine_sd if absolute else noise.night_sd
    sd = sqrt(within**2 + noise.start_sd**2 + shared**2)
    runs = rng.normal(0, sd, (year, noise.cells))
    steps = np.diff(runs, axis=0)
    false = int((np.abs(np.expm1(steps)) > 0.03).sum())
    found = np.expm1(rng.normal(0, sd * sqrt(2), 100_000) - log(1.05)) < -0.03
    return false, round(float(found.mean()), 3)


def _share(first: list[int | None]) -> float:
    return round(sum(night is not None for night in first) / len(first), 3)


def _prompts(count: int) -> list[str]:
    return [f"p{i:02d}" for i in range(count)]


def promises_kept(one: SimulatedOutcome) -> bool:
    """Whether a row keeps all four promises."""
    return (
        one.false_alarms_a_year <= QUARTERS
        and one.found_first_night >= FOUND_FIRST_NIGHT
        and one.found_within_three >= FOUND_WITHIN_THREE
        and one.drift_found_within_28 >= FOUND_FIRST_NIGHT
    )


def rows(noise: SimulatedNights) -> list[tuple[SimulatedNights, Signal, NightRule]]:
    """What is simulated: the shipped suite's rule and repeats, with one noise after the other.

    The second row has half as much noise again. The third has one repeat, as the real nights had
    whose noise this is. The fourth is what the suite did before it asked for several starts: one,
    with four repeats. In the next all that nights differ by is the night's own, which no start
    averages. The sixth is the noise of five other real nights, with one start and two repeats of
    24 tokens (nights.json). The others are absolute speeds.
    """
    more = {sd: 1.5 * getattr(noise, sd) for sd in ("request_sd", "start_sd", "night_sd")}
    apart = sqrt(noise.start_sd**2 / noise.starts + noise.night_sd**2)
    other = replace(noise, request_sd=0.082, start_sd=0.005, night_sd=0.0037, repeats=2, starts=1)
    return [
        (noise, "speedup", SHIPPED.rule),
        (replace(noise, **more), "speedup", SHIPPED.rule),
        (replace(noise, repeats=1), "speedup", SHIPPED.rule),
        (replace(noise, starts=1, repeats=4), "speedup", SHIPPED.rule),
        (replace(noise, start_sd=0.0, night_sd=apart), "speedup", SHIPPED.rule),
        (other, "speedup", SHIPPED.rule),
        (noise, "speed", SHIPPED.rule),
        (replace(noise, machine_sd=0.01), "speed", NightRule()),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20260101)
    for name, value in asdict(SimulatedNights()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = vars(parser.parse_args())
    trials, seed = given.pop("trials"), given.pop("seed")
    noises, signals, rules = zip(*rows(SimulatedNights(**given)), strict=True)
    outcomes = []
    with ProcessPoolExecutor() as pool:
        each = pool.map(simulate, noises, rules, repeat(seed), repeat(trials), signals)
        for outcome in each:
            outcomes.append(outcome)
            print(outcome.model_dump_json(), flush=True)
    report = SimulatedReport(
        rule=SHIPPED.rule,
        seed=seed,
        trials=trials,
        outcomes=tuple(outcomes),
        promises_kept=promises_kept(outcomes[0]),
    )
    write_atomically(RESULTS / "simulated_nights.json", report.model_dump_json(indent=1) + "\n")
    return int(not report.promises_kept)


if __name__ == "__main__":
    sys.exit(main())
