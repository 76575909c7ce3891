"""A simulated machine that drifts, and simulated requests timed on it. Nothing here is measured."""

from dataclasses import dataclass
from math import exp, log, pi, sin, sqrt

import numpy as np

from pipeline.analysis.pairing import Pair, Side
from pipeline.platforms import Pairing

Simulated = dict[str, dict[int, float]]


@dataclass(frozen=True)
class SimulatedNoise:
    """What the simulated machine does to times; the defaults are a busy shared machine's.

    Attributes:
        ratio_sd: spread of the log ratio of two neighbouring requests with the same true cost.
        drift: how much slower the machine gets, relative, over `drift_s`, and faster again.
        drift_s: seconds from the fastest to the slowest moment.
        request_s: seconds one request takes.
        prompt_sd: spread of the log true cost over prompts, the same for both sides.
        effect_sd: spread of the log true effect over prompts.
    """

    ratio_sd: float = 0.08
    drift: float = 0.35
    drift_s: float = 1800.0
    request_s: float = 8.0
    prompt_sd: float = 0.3
    effect_sd: float = 0.0


class SimulatedMachine:
    """Times requests one after another on a clock of its own."""

    def __init__(self, noise: SimulatedNoise, rng: np.random.Generator) -> None:
        self.noise, self.rng = noise, rng
        self.now = rng.uniform(0, 2 * noise.drift_s)

    def measure(self, true_cost: float) -> float:
        """The cost a request shows: the true one, times the machine's slowness and luck."""
        noise = self.noise
        slowness = log(1 + noise.drift) * sin(pi * self.now / noise.drift_s) / 2
        self.now += noise.request_s
        return true_cost * exp(slowness + self.rng.normal(0, noise.ratio_sd / sqrt(2)))


def simulated_pair(
    noise: SimulatedNoise,
    rng: np.random.Generator,
    *,
    prompts: int,
    repeats: int,
    effect: float,
    pairing: Pairing | None,
) -> Pair:
    """A method that is truly 1 + `effect` times as fast as its baseline, measured once.

    `pairing=None` measures one side after the other and calls it interleaved: what happens without
    pairing in time.
    """
    baseline = {f"p{i}": exp(rng.normal(0, noise.prompt_sd)) / 50 for i in range(prompts)}
    method = {
        prompt: cost / (1 + effect) / exp(rng.normal(0, noise.effect_sd))
        for prompt, cost in baseline.items()
    }
    machine = SimulatedMachine(noise, rng)
    if pairing == "interleaved":
        measured = _alternating(machine, baseline, method, repeats)
    else:
        measured = [_alone(machine, baseline, repeats), _alone(machine, method, repeats)]
    closing = _side("none", _alone(machine, baseline, repeats)) if pairing == "bracketed" else None
    return Pair(
        measured=_side("simulated", measured[1]),
        baseline=_side("none", measured[0]),
        pairing=pairing or "interleaved",
        closing=closing,
    )


def _alternating(
    machine: SimulatedMachine, baseline: dict[str, float], method: dict[str, float], repeats: int
) -> list[Simulated]:
    """Both engines resident: each prompt on one, then on the other; who is first alternates."""
    found: list[Simulated] = [{p: {} for p in baseline}, {p: {} for p in baseline}]
    for repeat in range(repeats):
        for turn, prompt in enumerate(baseline):
            for side in (0, 1) if (turn + repeat) % 2 == 0 else (1, 0):
                cost = (baseline, method)[side][prompt]
                found[side][prompt][repeat] = machine.measure(cost)
    return found


def _alone(machine: SimulatedMachine, costs: dict[str, float], repeats: int) -> Simulated:
    found: Simulated = {prompt: {} for prompt in costs}
    for repeat in range(repeats):
        for prompt, cost in costs.items():
            found[prompt][repeat] = machine.measure(cost)
    return found


def _side(label: str, costs: Simulated) -> Side:
    return Side(label=label, node="simulated", sweep="simulated", status="OK", costs=costs)
