from __future__ import annotations

import pytest

from pipeline.execution.faults import FAULTS, diagnosed, is_refusal, is_retried
from pipeline.records import Failure


def failure(kind: str, *log: str, message: str = "the engine process ended") -> Failure:
    return Failure(kind=kind, message=message, log_tail=log)


# What vLLM, torch, the kernel and the hub say, shortened.
@pytest.mark.parametrize(
    ("kind", "line", "found", "cause"),
    [
        (
            "REFUSED",
            "ValueError: Free memory on device cuda:0 (3.2/119.7 GiB) on startup is less than"
            " desired GPU memory utilization (0.88, 105.3 GiB).",
            "OOM_DEVICE",
            "something else holds the accelerator's memory",
        ),
        (
            "CRASH",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "OOM_DEVICE",
            "gpu_memory_utilization",
        ),
        (
            "CRASH_IN_START",
            "RuntimeError: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"
            " memory: you tried to allocate 68719476736 bytes.",
            "OOM_HOST",
            "the machine's memory is full",
        ),
        (
            "REFUSED",
            "ValueError: No available memory for the cache blocks. Try increasing",
            "REFUSED",
            "max_model_len",
        ),
        (
            "REFUSED",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core"
            " proc(s): {'EngineCore_DP0': -9}",
            "CRASH_IN_START",
            "killed while it loaded",
        ),
        ("CRASH_IN_START", "OSError: [Errno 28] No space left on device", "DISK_FULL", "disk"),
        ("REFUSED", "huggingface_hub.errors.GatedRepoError: 401 Client Error.", "REFUSED", "HF_"),
    ],
)
def test_the_log_reveals_kind_and_cause(kind: str, line: str, found: str, cause: str) -> None:
    told = diagnosed(failure(kind, "INFO before", line, "INFO after"))
    assert told.kind == found
    assert cause in told.cause


def test_a_process_killed_from_outside_is_suspected_of_having_taken_the_memory() -> None:
    told = diagnosed(failure("CRASH", message="the engine process ended (signal 9)"))
    assert "dmesg" in told.cause


def test_a_core_that_ended_without_a_word_was_killed_and_one_that_raised_was_not() -> None:
    ended = "RuntimeError: Engine core initialization failed. Failed core proc(s): {}"
    assert diagnosed(failure("REFUSED", "INFO", ended)).kind == "CRASH_IN_START"
    raised = "ERROR EngineCore failed to start."
    assert diagnosed(failure("REFUSED", raised, "KeyError: 'x'", ended)).kind == "REFUSED"


def test_what_nobody_knows_gets_no_cause() -> None:
    told = diagnosed(failure("CRASH", "an unheard-of sentence"))
    assert told == failure("CRASH", "an unheard-of sentence")


@pytest.mark.parametrize(
    ("kind", "retried"),
    [
        *((kind, True) for kind in ("START_TIMEOUT", "HANG", "CRASH", "CRASH_IN_START")),
        *((kind, True) for kind in ("WORKER_LOST", "NODE_LOST", "RAYLET_LOST", "OOM_HOST")),
        *((kind, False) for kind in ("REFUSED", "NO_NODE", "SomethingUnheardOf")),
    ],
)
def test_infrastructure_is_given_a_second_try_and_a_mistake_is_not(
    kind: str, retried: bool
) -> None:
    assert is_retried(failure(kind)) is retried
    assert not is_refusal(failure(kind))


@pytest.mark.parametrize(
    "kind", ["PREFLIGHT", "MachineBusyError", "CheckpointReferenceError", "DISK_FULL"]
)
def test_what_is_wrong_with_a_node_alone_is_no_reason_not_to_ask_another(kind: str) -> None:
    assert is_refusal(failure(kind))
    assert not is_retried(failure(kind))


def test_every_fault_says_what_it_means() -> None:
    assert all(fault.meaning for fault in FAULTS.values())
