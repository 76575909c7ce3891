"""How often verdicts are right, on a simulated machine whose truth is known. Nothing is measured.

    python -m tests.benchmarks.calibration                     # noise of a busy shared machine
    python -m tests.benchmarks.calibration --ratio-sd 0.02     # noise of a quiet machine

Writes `results/simulated_calibration.md` and `.json` beside this file and ends with 1 where a
promise is not kept: at most 5 % of comparisons of a method with itself are called a change, and a
true 5 % effect is found in at least 90 % at 20 prompts x 3 repeats.
"""

import argparse
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from pipeline.analysis.statistics import Rule
from pipeline.analysis.verdict import Comparison, compare
from pipeline.analysis.wording import excludes_one
from pipeline.outputs import write_atomically
from pipeline.platforms import Pairing
from pipeline.spec import Record
from tests.benchmarks.simulated import SimulatedNoise, simulated_pair

RESULTS = Path(__file__).resolve().parent / "results"
MAX_FALSE_ALARMS, MIN_FOUND = 0.05, 0.90
PROMPT_COUNTS = (10, 15, 20, 30, 40, 60, 80)
TABLE_SIZE = 8


@dataclass(frozen=True)
class Scenario:
    """One simulated situation; `table` comparisons are judged together (Holm)."""

    name: str
    effect: float
    noise: SimulatedNoise
    prompts: int = 20
    repeats: int = 3
    pairing: Pairing | None = "interleaved"
    table: int = 1


class SimulatedOutcome(Record):
    """What verdicts said of one scenario, as shares of `trials` simulated tables.

    Attributes:
        called: tables with at least one comparison called better or worse.
        right: tables in which the truth was called: the effect's direction, or nothing.
        interval_excludes_1: comparisons whose interval excludes 1, however small the effect.
    """

    scenario: str
    simulated: bool = True
    simulated_noise: dict[str, float]
    true_effect: float
    prompts: int
    repeats: int
    pairing: str
    table: int
    trials: int
    called: float
    right: float
    interval_excludes_1: float
    verdicts: dict[str, int]


class SimulatedCalibration(Record):
    """The whole run: the rule it used, every outcome, and the two promises."""

    schema_version: int = 1
    simulated: bool = True
    rule: Rule
    seed: int
    outcomes: tuple[SimulatedOutcome, ...]
    false_alarms: float
    found: float
    prompts_for_promise: dict[str, int | None]


def scenarios(noise: SimulatedNoise) -> list[Scenario]:
    """The two promises first, then what bends them."""
    loud = replace(noise, ratio_sd=noise.ratio_sd * 2)
    calmer = replace(noise, drift=noise.drift / 2)
    still = replace(noise, drift=0.0)
    return [
        Scenario("no effect", 0.0, noise),
        Scenario("5 % faster", 0.05, noise),
        Scenario("5 % slower", 1 / 1.05 - 1, noise),
        Scenario("no effect, the fewest prompts judged", 0.0, noise, prompts=5),
        Scenario("no effect, one repeat", 0.0, noise, repeats=1),
        Scenario("no effect, twice the noise", 0.0, loud),
        Scenario("5 % faster, twice the noise", 0.05, loud),
        Scenario(f"no effect, tables of {TABLE_SIZE}", 0.0, noise, table=TABLE_SIZE),
        Scenario(f"5 % faster, tables of {TABLE_SIZE}", 0.05, noise, table=TABLE_SIZE),
        Scenario("no effect, not paired in time", 0.0, noise, pairing=None),
        Scenario("no effect, bracketed", 0.0, noise, pairing="bracketed"),
        Scenario("no effect, bracketed, half the drift", 0.0, calmer, pairing="bracketed"),
        Scenario("no effect, bracketed, no drift", 0.0, still, pairing="bracketed"),
        Scenario("5 % faster, bracketed, no drift", 0.05, still, pairing="bracketed"),
    ]


def simulate(scenario: Scenario, rule: Rule, trials: int, seed: int) -> SimulatedOutcome:
    rng = np.random.default_rng(seed)
    tables = [_table(scenario, rule, rng) for _ in range(trials)]
    rows = [row for table in tables for row in table]
    truth = {"better": scenario.effect > 0, "worse": scenario.effect < 0}
    called = [[row.verdict for row in table if row.verdict in truth] for table in tables]
    wanted = [word for word, true in truth.items() if true] * scenario.table
    return SimulatedOutcome(
        scenario=scenario.name,
        simulated_noise=asdict(scenario.noise),
        true_effect=scenario.effect,
        prompts=scenario.prompts,
        repeats=scenario.repeats,
        pairing=scenario.pairing or "none",
        table=scenario.table,
        trials=trials,
        called=sum(map(bool, called)) / trials,
        right=sum(words == wanted for words in called) / trials,
        interval_excludes_1=sum(bool(r.estimate and excludes_one(r.estimate)) for r in rows)
        / len(rows),
        verdicts=dict(Counter(row.verdict for row in rows).most_common()),
    )


def _table(scenario: Scenario, rule: Rule, rng: np.random.Generator) -> tuple[Comparison, ...]:
    pairs = [
        simulated_pair(
            scenario.noise,
            rng,
            prompts=scenario.prompts,
            repeats=scenario.repeats,
            effect=scenario.effect,
            pairing=scenario.pairing,
        )
        for _ in range(scenario.table)
    ]
    return compare(pairs, rule)


def prompts_needed(
    noise: SimulatedNoise, rule: Rule, trials: int, seed: int
) -> tuple[int | None, list[SimulatedOutcome]]:
    """The fewest prompts tried at which a 5 % effect is found often enough, None of none."""
    tried = []
    for prompts in PROMPT_COUNTS:
        name = f"5 % faster, differing by {noise.effect_sd:.0%} between prompts"
        scenario = Scenario(name, 0.05, noise, prompts=prompts)
        tried.append(simulate(scenario, rule, trials, seed))
        if tried[-1].right >= MIN_FOUND:
            return prompts, tried
    return None, tried


def calibrate(noise: SimulatedNoise, rule: Rule, trials: int, seed: int) -> SimulatedCalibration:
    outcomes = [simulate(scenario, rule, trials, seed) for scenario in scenarios(noise)]
    needed: dict[str, int | None] = {}
    promised = outcomes[:2]
    for effect_sd in (0.0, 0.05, 0.10):
        differing = replace(noise, effect_sd=effect_sd)
        needed[f"{effect_sd:.0%}"], tried = prompts_needed(differing, rule, trials, seed)
        outcomes += tried
    return SimulatedCalibration(
        rule=rule,
        seed=seed,
        outcomes=tuple(outcomes),
        false_alarms=promised[0].called,
        found=promised[1].right,
        prompts_for_promise=needed,
    )


def markdown(done: SimulatedCalibration) -> str:
    """The run as a page; every figure on it is simulated."""
    noise, first = done.outcomes[0].simulated_noise, done.outcomes[0]
    lines = [
        "# Simulated calibration of the verdicts",
        "",
        "Every figure here comes from a simulated machine; none is a measurement. Made by"
        " `python -m tests.benchmarks.calibration`.",
        "",
        f"Simulated noise: neighbouring requests differ by {noise['ratio_sd']:.0%} (standard"
        f" deviation of the log ratio), the machine slows by {noise['drift']:.0%} within"
        f" {noise['drift_s'] / 60:.0f} minutes and recovers, a request takes"
        f" {noise['request_s']:.0f} s. {first.trials} trials a row, seed {done.seed}; a change is"
        f" called above {done.rule.min_effect:.0%} with a {done.rule.confidence:.0%} interval.",
        "",
        f"- Called a change where there is none: **{done.false_alarms:.1%}**"
        f" (promised: at most {MAX_FALSE_ALARMS:.0%}).",
        f"- A true 5 % effect found at 20 prompts x 3 repeats: **{done.found:.1%}**"
        f" (promised: at least {MIN_FOUND:.0%}).",
        "- Fewest prompts tried that keep the second promise, where the effect itself differs"
        f" between prompts by: {_needed(done)}.",
        "",
        "| simulated situation | prompts | repeats | pairing | called | right"
        " | interval excludes 1 | verdicts |",
        "|---|---:|---:|---|---:|---:|---:|---|",
        *map(_row, done.outcomes),
    ]
    return "\n".join(lines) + "\n\n" + NOTES


NOTES = """\
*called*: tables with a comparison called better or worse. *right*: tables in which exactly the true
effects were called. Without an effect every call is a false alarm.

- *Not paired in time* is the same noise with one side measured after the other: the drift alone is
  called a change in most trials. This is why pairing is not optional.
- *Bracketed* pairs are refused (not comparable) under drift, also where the machine slowed and
  recovered between two equal ends, which the sides' own repeats then show. Refusing is what keeps
  the false alarms few: of the pairs let through under drift a good part is still called a change,
  so prefer interleaved pairs wherever a machine drifts.
- *Tables*: right means that all of a table's effects were called.
- Where the effect differs between prompts, as speculative decoding's does, its mean takes more
  prompts; more repeats do not help.
"""


def _needed(done: SimulatedCalibration) -> str:
    return ", ".join(
        f"{spread}: {prompts or f'more than {PROMPT_COUNTS[-1]}'}"
        for spread, prompts in done.prompts_for_promise.items()
    )


def _row(one: SimulatedOutcome) -> str:
    verdicts = ", ".join(f"{word} {n}" for word, n in one.verdicts.items())
    return (
        f"| {one.scenario} | {one.prompts} | {one.repeats} | {one.pairing} | {one.called:.1%}"
        f" | {one.right:.1%} | {one.interval_excludes_1:.1%} | {verdicts} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20250101)
    for name, value in asdict(SimulatedNoise()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=value)
    given = vars(parser.parse_args())
    trials, seed = given.pop("trials"), given.pop("seed")
    done = calibrate(SimulatedNoise(**given), Rule(), trials, seed)
    page = markdown(done)
    write_atomically(RESULTS / "simulated_calibration.md", page)
    write_atomically(RESULTS / "simulated_calibration.json", done.model_dump_json(indent=1) + "\n")
    print(page)
    return int(done.false_alarms > MAX_FALSE_ALARMS or done.found < MIN_FOUND)


if __name__ == "__main__":
    sys.exit(main())
