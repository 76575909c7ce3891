"""What the zoo holds, and how each checkpoint gets into the cache.

    smollm2-135m-instruct          the target
    smollm2-135m-instruct-mtp      the same weights in the MiMo layout, with an MTP head
    smollm2-135m-instruct-eagle3   an EAGLE3 drafter for the target
    smollm2-135m-instruct-dflash   a DFlash drafter for the target

Nothing here imports torch before there is something to build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline.zoo import drafters, target
from pipeline.zoo.errors import UnknownCheckpointError
from pipeline.zoo.progress import Step, bar
from pipeline.zoo.storage import build_once, cache_folder, is_complete, verify

TARGET = "smollm2-135m-instruct"


@dataclass(frozen=True)
class Entry:
    """One checkpoint of the zoo.

    Attributes:
        write: fills a folder; given the folder, the target's folder (None for the target itself)
            and
            a progress step.
        head: the trained head's file in the package, None for the target.
        needed_bytes: room it takes while it is built.
    """

    write: Callable[[Path, Path | None, Step], None]
    head: drafters.Head | None
    needed_bytes: int


def _write_target(folder: Path, _: Path | None, step: Step) -> None:
    target.write_target(folder, step)


def _entry(head: drafters.Head) -> Entry:
    def write(folder: Path, target_folder: Path | None, step: Step) -> None:
        assert target_folder is not None
        drafters.assemble(head, folder, target_folder, step)

    return Entry(write, head, head.needed_bytes)


ENTRIES: dict[str, Entry] = {
    TARGET: Entry(_write_target, None, target.NEEDED_BYTES),
    **{f"{TARGET}-{head.method}": _entry(head) for head in drafters.HEADS},
}


def names() -> tuple[str, ...]:
    """Names of all checkpoints, the target first."""
    return tuple(ENTRIES)


def digest_of(name: str) -> str:
    """Hex sha256 that changes whenever the checkpoint's weights do; nothing is built for it.

    Raises:
        UnknownCheckpointError: no such checkpoint.
    """
    head = _find(name).head
    sources = [target.WEIGHTS_SHA256] + ([head.sha256, drafters.LAYOUT] if head else [])
    return hashlib.sha256("\n".join(sources).encode()).hexdigest() if head else sources[0]


def materialise(name: str, *, cache_dir: Path | None = None, progress: Step | None = None) -> Path:
    """Folder of a checkpoint in Hugging Face layout; built on the first call, verified on each.

    Safe to call from several processes at once.

    Args:
        name: one of `names()`.
        cache_dir: root of the cache instead of the user's.
        progress: told the finished share; by default a bar is drawn on standard error.

    Raises:
        UnknownCheckpointError: no such checkpoint.
        SourcePackageMissingError, TamperedFileError, NoSpaceError, CacheNotWritableError: see
            there.
    """
    entry = _find(name)
    # The digest in the name: a new release of the package builds beside the old one.
    folder = cache_folder(cache_dir) / f"{name}@{digest_of(name)[:12]}"
    if is_complete(folder):
        verify(folder)
        return folder
    base = materialise(TARGET, cache_dir=cache_dir, progress=progress) if entry.head else None
    if progress is not None:
        return build_once(
            folder, entry.needed_bytes, lambda temp: entry.write(temp, base, progress)
        )
    with bar(f"building {name}") as step:
        return build_once(folder, entry.needed_bytes, lambda temp: entry.write(temp, base, step))


def _find(name: str) -> Entry:
    if name not in ENTRIES:
        raise UnknownCheckpointError(name, ENTRIES)
    return ENTRIES[name]
