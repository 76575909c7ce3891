"""What a store has already: an experiment by its name, runs by their tags. Imports no MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.tracking.address import is_server

# MLflow's status of a run that is not told to its end.
OPEN = "RUNNING"


def experiment(client: Any, uri: str, root: Path, name: str) -> str:
    """Find or make an experiment; a server knows by itself where to keep its artifacts."""
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    place = None if is_server(uri) else (root.absolute() / "artifacts" / name).as_uri()
    return str(client.create_experiment(name, artifact_location=place))


def found(client: Any, of: str, query: str, order: Sequence[str] = ()) -> Iterator[Any]:
    """The runs of an experiment that a query finds, page by page."""
    token = None
    while True:
        page = client.search_runs([of], query, order_by=list(order) or None, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def rank(run: Any) -> tuple[bool, str]:
    """Where a run stands among those of one thing; the first is the one to keep."""
    return run.info.status == OPEN, run.info.run_id


def one(client: Any, runs: Sequence[Any]) -> Any:
    """Of the runs of one thing the one that is kept; the others are deleted.

    A server that makes a run and answers too late is asked again, and makes another. One that was
    told to its end is kept before one that was not.
    """
    kept, *others = sorted(runs, key=rank)
    for run in others:
        client.delete_run(run.info.run_id)
    return kept
