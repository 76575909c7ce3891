"""What can be wrong with a checkpoint, one class per sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import InfrastructureError, InputError, nearest

_SHOWN_CHARACTERS = 80


def shown(name: str) -> str:
    """A name out of a file, safe to print: a damaged header may hold anything."""
    cut = name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "…"
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def place(path: Path) -> str:
    """A path, whole, and safe to print."""
    text = str(path)
    return text if text.isprintable() else ascii(text)[1:-1]


def listed(names: Sequence[str], limit: int = 3) -> str:
    """The first few names and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(shown(name) for name in names[:limit]) + more


class NotACheckpointError(InputError):
    """The folder holds no safetensors checkpoint."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(
            problem,
            where=place(folder),
            allowed="a folder with model.safetensors.index.json and its files, or with one"
            " model.safetensors",
        )


class UnreadableFileError(InfrastructureError):
    """The operating system does not let us read a file or folder."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"it cannot be read ({error.strerror or error})",
            where=place(path),
            remedy="check that it exists and that this user may read it",
        )


class UnwritableError(InfrastructureError):
    """The operating system refuses a write: permissions, a read-only or full disk, a limit."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"it cannot be written ({error.strerror or error}); the original is untouched",
            where=place(path),
            remedy="make the folder writable or free some space, then run the same command again",
        )


class NoSpaceError(InfrastructureError):
    """Less free space than what is about to be written."""

    def __init__(self, folder: Path, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"{free_bytes / 1e6:,.1f} MB are free, {needed_bytes / 1e6:,.1f} MB are needed;"
            " nothing was written",
            where=place(folder),
            remedy="free some space, or choose a folder on another disk",
        )


class BusyError(InfrastructureError):
    """Another process of this tool works on the same folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "another run of this tool works on this folder",
            where=place(folder),
            remedy="wait for it to end, then run the same command again",
        )


class PointerFileError(InputError):
    """A Git LFS pointer lies where weights should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "it is a Git LFS pointer of a few lines, not the weights",
            where=place(path),
            remedy="fetch the file itself, with `git lfs pull` or `hf download`",
        )


class DamagedFileError(InputError):
    """A safetensors file whose header and size do not agree, such as a download that broke off."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"it is not a whole safetensors file: {problem}",
            where=place(path),
            remedy="delete it and download it again",
        )


class DamagedJsonError(InputError):
    """An index, a configuration or a note of this tool that is not the JSON it should be."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            problem, where=place(path), remedy="download the file again, or restore a backup"
        )


class MissingShardError(InputError):
    """The index names a file that is not in the folder."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(
            f"the index names {len(names)} files that are not here ({listed(names)})",
            where=place(folder),
            remedy="finish the download, then run the same command again",
        )


class NoHeadError(InputError):
    """No file in the folder holds tensors of an MTP head."""

    def __init__(self, folder: Path, prefix: str, tried: str, elsewhere: Sequence[str]) -> None:
        where_it_is = (
            f"{listed(elsewhere)} holds such tensors: name it with extra=FILE"
            if elsewhere
            else "give the folder that has the head with source=FOLDER, or its names with prefix="
        )
        super().__init__(
            f"no tensor named {shown(prefix)}* is in {tried} or in the index",
            where=place(folder),
            remedy=where_it_is,
        )


class NoSuchFileError(InputError):
    """A file the user named is not a file of that folder."""

    def __init__(self, name: str, folder: Path, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no file '{shown(name)}'{nearest(name, known)}",
            where=place(folder),
            allowed=listed(known, limit=8) or "the folder holds no safetensors file",
        )


class ConflictError(InputError):
    """Two files hold the same head tensors and nobody said which counts."""

    def __init__(self, names: Sequence[str], first: str, second: str, remedy: str) -> None:
        super().__init__(
            f"{len(names)} head tensors are both in {shown(first)} and in {shown(second)}"
            f" ({listed(names)})",
            remedy=remedy,
        )


class OtherFileThereError(InputError):
    """A file to be brought would replace another one of the same name."""

    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(
            f"a different file of this name is here already, {place(source)} would replace it",
            where=place(path),
            remedy="move it away, or leave source= out to register the one that is here",
        )


class BackupInTheWayError(InputError):
    """A backup exists and the index is no longer what this tool wrote."""

    def __init__(self, backup: Path) -> None:
        super().__init__(
            "it is the backup of an earlier run, and the index has changed since",
            where=place(backup),
            remedy="keep the index you trust and move this file away, then run the command again",
        )


class NothingToUndoError(InputError):
    """There is no trace of an earlier run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "nothing to undo: register-mtp has changed nothing here", where=place(folder)
        )


class ChangedSinceError(InputError):
    """Undoing would destroy what somebody else did to the index after us."""

    def __init__(self, index: Path, backup: Path) -> None:
        super().__init__(
            "it was changed after register-mtp wrote it, undoing would lose that change",
            where=place(index),
            remedy=f"compare it with {shown(backup.name)} and rename the one you want",
        )


class FolderInUseError(InputError):
    """The output folder holds something this tool did not put there."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(
            problem, where=place(folder), allowed="a new or empty folder, or one to resume"
        )


class NoMatchError(InputError):
    """Two checkpoints that cannot be put together."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            problem,
            where=where,
            remedy="use an INT4 and an FP8 checkpoint of the same model",
        )


class VerificationError(InfrastructureError):
    """What was read back is not what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "the bytes read back differ from the bytes written: the disk or the memory is faulty",
            where=place(path),
            remedy="delete the file and run the same command again; if it repeats, test the disk",
        )


class UnknownWordError(InputError):
    """A verb or a flag that does not exist."""

    def __init__(self, word: str, known: Sequence[str], usage: str) -> None:
        super().__init__(f"'{shown(word)}' is not known{nearest(word, known)}", allowed=usage)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a refusal of the operating system into a sentence about `path`.

    Raises:
        UnreadableFileError: the block raised OSError.
    """
    try:
        yield
    except OSError as error:
        raise UnreadableFileError(path, error) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """The same for writes.

    Raises:
        UnwritableError: the block raised OSError.
    """
    try:
        yield
    except OSError as error:
        raise UnwritableError(path, error) from error


def is_file(path: Path) -> bool:
    """True for a file, also behind a link; a name no file system could hold is no file."""
    try:
        return path.is_file()
    except OSError:
        return False
