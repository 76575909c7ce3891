"""The checks before an engine start: what would fail after minutes of loading, or silently lie.

    python -m pipeline.preflight [platform=NAME] [model=NAME] [sweep=NAME] [json=true]

`before_start` asks the same of the node it runs on, for one engine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pipeline.host import reference
from pipeline.host.look import read_host
from pipeline.host.reading import HostReading
from pipeline.host.throttling import Reference
from pipeline.plan import EngineConfig
from pipeline.preflight.checkpoint import examine
from pipeline.preflight.demand import Demand, demand_of
from pipeline.preflight.findings import Finding, warn
from pipeline.preflight.gpu import check_gpus
from pipeline.preflight.memory import check_memory
from pipeline.preflight.network import check_network
from pipeline.preflight.software import check_disks, check_software
from pipeline.spec import Resources

_HOOK_PATIENCE_S = 120.0


def before_start(
    engine: EngineConfig, resources: Resources, drop_caches: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Everything that can be told about an engine start on this node before it is made.

    Args:
        engine: what is about to start; references are resolved on this node.
        resources: what it occupies.
        drop_caches: a command that gives the page cache back, run where that is in the way; it
            needs root, so it is one that the node's owner allows. Without it nothing is changed.

    Returns:
        findings; one of severity `stop` means that the engine should not be started.
    """
    examined = examine(engine)
    demand = demand_of(engine, resources, examined.weights_bytes)
    host = read_host(written_folders())
    failed: tuple[Finding, ...] = ()
    if drop_caches and any(f.check == "page_cache" for f in check_memory(demand, host)):
        failed = _run_hook(drop_caches)
        host = read_host(written_folders())
    return (*failed, *examined.findings, *check_host(demand, host, known_reference(host)))


def check_host(
    demand: Demand, host: HostReading, sustained: Reference | None
) -> tuple[Finding, ...]:
    """Compare a demand with a reading. Pure.

    Args:
        sustained: the node's own reference, None where it has none yet.
    """
    return (
        *check_software(demand, host),
        *check_gpus(demand, host, sustained),
        *check_memory(demand, host),
        *check_network(demand, host),
        *check_disks(host),
    )


def known_reference(host: HostReading) -> Reference | None:
    """What the GPU of a host has sustained on this node."""
    gpu = host.visible_gpus[0].name if host.visible_gpus else None
    return reference.load(gpu, host.driver)


def written_folders() -> tuple[Path, ...]:
    """Where an engine and its worker write: logs, and what vLLM compiles."""
    compiled = os.environ.get("VLLM_CACHE_ROOT") or "~/.cache/vllm"
    return Path(tempfile.gettempdir()), Path(compiled).expanduser()


def _run_hook(command: Sequence[str]) -> tuple[Finding, ...]:
    """Run the hook; a finding where it did not work."""
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_HOOK_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return (
            warn(
                "drop_caches",
                f"'{' '.join(command)}' failed ({said[-1] if said else error})",
                "the page cache stays, and some builds of vLLM count it as taken",
                "allow the command without a password (visudo), or run it yourself",
            ),
        )
    return ()
