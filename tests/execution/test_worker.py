"""The worker's own logic, with engines that fail where a real one seldom does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.execution import worker
from pipeline.execution.engine_process import EngineError, HangError, StartTimeoutError
from pipeline.execution.events import (
    CellDone,
    Doubted,
    Event,
    GroupEnded,
    GroupJob,
    StartDone,
    Tokenised,
)
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.plan import EngineConfig
from pipeline.preflight.findings import Finding, stop, warn
from pipeline.records import PassRecord
from pipeline.spec import SweepConfig
from tests.execution.simulated import put_in_place
from tests.factories import coordinates, one_pass, plan

PROMPT = PromptJob(prompt_id="echo-1", category="edit", token_ids=(1,), max_tokens=3)
DATASETS = ("code", "chat", "echo")


class ScriptedEngine:
    """Stands in for an engine; each test says when it fails and how."""

    fails_to_start: Exception | None = None
    fails_at_pass: dict[int, BaseException] = {}  # noqa: RUF012 - replaced, never changed
    cannot_be_ended = False

    vllm_version = "scripted"
    preloaded = ()
    starts = 0
    passes = 0

    def __init__(self, config: EngineConfig, log: Path) -> None:
        type(self).starts += 1
        log.write_text("the engine's own words\n")
        if self.fails_to_start is not None:
            raise self.fails_to_start

    def run(self, job: PassJob) -> PassRecord:
        type(self).passes += 1
        if self.passes in self.fails_at_pass:
            raise self.fails_at_pass[self.passes]
        return one_pass().model_copy(update={"repeat": job.repeat})

    def note(self, folder: Path) -> None: ...

    def stop(self) -> None:
        if self.cannot_be_ended:
            raise EngineError("process group 1 of an engine could not be ended")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedEngine]:
    class Fresh(ScriptedEngine):
        pass

    put_in_place(monkeypatch, Fresh)
    return Fresh


@pytest.fixture
def job(sweep: SweepConfig) -> GroupJob:
    (group,) = plan(*(coordinates(dataset=name) for name in DATASETS)).groups
    tokens = Tokenised(model="tiny", datasets=dict.fromkeys(DATASETS, (PROMPT,)), warmup=(PROMPT,))
    return GroupJob(
        sweep="demo",
        start_id="1",
        group=group,
        tokens=tokens,
        measure=sweep.measure.model_copy(update={"repeats": 1}),
        take_machine=False,
    )


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [
        (e.record.at.dataset, "FAILED" if e.record.status == "FAILED" else "measured")
        for e in events
        if isinstance(e, CellDone)
    ]


def test_cells_are_measured_in_order_on_one_engine(
    engine: type[ScriptedEngine], job: GroupJob
) -> None:
    events = list(worker.run_group(job))
    assert told(events) == [(name, "measured") for name in DATASETS]
    assert engine.starts == 1
    assert isinstance(events[-1], GroupEnded)
    assert "the engine's own words" in events[-1].log


def test_a_hang_fails_one_cell_and_the_next_gets_a_new_engine(
    engine: type[ScriptedEngine], job: GroupJob
) -> None:
    engine.fails_at_pass = {3: HangError(1)}  # after the warm-up and the first cell
    events = list(worker.run_group(job))
    assert told(events) == [("code", "measured"), ("chat", "FAILED"), ("echo", "measured")]
    assert engine.starts == 2
    (bad,) = [e.record for e in events if isinstance(e, CellDone) and e.record.failure]
    assert bad.failure is not None
    assert bad.failure.kind == "HANG"
    assert bad.failure.log_tail == ("the engine's own words",)


def test_an_engine_that_does_not_start_fails_every_cell_once_and_its_time_is_told(
    engine: type[ScriptedEngine], job: GroupJob
) -> None:
    engine.fails_to_start = StartTimeoutError(1)
    events = list(worker.run_group(job))
    assert told(events) == [(name, "FAILED") for name in DATASETS]
    assert engine.starts == 1
    assert [e.ready for e in events if isinstance(e, StartDone)] == [False]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(28, "No space left on device"), "OSError"),
        (AssertionError("0 tokens in 1 chunk"), "AssertionError"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_whatever_else_a_cell_raises_fails_it_by_name_and_no_other(
    engine: type[ScriptedEngine], job: GroupJob, error: Exception, kind: str
) -> None:
    engine.fails_at_pass = {2: error}
    events = list(worker.run_group(job))
    assert told(events) == [("code", "FAILED"), ("chat", "measured"), ("echo", "measured")]
    assert engine.starts == 2
    (bad,) = [e.record for e in events if isinstance(e, CellDone) and e.record.failure]
    assert bad.failure is not None
    assert bad.failure.kind == kind
    assert bad.failure.message.startswith(f"{kind}: {error}")
    assert "in run" in "".join(bad.failure.log_tail), "nothing says where it was raised"


def test_a_start_that_raises_anything_else_fails_its_cells_by_name(
    engine: type[ScriptedEngine], job: GroupJob
) -> None:
    engine.fails_to_start = OSError(12, "Cannot allocate memory")
    events = list(worker.run_group(job))
    assert told(events) == [(name, "FAILED") for name in DATASETS]
    assert isinstance(events[-1], GroupEnded)
    (failure, *_) = [e.record.failure for e in events if isinstance(e, CellDone)]
    assert failure is not None
    assert failure.message == "OSError: [Errno 12] Cannot allocate memory"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_cells_failure(
    engine: type[ScriptedEngine], job: GroupJob, interrupt: type[BaseException]
) -> None:
    engine.fails_at_pass = {2: interrupt()}
    with pytest.raises(interrupt):
        list(worker.run_group(job))


def test_an_engine_that_cannot_be_ended_costs_no_cell_that_was_measured(
    engine: type[ScriptedEngine], job: GroupJob
) -> None:
    engine.cannot_be_ended = True
    events = list(worker.run_group(job))
    assert told(events) == [(name, "measured") for name in DATASETS]
    assert isinstance(events[-1], GroupEnded)
    assert "could not be ended" in events[-1].log


def test_a_node_that_would_spoil_a_start_is_told_and_none_is_made(
    engine: type[ScriptedEngine], job: GroupJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = stop("disk", "0.1 GiB are free", "vLLM writes its caches there", "make room")
    monkeypatch.setattr(worker, "before_start", lambda engine, resources, hook: (full,))
    events = list(worker.run_group(job))
    assert told(events) == [(name, "FAILED") for name in DATASETS]
    assert engine.starts == 0
    (failure, *_) = [e.record.failure for e in events if isinstance(e, CellDone)]
    assert failure is not None
    assert failure.kind == "PREFLIGHT"
    assert "make room" in failure.message


def test_what_may_spoil_a_start_is_told_and_the_start_is_made(
    engine: type[ScriptedEngine], job: GroupJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubt = warn("bf16", "there is no bf16", "prompts take longer", "try float32")
    monkeypatch.setattr(worker, "before_start", lambda engine, resources, hook: (doubt,))
    events = list(worker.run_group(job))
    assert told(events) == [(name, "measured") for name in DATASETS]
    assert [e.findings for e in events if isinstance(e, Doubted)] == [(doubt,)]


@pytest.mark.parametrize(("looks", "measured"), [(3, True), (100, False)])
def test_a_killed_engines_memory_is_waited_for_a_while_before_the_next_start(
    engine: type[ScriptedEngine],
    job: GroupJob,
    monkeypatch: pytest.MonkeyPatch,
    looks: int,
    measured: bool,
) -> None:
    held = stop("memory", "3 GiB are free", "vLLM refuses to start with less", "end what holds it")
    refusals = iter([held] * looks)

    def look(*_: object) -> tuple[Finding, ...]:
        found = next(refusals, None) if engine.starts else None
        return (found,) if found is not None else ()

    monkeypatch.setattr(worker, "_LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(worker, "before_start", look)
    engine.fails_at_pass = {2: HangError(1)}
    events = list(worker.run_group(job))
    after = "measured" if measured else "FAILED"
    assert told(events) == [("code", "FAILED"), ("chat", after), ("echo", after)]
