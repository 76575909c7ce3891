"""Where the numbers come from: each start of the command, its machine and its packages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from pipeline.records import CellRecord, StartRecord
from pipeline.report.page import Origin
from pipeline.results import counted, duration

_GIB = 2**30


def origins(starts: Iterable[StartRecord], cells: Iterable[CellRecord]) -> tuple[Origin, ...]:
    """The starts that measured any of these cells, newest first."""
    measured = [cell.start_id for cell in cells]
    return tuple(
        Origin(
            title=f"{moment(start.started_at)}, {_counted(measured.count(start.start_id))}",
            command=shlex.join(start.command),
            facts=tuple(_facts(start)),
        )
        for start in reversed(list(starts))
        if start.start_id in measured
    )


def machine(host: Mapping[str, JsonValue]) -> str:
    """A host in a few words: its GPU, or its processor and cores."""
    gpus = host.get("gpus")
    names = [str(name) for name in gpus] if isinstance(gpus, list) else []
    if names:
        return f"{len(names)} x {names[0]}" if len(names) > 1 else names[0]
    return f"{host.get('cpu') or 'unknown processor'}, {host.get('cores') or '?'} cores"


def moment(iso: str) -> str:
    """`2026-11-29 12:00` and the zone."""
    zone = "UTC" if iso.endswith("+00:00") else iso[19:]
    return f"{iso[:16].replace('T', ' ')} {zone}".strip()


def _counted(cells: int) -> str:
    return f"{cells} cell{'s' * (cells != 1)}"


def _facts(start: StartRecord) -> Iterator[tuple[str, str]]:
    host = start.host
    yield "machine", f"{host.get('node')}: {machine(host)}"
    if isinstance(memory := host.get("memory_bytes"), int):
        yield "memory", f"{memory / _GIB:.0f} GiB"
    if host.get("gpu_driver"):
        yield "driver", str(host["gpu_driver"])
    if host.get("system"):
        yield "system", str(host["system"])
    yield "packages", ", ".join(f"{name} {version}" for name, version in start.packages.items())
    yield "commit", start.git_commit or "not from a checkout"
    yield "outcome", start.outcome
    if start.split is not None:
        split = start.split
        yield (
            "time",
            f"{duration(split.wall_s)}: {counted(start.engine_starts, 'engine start')}"
            f" {duration(split.engine_start_s)}, generation {duration(split.generation_s)},"
            f" everything else {duration(split.other_s)}",
        )
    yield "start", start.start_id
