"""The verbs' `key=value` arguments as frozen records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.zoo.drafters import WEIGHTS
from pipeline.zoo.errors import BadArgumentError, UnknownArgumentError
from pipeline.zoo.storage import cache_folder


class Arguments(BaseModel):
    """Base: frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BuildArguments(Arguments):
    """What `build` is told.

    Attributes:
        budget: minutes for text and training together.
        work: folder of the build's state; by default one in the cache per seed and budget.
        seed: of everything random.
        out: where the trained heads are copied.
    """

    budget: float = Field(default=20.0, gt=0, le=10_000)
    work: Path | None = None
    seed: int = Field(default=0, ge=0)
    out: Path = Path("zoo-heads")

    def work_folder(self) -> Path:
        """The folder of the build's state."""
        return self.work or cache_folder() / f"build-seed{self.seed}-{self.budget:g}min"


class EvaluateArguments(Arguments):
    """What `evaluate` is told.

    Attributes:
        heads: folder of the heads' safetensors files.
        per_kind: prompts of each bundled set.
        max_tokens: cap of an answer.
        engine: also count in the engine.
        methods: comma-separated.
    """

    heads: Path = WEIGHTS
    per_kind: int = Field(default=8, ge=1)
    max_tokens: int = Field(default=128, ge=8, le=512)
    engine: bool = True
    methods: str = "mtp,eagle3,dflash"


A = TypeVar("A", bound=Arguments)


def parse(kind: type[A], arguments: Sequence[str]) -> A:
    """`key=value` words as a record.

    Raises:
        UnknownArgumentError: a key that the verb does not know, or a word without `=`.
        BadArgumentError: a value that it can't take.
    """
    values: dict[str, str] = {}
    for word in arguments:
        key, sign, value = word.partition("=")
        if not sign or key not in kind.model_fields:
            raise UnknownArgumentError(key, kind.model_fields)
        values[key] = value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise BadArgumentError(key, values.get(key, ""), str(first["msg"])) from None
