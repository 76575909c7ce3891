"""What can befall a cell: each fault's name and policy, and what an engine's log says of its cause.

Infrastructure is given a second try: the same cell may well be measured when it is repeated. What a
node refuses, another may take. A mistake in what was asked for would be repeated as well, so it is
told at once.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from pipeline.records import Failure


class Fault(NamedTuple):
    """One class of trouble, and what becomes of its cells.

    Attributes:
        retried: `again` wherever there is room, once; `elsewhere`, at each node that has not
            refused them yet; or `never`.
        spoils_node: whether the node is no good for other cells either, for a while.
    """

    meaning: str
    retried: Literal["again", "elsewhere", "never"]
    spoils_node: bool = False


FAULTS = {
    "START_TIMEOUT": Fault("the engine was not ready within the platform's deadline", "again"),
    "CRASH_IN_START": Fault("the engine process ended while it loaded", "again"),
    "CRASH": Fault("the engine ended or raised in the middle of a pass", "again"),
    "HANG": Fault("no token came out within the platform's deadline", "again"),
    "ENGINE": Fault("an engine could not be ended", "again"),
    "OOM_DEVICE": Fault("the accelerator's memory did not suffice", "again"),
    "OOM_HOST": Fault("the machine's memory did not suffice", "again"),
    "WORKER_LOST": Fault("the process that measured was killed or crashed", "again"),
    "RAYLET_LOST": Fault("Ray's own processes on this machine ended", "again"),
    "NODE_LOST": Fault("the node left the cluster", "again"),
    "NO_NODE": Fault("no node is left that could take it", "never"),
    "REFUSED": Fault("vLLM refused what it was asked to load", "never"),
    "PREFLIGHT": Fault("the node would refuse an engine, or spoil its figures", "elsewhere", True),
    "MachineBusyError": Fault("another sweep measures on that machine", "elsewhere", True),
    "DISK_FULL": Fault("a disk of the node is full", "elsewhere", True),
    "CheckpointReferenceError": Fault("a checkpoint is not on that node", "elsewhere"),
}


class _Sign(NamedTuple):
    """A pattern in the log, the kind of fault it reveals if any, its cause, and what to do."""

    pattern: str
    kind: str | None
    cause: str
    remedy: str


# The first that is found counts, so what is more particular stands first.
_SIGNS = (
    _Sign(
        r"Free memory on device .* is less than desired",
        "OOM_DEVICE",
        "something else holds the accelerator's memory",
        "end it (nvidia-smi names it), or lower engine_args.gpu_memory_utilization",
    ),
    _Sign(
        r"No available memory for the cache blocks|KV cache is needed, which is larger",
        None,
        "after the weights there is too little memory for the cache of one request",
        "raise engine_args.gpu_memory_utilization (on a CPU env.VLLM_CPU_KVCACHE_SPACE), or lower"
        " engine_args.max_model_len",
    ),
    _Sign(
        r"OutOfMemoryError|CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|NVML_ERROR_MEMORY",
        "OOM_DEVICE",
        "the accelerator's memory is full",
        "lower engine_args.gpu_memory_utilization or engine_args.max_model_len",
    ),
    _Sign(
        r"DefaultCPUAllocator: (can't allocate|not enough) memory|std::bad_alloc|\bMemoryError\b"
        r"|Cannot allocate memory",
        "OOM_HOST",
        "the machine's memory is full",
        "end what else runs there, or lower engine_args.max_model_len",
    ),
    _Sign(
        r"No space left on device",
        "DISK_FULL",
        "a disk of the node is full",
        "make room in its temporary folder and in its caches",
    ),
    _Sign(
        r"EADDRINUSE|Address already in use",
        "CRASH_IN_START",
        "a port was taken",
        "see what listens there; the next start takes another",
    ),
    _Sign(
        r"Failed core proc\(s\): \{[^}]*-\d",
        "CRASH_IN_START",
        "the engine core was killed while it loaded",
        "look for the kernel's out-of-memory killer: dmesg | grep -i oom",
    ),
    _Sign(
        r"no kernel image is available|CUDA driver version is insufficient",
        None,
        "this build of vLLM or torch does not fit the GPU or its driver",
        "install a build for this GPU, or a newer driver",
    ),
    _Sign(
        r"illegal memory access|CUDA error|NCCL error|Xid",
        None,
        "a kernel or the device failed",
        "look at dmesg for Xid lines; restart the node if it goes on",
    ),
    _Sign(
        r"GatedRepoError|401 Client Error|403 Client Error",
        None,
        "the hub does not give this checkpoint without a token",
        "accept its licence and set HF_TOKEN in the environment of the node",
    ),
    _Sign(
        r"huggingface\.co.*(Max retries|timed out|Name or service|resolve)|LocalEntryNotFoundError",
        None,
        "the hub cannot be reached from the node",
        "download the checkpoint there first, or name a folder",
    ),
    _Sign(
        r"are not supported for now|does not recognize this architecture",
        None,
        "this vLLM does not know the model's architecture",
        "install a newer vLLM or transformers",
    ),
    _Sign(
        r"trust_remote_code=True",
        None,
        "the checkpoint brings code of its own",
        "read it, then set trust_remote_code: true in the model's configuration",
    ),
    _Sign(
        r"SafetensorError|HeaderTooLarge|MetadataIncompleteBuffer",
        None,
        "a weight file is torn",
        "download or copy the checkpoint again",
    ),
    # An engine core that raises says so itself before it ends; vLLM is often too early for the exit
    # code of one that was killed.
    _Sign(
        r"(?s)\A(?!.*EngineCore failed to start).*Failed core proc\(s\): \{\}",
        "CRASH_IN_START",
        "the engine core ended while it loaded and did not say why, as one that is killed does",
        "look for the kernel's out-of-memory killer: dmesg | grep -i oom",
    ),
    _Sign(
        r"\(signal 9\)",
        None,
        "it was killed from outside, on a machine short of memory by the kernel",
        "look for the kernel's out-of-memory killer: dmesg | grep -i oom",
    ),
)


def diagnosed(failure: Failure) -> Failure:
    """The same failure with its likely cause, and with the kind that its log reveals."""
    text = "\n".join((failure.message, *failure.log_tail))
    for sign in _SIGNS:
        if re.search(sign.pattern, text):
            cause = f"{sign.cause}; {sign.remedy}"
            return failure.model_copy(update={"kind": sign.kind or failure.kind, "cause": cause})
    return failure


def is_retried(failure: Failure) -> bool:
    """Whether the cell is tried once more; what has no name here is not."""
    return failure.kind in FAULTS and FAULTS[failure.kind].retried == "again"


def is_refusal(failure: Failure) -> bool:
    """Whether it is the node that cannot take the cell, and another one may."""
    return failure.kind in FAULTS and FAULTS[failure.kind].retried == "elsewhere"


def spoils_node(failure: Failure) -> bool:
    """Whether the node had better be given nothing else for a while."""
    return failure.kind in FAULTS and FAULTS[failure.kind].spoils_node
