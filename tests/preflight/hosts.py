"""The hosts of `hosts/`, and what engines ask of them."""

from __future__ import annotations

from pathlib import Path

from pipeline.host.reading import HostReading
from pipeline.preflight import check_host
from pipeline.preflight.demand import Demand
from pipeline.preflight.findings import Finding

FOLDER = Path(__file__).parent / "hosts"
GIB = 1024**3
# The article's share of a Spark's memory.
ON_SPARK = Demand(
    device="cuda",
    gpus=1,
    nodes=1,
    memory_utilisation=0.88,
    weights_bytes=70 * GIB,
    kv_cache_bytes=0,
    bf16=False,
    env={},
)
ON_CPU = ON_SPARK.model_copy(
    update={"device": "cpu", "gpus": 0, "weights_bytes": GIB, "kv_cache_bytes": GIB, "bf16": True}
)


def path_of(name: str) -> Path:
    return FOLDER / f"composed_{name}.json"


def host(name: str, **changed: object) -> HostReading:
    """A host as it was composed, with some of it changed."""
    found = HostReading.model_validate_json(path_of(name).read_bytes())
    return found.model_copy(update=changed)


def with_gpu(of: HostReading, **changed: object) -> HostReading:
    """The same host with another first GPU."""
    assert of.gpus is not None
    first = of.gpus[0].model_copy(update=changed)
    return of.model_copy(update={"gpus": (first, *of.gpus[1:])})


def with_load(of: HostReading, **changed: object) -> HostReading:
    """The same host with its first GPU doing something else."""
    assert of.gpus is not None
    return with_gpu(of, load=of.gpus[0].load.model_copy(update=changed))


def troubles(of: HostReading, demand: Demand = ON_SPARK) -> dict[str, str]:
    """Check → severity of everything that is not well."""
    return {f.check: f.severity for f in check_host(demand, of, None) if f.severity != "ok"}


def finding(of: HostReading, check: str, demand: Demand = ON_SPARK) -> Finding:
    """The one finding of a check."""
    (found,) = [f for f in check_host(demand, of, None) if f.check == check]
    return found
