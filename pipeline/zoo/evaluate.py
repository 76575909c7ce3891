"""`python -m pipeline.zoo evaluate`: acceptance by position, offline and as the engine counts it.

Both count the same drafts: the engine answers, and its very answers are read again offline. Answers
of two runs would not do: the target's texts part at near ties, one of them ends up copying itself,
and acceptance over forty answers then differs by more than what is looked for. If the two counts
differ at the first or the second position by more than `TOLERANCE`, a shift, a norm or a rotary
layout of the training is not the engine's, and the command fails. A wrong shift shows at the first
position; a wrong norm or rotary layout costs little there and a fifth to a third of what is
accepted at the second.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.zoo.acceptance import Counts, offline, total
from pipeline.zoo.arguments import EvaluateArguments
from pipeline.zoo.block import Dflash
from pipeline.zoo.drafters import AUX_LAYERS, HEADS, block_layers, target_ids, write_drafter
from pipeline.zoo.enginecount import (
    Answered,
    Asked,
    EngineCount,
    PipelineEngine,
    SpeculativeEngine,
)
from pipeline.zoo.errors import DamagedHeadError, HeadMissingError, UnknownMethodError
from pipeline.zoo.generate import Request, Writer
from pipeline.zoo.heads import Head
from pipeline.zoo.hidden import Sample, States, StatesWriter, open_states
from pipeline.zoo.lm import Target
from pipeline.zoo.loss import Vocabulary
from pipeline.zoo.overlap import PROMPT_SETS, texts_by_kind
from pipeline.zoo.storage import cache_folder
from pipeline.zoo.train import CLASSES

TOLERANCE = 0.03
"""Difference that rounding may make: where a drafter's two likeliest tokens are near a tie."""
COMPARED = 2
"""Positions that are compared."""
STRUCTURED = ("code", "json", "math")
DRAFTED = {"mtp": 4, "eagle3": 4, "dflash": 7}
"""Tokens drafted per method when nothing else is asked for."""


@dataclass(frozen=True)
class Gap:
    """Joint acceptance at one position, counted twice.

    Attributes:
        position: 1, 2, …
        accepted, drafts: of the offline count.
        engine_accepted, engine_drafts: of the engine's.
    """

    position: int
    accepted: int
    drafts: int
    engine_accepted: int
    engine_drafts: int

    @property
    def size(self) -> float:
        """Absolute difference of the two rates, 0 to 1."""
        mine = self.accepted / max(self.drafts, 1)
        return abs(mine - self.engine_accepted / max(self.engine_drafts, 1))

    @property
    def tolerable(self) -> bool:
        """Whether rounding explains it."""
        return self.size <= TOLERANCE


@dataclass(frozen=True)
class Comparison:
    """Acceptance of one head by kind of prompt; `engine` is None where it was not asked."""

    method: str
    offline: dict[str, Counts]
    engine: dict[str, Counts] | None

    def gaps(self) -> tuple[Gap, ...]:
        """Differences at the first positions over all prompts; none without an engine."""
        if self.engine is None:
            return ()
        mine, theirs = total(self.offline.values()), total(self.engine.values())
        pairs = list(zip(mine.accepted, theirs.accepted, strict=True))[:COMPARED]
        return tuple(
            Gap(position, one, mine.drafts, other, theirs.drafts)
            for position, (one, other) in enumerate(pairs, 1)
        )

    def agrees(self) -> bool:
        """True where the two may be taken for the same head."""
        return all(gap.tolerable for gap in self.gaps())


def asked_prompts(tokenizer: Any, per_kind: int, folder: Path = PROMPT_SETS) -> list[Asked]:
    """The first prompts of each bundled set, rendered as a single user turn."""
    return [
        Asked(kind, tuple(_rendered(tokenizer, text)))
        for kind, texts in texts_by_kind(folder).items()
        for text in texts[:per_kind]
    ]


def greedy_answers(target: Target, asked: Sequence[Asked], max_tokens: int) -> list[Answered]:
    """What the target answers, without an engine."""
    by_name = {str(i): prompt for i, prompt in enumerate(asked)}
    requests = [Request(n, prompt.token_ids, max_tokens) for n, prompt in by_name.items()]
    return [
        Answered(by_name[answer.request.key], answer.tokens)
        for answer in _writer(target, len(requests)).write(deque(requests))
    ]


def read_states(target: Target, answers: Sequence[Answered], path: Path) -> States:
    """The target's hidden states over finished answers, in files beginning `path`."""
    by_name = {str(i): answer for i, answer in enumerate(answers)}
    # One more token is written after all but the last of a text: no row of that one is needed.
    requests = [
        Request(name, answer.asked.token_ids + answer.token_ids[:-1], 1)
        for name, answer in by_name.items()
    ]
    states = StatesWriter(path)
    for read in _writer(target, len(requests)).write(deque(requests)):
        answer = by_name[read.request.key]
        assert read.seen is not None
        sample = Sample(answer.asked.kind, "", answer.asked.token_ids, answer.token_ids)
        states.append(sample, read.seen)
    states.close()
    return open_states(path)


def _writer(target: Target, texts: int) -> Writer:
    return Writer(target, slots=min(32, texts), length=1024, keep=AUX_LAYERS)


def load_head(method: str, path: Path, embedding: Tensor) -> tuple[Head, Vocabulary]:
    """A shipped or exported head, ready to draft offline.

    Raises:
        DamagedHeadError: the file holds none of this method.
    """
    from safetensors import SafetensorError

    try:
        return _load_head(method, path, embedding)
    except (SafetensorError, KeyError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DamagedHeadError(path, f"{type(error).__name__}: {reason}") from error


def _load_head(method: str, path: Path, embedding: Tensor) -> tuple[Head, Vocabulary]:
    from safetensors.torch import load_file

    tensors = load_file(path)
    scale = torch.ones(len(AUX_LAYERS) * embedding.shape[1])
    head: Head = (
        Dflash(embedding, scale, block_layers(tensors))
        if method == "dflash"
        else CLASSES[method](embedding, scale)
    )
    head.load(tensors)
    ids = target_ids(tensors["d2t"]) if "d2t" in tensors else torch.arange(embedding.shape[0])
    return head, Vocabulary(embedding, ids)


def engine_count(
    engine: SpeculativeEngine,
    method: str,
    checkpoints: tuple[Path, Path],
    asked: Sequence[Asked],
    k: int,
    max_tokens: int,
) -> EngineCount:
    """Have the engine answer with one head.

    Args:
        engine: runs it.
        method: mtp, eagle3 or dflash.
        checkpoints: folders of the target and of the assembled drafter.
        asked: the prompts.
        k: drafted tokens.
        max_tokens: cap of an answer.
    """
    base, drafter = checkpoints
    speculative: dict[str, Any] = {"method": method, "num_speculative_tokens": k}
    if method == "mtp":
        base = drafter
    else:
        speculative["model"] = str(drafter)
    return engine.run(base, speculative, asked, max_tokens)


def evaluate(asked: EvaluateArguments, target_folder: Path) -> Iterator[Comparison]:
    """Count every method that was asked for, one after the other.

    Raises:
        UnknownMethodError, HeadMissingError, TamperedFileError, DamagedHeadError: before an engine
            starts.
        EngineFailedError: the engine ended; its log lies in the cache.
    """
    paths = {method: asked.heads / f"{method}.safetensors" for method in asked.methods.split(",")}
    for method, path in paths.items():
        if method not in CLASSES:
            raise UnknownMethodError(method, CLASSES)
        if not path.is_file():
            raise HeadMissingError(path)
    for shipped in HEADS:
        if paths.get(shipped.method) == shipped.path:
            shipped.verify()
    from transformers import AutoTokenizer

    prompts = asked_prompts(AutoTokenizer.from_pretrained(target_folder), asked.per_kind)
    target = Target.load(target_folder)
    heads = {method: load_head(method, path, target.embedding) for method, path in paths.items()}
    log = cache_folder() / "evaluate-engine.log"
    log.unlink(missing_ok=True)
    # The states are large and of no later use.
    with tempfile.TemporaryDirectory(prefix="zoo-evaluate-") as name:
        folder = Path(name)
        engine = PipelineEngine(log) if asked.engine else None
        answers: Sequence[Answered] = ()
        for method, path in paths.items():
            k, counted = DRAFTED[method], None
            if engine is not None:
                drafter = folder / method
                drafter.mkdir()
                write_drafter(method, path, drafter, target_folder)
                checkpoints = (target_folder, drafter)
                counted = engine_count(engine, method, checkpoints, prompts, k, asked.max_tokens)
                answers = counted.answers
            answers = answers or greedy_answers(target, prompts, asked.max_tokens)
            states = read_states(target, answers, folder / f"{method}-states")
            head, vocabulary = heads[method]
            mine = offline(head, vocabulary, states, range(len(states)), k)
            yield Comparison(method, mine, counted.counts if counted else None)


def lines(comparison: Comparison) -> list[str]:
    """A table of plain text: one line per kind and side."""
    sides = {"offline": comparison.offline, "engine": comparison.engine or {}}
    rows = []
    for side, counts in sides.items():
        groups = {kind: [found] for kind, found in counts.items()}
        if counts:
            groups["code+json+math"] = [counts[kind] for kind in STRUCTURED if kind in counts]
            groups["all"] = list(counts.values())
        for name, parts in groups.items():
            summed = total(parts)
            rates = " ".join(f"{rate:.3f}" for rate in summed.rates())
            rows.append(
                f"{comparison.method:<7} {side:<8} {name:<15} drafts {summed.drafts:>6}  {rates}"
            )
    return rows


def _rendered(tokenizer: Any, text: str) -> list[int]:
    chat = [{"role": "user", "content": text}]
    ids: list[int] = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    return ids
