"""Records as files: written whole or not at all, read whole or refused by name.

Every write is a temporary file, an fsync and a rename inside the same folder.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from pipeline.errors import InfrastructureError
from pipeline.spec import Record

R = TypeVar("R", bound=Record)


class RecordError(InfrastructureError):
    """A record on disk that cannot be read as what it should be."""

    def __init__(self, path: Path | str, problem: str, *, remedy: str = "") -> None:
        self.path = Path(path)
        super().__init__(
            problem,
            where=str(path),
            remedy=remedy or "move it away and start the same command again",
        )


class DamagedError(RecordError):
    """A file that was read and is no such record: torn, empty, or of something else."""


class UnreadableError(RecordError):
    """A file that the disk or its rights do not let be read; what it holds may be whole."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            path,
            f"it cannot be read ({error.strerror})",
            remedy="correct its rights or the disk, and start the same command again",
        )


class OtherVersionError(RecordError):
    """A whole record that another version of this program wrote."""

    def __init__(self, path: Path | str, difference: str) -> None:
        super().__init__(
            path,
            f"another version wrote it ({difference})",
            remedy="go on with that version, or choose another output_dir to measure anew",
        )


class WriteError(InfrastructureError):
    """A record that the disk did not take."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"it cannot be written ({error.strerror})",
            where=str(path),
            remedy="make room or correct the folder's rights, and start the same command again",
        )


def read(path: Path, kind: type[R]) -> R:
    """Read one record from a JSON file.

    Raises:
        DamagedError: the file is torn, or not such a record.
        OtherVersionError: it is whole, and of another schema.
        UnreadableError: it cannot be read at all.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableError(path, error) from error
    return parsed(path, content, kind)


def read_lines(path: Path, kind: type[R]) -> tuple[R, ...]:
    """Read a file of one record a line; none where there is no such file.

    Raises:
        RecordError: as of `read`.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UnreadableError(path, error) from error
    return tuple(parsed(path, line, kind) for line in lines)


def set_aside(path: Path) -> Path:
    """Rename a damaged record, so that it counts as missing and nothing is thrown away.

    Raises:
        WriteError: it cannot be renamed.
    """
    try:
        return path.replace(path.with_name(f"{path.name}.damaged"))
    except OSError as error:
        raise WriteError(path, error) from error


def remove(path: Path) -> None:
    """Remove a file, if there is one.

    Raises:
        WriteError: it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(path, error) from error


def parsed(path: Path | str, content: bytes, kind: type[R]) -> R:
    """A record from its JSON; `path` is where that was read, which need not be a file.

    Raises:
        DamagedError, OtherVersionError: as of `read`.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        if difference := _other_version(content, kind, error):
            raise OtherVersionError(path, difference) from error
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        problem = f"it is not a {kind.__name__} ({where}{first['msg']})"
        raise DamagedError(path, problem) from error


def _other_version(content: bytes, kind: type[Record], error: ValidationError) -> str:
    """How a whole record differs from what this version writes; empty for a damaged one."""
    known = kind.model_fields.get("schema_version")
    try:
        fields = json.loads(content)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    schema = fields.get("schema_version")
    if known is not None and isinstance(schema, int) and schema != known.default:
        return f"schema {schema}, this one reads {known.default}"
    unknown = [str(e["loc"][-1]) for e in error.errors() if e["type"] == "extra_forbidden"]
    return f"it holds '{unknown[0]}', which is not known here" if unknown else ""


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader, now or after a crash, sees all of it or the one before.

    Raises:
        WriteError: the disk is full, or the place cannot be written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
