"""Canonical JSON, digests and fingerprints: equal content, equal identity, on any machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import JsonValue

# Part of every fingerprint. Raise it when the way a cell is measured changes, so that records of
# another protocol are never taken for this one's.
PROTOCOL_VERSION = 2


def canonical_json(value: JsonValue) -> str:
    """JSON with sorted keys, no white space and no NaN; equal values give equal text."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def fingerprint(value: JsonValue) -> str:
    """sha256, in hex, of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """sha256, in hex, of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
