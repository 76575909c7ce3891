"""The identity of checkpoints that are on the cluster's nodes and not on the driver's machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline import console
from pipeline.errors import InfrastructureError
from pipeline.sources import CheckpointReferenceError, identity
from pipeline.spec import SweepConfig

Identify = Callable[[str, str | None], str]


class CheckpointsDifferError(InfrastructureError):
    """A folder of one name whose content differs between nodes."""

    def __init__(self, reference: str, one: str, other: str) -> None:
        super().__init__(
            f"it holds another checkpoint on {one} than on {other}",
            where=f"checkpoint {reference}",
            remedy="copy it from one to the other, for example with rsync --checksum",
        )


def identify_for(config: SweepConfig) -> Identify:
    """How checkpoints are identified: here where they are here, else on the nodes, by content.

    Raises:
        ClusterError, TaskLostError: the nodes cannot be asked.
        CheckpointsDifferError: two nodes hold something else under the same name.
    """
    absent = [r for r in _folders(config) if not Path(r).expanduser().exists()]
    if config.ray.address is None or not absent:
        return identity
    console.warn(f"not on this machine, so the nodes read it: {', '.join(absent)}")
    from pipeline.execution import scheduler  # as heavy as in the driver

    with scheduler.cluster(config.ray, config.platform) as cluster:
        known = {
            reference: _agreed(reference, cluster.everywhere(_look, reference))
            for reference in absent
        }
    return lambda reference, revision: known.get(reference) or identity(reference, revision)


def _folders(config: SweepConfig) -> Iterator[str]:
    """Every checkpoint of the sweep that is named by a path, each once."""
    named = (
        reference
        for model in config.models
        for drafter in model.drafters.values()
        for reference in (model.checkpoint, drafter.checkpoint, drafter.target)
    )
    plain = (model.checkpoint for model in config.models)
    yield from dict.fromkeys(r for r in (*plain, *named) if r and r.startswith(("/", "~")))


def _look(reference: str) -> str:
    """On a node: the identity, or nothing where the folder is not there."""
    try:
        return identity(reference, None)
    except CheckpointReferenceError:
        return ""


def _agreed(reference: str, found: dict[str, str]) -> str:
    """The one identity that nodes have for it; those without the folder have no say.

    A node without it fails its cells by name, should it be given any.
    """
    holders = {name: content for name, content in found.items() if content}
    if not holders:
        raise CheckpointReferenceError(
            reference, f"it is neither here nor on {', '.join(found) or 'any node'}"
        )
    first = next(iter(holders))
    for name, content in holders.items():
        if content != holders[first]:
            raise CheckpointsDifferError(reference, first, name)
    return holders[first]
