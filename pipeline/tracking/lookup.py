"""What a store has already: an experiment by its name, runs by their tags. Imports no MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.passwords import without_password
from pipeline.tracking.address import is_server
from pipeline.tracking.documents import Document

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


def document(client: Any, run: Any, name: str) -> Document:
    """A file of a document's run, which may be gone; what else goes wrong is the store's."""
    run_id, tags = str(run.info.run_id), run.data.tags
    with TemporaryDirectory() as folder:
        content = None
        try:
            content = Path(client.download_artifacts(run_id, name, folder)).read_bytes()
        except Exception:
            # A store that is down, or a file that may not be read, does not make a document less.
            if any(file.path == name for file in client.list_artifacts(run_id)):
                raise
    where = without_password(f"{run.info.artifact_uri}/{name}")
    return Document(tags["role"], tags.get("key", run_id), run_id, where, content)


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
