"""Datasets as frozen lists of prompts with categories, token caps and a digest.

Read through Hugging Face `datasets`, from the sets that ship with this package, from a local JSON
Lines file, or from the hub at a pinned commit. The digest is over the prompts as they are used, not
over the file they came from, so that a re-encoded copy of the same prompts keeps its identity.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.errors import InputError, nearest
from pipeline.identity import fingerprint
from pipeline.spec import BundledSource, DatasetSpec, HubSource, PathSource, Record

JSON_LINES = "a JSON object on each line, in UTF-8, the file as it is or compressed (.gz)"
BUNDLED = Path(__file__).parent / "data" / "prompts"


class Prompt(Record):
    """One user turn with its identity inside the dataset."""

    id: str
    category: str
    text: str
    max_tokens: int


class PromptSet(Record):
    """A dataset as it is used: its prompts in order and their digest (sha256, hex)."""

    name: str
    system: str | None
    prompts: tuple[Prompt, ...]
    digest: str


class DatasetError(InputError):
    """A dataset that cannot be read, or that is not what its configuration says."""

    def __init__(self, name: str, problem: str, *, allowed: str = "", remedy: str = "") -> None:
        super().__init__(problem, where=f"dataset {name}", allowed=allowed, remedy=remedy)


def load_prompts(spec: DatasetSpec, max_tokens: int | None = None) -> PromptSet:
    """Read a dataset's prompts; `max_tokens` lowers every token cap further where it is given.

    Raises:
        DatasetError: the source is missing or unreadable, a field is absent or empty, ids repeat,
            or the digest is not the one the configuration pins.
    """
    cap = spec.max_tokens if max_tokens is None else min(max_tokens, spec.max_tokens)
    rows = _rows(spec)
    if spec.limit is not None:
        rows = rows[: spec.limit]
    prompts = tuple(_prompt(spec, index, row, cap) for index, row in enumerate(rows))
    _check_ids(spec.name, prompts)
    _check_pin(spec, rows)
    return PromptSet(
        name=spec.name, system=spec.system, prompts=prompts, digest=_digest(spec, prompts)
    )


def _check_pin(spec: DatasetSpec, rows: Sequence[Mapping[str, object]]) -> None:
    """Compare with the digest that the configuration pins; what a sweep or a platform caps answers
    at is no part of it.
    """
    if spec.sha256 is None:
        return
    found = _digest(
        spec, tuple(_prompt(spec, i, row, spec.max_tokens) for i, row in enumerate(rows))
    )
    if found != spec.sha256:
        raise DatasetError(
            spec.name,
            f"its prompts have the digest {found[:12]}…, the configuration pins"
            f" {spec.sha256[:12]}…",
            remedy=f"if the change is meant, set sha256: {found}",
        )


def _digest(spec: DatasetSpec, prompts: tuple[Prompt, ...]) -> str:
    try:
        return fingerprint({"system": spec.system, "prompts": [p.model_dump() for p in prompts]})
    except UnicodeEncodeError as error:
        raise DatasetError(
            spec.name,
            f"a record holds half a character ({error.reason})",
            remedy="write characters beyond \\uffff as both halves of their pair",
        ) from error


def _prompt(spec: DatasetSpec, index: int, row: Mapping[str, object], cap: int) -> Prompt:
    text = _field(spec, index, row, spec.prompt_field)
    identity = _optional(row, spec.id_field)
    category = _optional(row, spec.category_field)
    return Prompt(
        id=identity if identity is not None else f"{spec.name}-{index:04d}",
        category=category if category is not None else spec.name,
        text=text,
        max_tokens=cap,
    )


def _field(spec: DatasetSpec, index: int, row: Mapping[str, object], field: str) -> str:
    if field not in row:
        raise DatasetError(
            spec.name,
            f"record {index + 1} has no field '{field}'{nearest(field, row)}",
            allowed=", ".join(sorted(row)),
            remedy="set prompt_field to the field that holds the user's turn",
        )
    value = row[field]
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(
            spec.name, f"field '{field}' of record {index + 1} is {value!r}", allowed="a text"
        )
    return value


def _optional(row: Mapping[str, object], field: str | None) -> str | None:
    value = row.get(field) if field is not None else None
    return None if value is None else str(value)


def _check_ids(name: str, prompts: tuple[Prompt, ...]) -> None:
    if not prompts:
        raise DatasetError(name, "it holds no prompts", remedy="choose a source with records")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise DatasetError(
                name,
                f"the id '{prompt.id}' stands twice",
                remedy="set id_field: null to number the prompts",
            )
        seen.add(prompt.id)


def _rows(spec: DatasetSpec) -> list[Mapping[str, object]]:
    source = spec.source
    if isinstance(source, HubSource):
        return _from_hub(spec.name, source)
    return _from_file(spec.name, _local_path(spec.name, source))


def _local_path(name: str, source: BundledSource | PathSource) -> Path:
    if isinstance(source, PathSource):
        try:
            path = Path(source.path).expanduser()
            found = path.is_file()
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DatasetError(
                name, f"{source.path[:80]} is no path ({reason})", remedy="correct source.path"
            ) from error
        if not found:
            raise DatasetError(name, f"there is no file {path}", remedy="correct source.path")
        return path
    path = BUNDLED / source.file
    if not path.is_file():
        known = sorted(file.name for file in BUNDLED.glob("*.jsonl"))
        raise DatasetError(
            name,
            f"no bundled set is called '{source.file}'{nearest(source.file, known)}",
            allowed=", ".join(known),
        )
    return path


def _from_file(name: str, path: Path) -> list[Mapping[str, object]]:
    """The records of a JSON Lines file.

    The lines come through `datasets`, their JSON is read here: its own reader infers one type for
    a column, which turns a prompt that looks like a date into one.
    """
    lines = _lines(name, path)
    return [_record(name, path, n, line) for n, line in enumerate(lines, 1) if line.strip()]


def _lines(name: str, path: Path) -> list[str]:
    from datasets import Dataset  # not at import time: it takes seconds

    if not path.stat().st_size:
        raise DatasetError(name, f"{path} is empty", allowed=JSON_LINES)
    try:
        with _quiet(), TemporaryDirectory() as cache:
            # In a folder of its own, so that no stale copy of an edited file is ever read.
            table = Dataset.from_text(
                str(path), cache_dir=cache, keep_in_memory=True, encoding="utf-8-sig"
            )
            return [str(line) for line in table["text"]]
    except Exception as error:
        raise DatasetError(
            name, f"{path} cannot be read ({_root(error)})", allowed=JSON_LINES
        ) from error


def _record(name: str, path: Path, number: int, line: str) -> Mapping[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            name, f"line {number} of {path} is not JSON ({error})", allowed=JSON_LINES
        ) from error
    if not isinstance(record, dict):
        raise DatasetError(
            name, f"line {number} of {path} is not a JSON object", allowed=JSON_LINES
        )
    return record


def _from_hub(name: str, source: HubSource) -> list[Mapping[str, object]]:
    from datasets import load_dataset

    try:
        with _quiet():
            table = load_dataset(
                source.repo, source.config, split=source.split, revision=source.revision
            )
            return list(table)
    except Exception as error:
        raise DatasetError(
            name,
            f"{source.repo} at {source.revision[:12]} cannot be loaded ({_root(error)})",
            remedy="check repo, split and revision, or read a local copy with source.kind=path",
        ) from error


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    first = str(error).strip().splitlines()
    return first[0][:200] if first else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and log off the console; its errors reach the caller."""
    from datasets import disable_progress_bars
    from datasets.utils import logging

    disable_progress_bars()
    hub = getLogger("huggingface_hub")
    before, hub_before = logging.get_verbosity(), hub.level
    logging.set_verbosity(logging.CRITICAL)
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        hub.setLevel(hub_before)
