"""A cell that the machine slowed down is measured again, and told where that does not help."""

from __future__ import annotations

from typing import cast

import pytest

from pipeline.execution.alternate import Engines
from pipeline.execution.engine_process import EngineProcess
from pipeline.execution.events import GroupJob, Tokenised
from pipeline.execution.measure import Bench, measure
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.host.series import Limits, Sample, TelemetrySummary
from pipeline.host.telemetry import Telemetry
from pipeline.records import EngineContext, PassRecord
from pipeline.spec import SweepConfig
from tests.factories import coordinates, one_pass, plan

PROMPT = PromptJob(prompt_id="echo-1", category="edit", token_ids=(1,), max_tokens=3)
WATTS = 30.0
SLOWED = "the driver slowed the GPU down"


class Answering:
    def run(self, job: PassJob) -> PassRecord:
        return one_pass().model_copy(update={"repeat": job.repeat, "counters": None})


class ScriptedHost:
    """A host of constant power, slowed down in as many measurements as the test says."""

    def __init__(self, slow: int) -> None:
        self.slow, self.cooled, self.remembered = slow, 0, 0

    def between(self, start_s: float, end_s: float) -> TelemetrySummary:
        seconds = end_s - start_s
        return TelemetrySummary(
            seconds=seconds,
            samples=1,
            sm_clock_mhz=None,
            limits=Limits(),
            power_w=WATTS,
            energy_j=WATTS * seconds,
            temperature_max_c=None,
            throttle_s=None,
            memory_available_min_bytes=1,
        )

    def series(self, start_s: float, end_s: float) -> tuple[Sample, ...]:
        return (Sample(at_s=0.0, memory_available_bytes=1),)

    def throttled(self, summary: TelemetrySummary) -> str | None:
        self.slow -= 1
        return SLOWED if self.slow >= 0 else None

    def cool_down(self) -> bool:
        self.cooled += 1
        return True

    def remember(self, summary: TelemetrySummary) -> None:
        self.remembered += 1


@pytest.fixture
def job(sweep: SweepConfig) -> GroupJob:
    (group,) = plan(coordinates()).groups
    return GroupJob(
        sweep="demo",
        start_id="1",
        group=group,
        tokens=Tokenised(model="tiny", datasets={"echo": (PROMPT,)}, warmup=(PROMPT,)),
        measure=sweep.measure,
        take_machine=False,
    )


def bench(host: ScriptedHost) -> Bench:
    context = EngineContext(
        node="box",
        vllm_version="scripted",
        engine_start_s=1.0,
        checkpoint="m",
        drafter=None,
        preloaded=(),
        serve_command="vllm serve m",
    )
    engines = Engines(cast(EngineProcess, Answering()))
    return Bench(engines, context, cast(Telemetry, host))


@pytest.mark.parametrize(
    ("slow", "status", "cooled", "remembered"),
    [
        pytest.param(0, "OK", 0, 1, id="a sound measurement"),
        pytest.param(1, "OK", 1, 1, id="slow once, sound when cool"),
        pytest.param(2, "THROTTLED", 1, 0, id="slow twice"),
    ],
)
def test_a_slowed_cell_is_measured_once_more_after_a_cool_down(
    job: GroupJob, slow: int, status: str, cooled: int, remembered: int
) -> None:
    host = ScriptedHost(slow)
    done = measure(bench(host), job, job.group.cells[0])
    assert done.record.status == status
    assert done.record.status_reason == (SLOWED if status == "THROTTLED" else "")
    assert (host.cooled, host.remembered) == (cooled, remembered)


def test_no_energy_is_told_of_an_engine_on_several_nodes_of_which_one_is_watched(
    job: GroupJob,
) -> None:
    resources = job.group.resources.model_copy(update={"nodes": 2})
    spread = job.model_copy(update={"group": job.group.model_copy(update={"resources": resources})})
    done = measure(bench(ScriptedHost(0)), spread, spread.group.cells[0])
    assert "energy/j_per_token" not in done.record.metrics
    assert done.record.telemetry is not None


def test_the_host_stands_in_the_record_and_energy_among_the_metrics(job: GroupJob) -> None:
    done = measure(bench(ScriptedHost(0)), job, job.group.cells[0])
    assert done.record.telemetry is not None
    assert done.record.telemetry.power_w == WATTS
    assert done.record.metrics["energy/j_per_token"].n == job.measure.repeats
    assert len(done.series) == 1
