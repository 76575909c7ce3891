"""Documents kept in MLflow for good, which outlive the folder they were made in: what a night
measured, what a person decided. Unlike a sweep's records they are read back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pipeline.errors import InfrastructureError
from pipeline.tracking.address import default_root, store_uri
from pipeline.tracking.documents import Document, Entry
from pipeline.tracking.store import Ledger

__all__ = ["Document", "Entry", "Keeper", "LedgerError"]

T = TypeVar("T")


class LedgerError(InfrastructureError):
    """A store that documents can neither be read from nor written to."""

    def __init__(self, uri: str, cause: Exception) -> None:
        first, *more = (str(cause).strip() or "no reason given").splitlines()
        # What ends with a colon announces the reason, which follows.
        said = " ".join([first, *more[:1]] if first.endswith(":") else [first])
        super().__init__(
            f"MLflow cannot be used ({type(cause).__name__}: {said})",
            where=uri,
            remedy="start the store again, or name another one with tracking.uri",
        )


class Keeper:
    """The documents of one experiment.

    Args:
        experiment: its name, which is that of a sweep.
        uri: the store, or None for SQLite under `root`.
        root: the folder of the default store and of artifacts; `./mlruns` where None.

    Raises:
        StoreUriError: `uri` is of no kind that MLflow keeps runs in.
    """

    def __init__(self, experiment: str, uri: str | None, root: Path | None = None) -> None:
        self._experiment, self._root = experiment, root or default_root()
        self._uri = store_uri(uri, self._root)
        self._ledger: Ledger | None = None

    def write(self, entry: Entry) -> None:
        """Keep a document, or replace the one of its role and key.

        Raises:
            LedgerError: the store cannot be reached, or refuses.
        """
        self._told(lambda ledger: ledger.write(entry))

    def read(self, role: str, tags: dict[str, str], name: str, newest: int) -> tuple[Document, ...]:
        """One file of each document that carries the tags, the newest first.

        Raises:
            LedgerError: the store cannot be reached, or does not give a file that it has.
        """
        return self._told(lambda ledger: tuple(ledger.read(role, tags, name, newest)))

    def _told(self, action: Callable[[Ledger], T]) -> T:
        try:
            self._ledger = self._ledger or Ledger(self._uri, self._root, self._experiment)
            return action(self._ledger)
        # Whatever a store raises, what cannot be read back is one sentence.
        except Exception as error:
            raise LedgerError(self._uri, error) from error
