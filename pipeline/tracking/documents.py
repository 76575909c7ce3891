"""Documents as they go into a store and as they come back."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.spec import Record


class Entry(Record):
    """A document of some files.

    Attributes:
        role: what kind of document; key: which one, among those of its kind.
        at: its moment, ISO 8601.
        texts: by file name.
    """

    role: str
    key: str
    at: str
    title: str
    tags: dict[str, str]
    texts: dict[str, str]


class Document(NamedTuple):
    """One file of a document, read back.

    Attributes:
        run_id: the run that is the document in MLflow; where: the address of the file.
        content: None where the run is there and the file is gone.
    """

    role: str
    key: str
    run_id: str
    where: str
    content: bytes | None
