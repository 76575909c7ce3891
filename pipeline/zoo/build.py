"""`python -m pipeline.zoo build`: all three heads from nothing but the package.

Text is written until its share of the budget is spent, then each head is trained for its share. All
state lies in one work folder: corpus rounds, a checkpoint per head, and the seconds spent, so that
a killed build goes on where it was with the same command.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.locks import held
from pipeline.zoo import corpus
from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.errors import BuildRunsError, OtherSeedError
from pipeline.zoo.generate import Writer
from pipeline.zoo.hidden import States, open_states
from pipeline.zoo.lm import Target
from pipeline.zoo.loss import Vocabulary
from pipeline.zoo.overlap import Overlap, bundled_texts
from pipeline.zoo.progress import Tell
from pipeline.zoo.storage import require_space, weights_written
from pipeline.zoo.train import CLASSES, Report, Trainer, batches, new_head, spread_scale

TEXT_SHARE = 0.4
DRAFT_VOCABULARY = 16_384
HELD_OUT = 20
"""One sample in this many is kept from training."""
FIRST_ROUND, FEWEST, MOST = 64, 8, 512
"""Prompts of the first corpus round, and of any."""
ROUND_S = 120.0
"""About how long a later round takes on this machine: what a kill can cost."""
CHECKPOINT_S = 30.0
BYTES_PER_SECOND, CHECKPOINT_BYTES = 4_000_000, 260_000_000
"""Most of the disk that writing text fills (some 850 tokens' states a second), and that the heads'
checkpoints take."""


@dataclass(frozen=True)
class Part:
    """A corpus round with the samples that may be trained on and those held out."""

    states: States
    training: tuple[int, ...]
    held_out: tuple[int, ...]


class Clock:
    """Seconds spent per phase, kept on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.spent: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def start(self, phase: str) -> None:
        """Count for this phase from now on."""
        self._phase, self._since, self._saved = phase, time.monotonic(), time.monotonic()

    def tick(self, *, force: bool = False) -> float:
        """Count up to now; saved at most once a second unless forced. Returns the phase's total."""
        now = time.monotonic()
        self.spent[self._phase] = self.spent.get(self._phase, 0.0) + now - self._since
        self._since = now
        if force or now - self._saved > 1.0:
            self._saved = now
            self._save()
        return self.spent[self._phase]

    def _save(self) -> None:
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(self.spent), encoding="utf-8")
        temporary.replace(self._path)


def round_size(work: Path, spent_s: float, budget_s: float) -> int:
    """Prompts of the next round, by the pace of the rounds in `work` and the time that is left."""
    written = sum(len(corpus.texts_of(path)) for path in work.glob("round-*.jsonl"))
    if not written:
        return max(FEWEST, min(FIRST_ROUND, int(budget_s)))
    seconds = min(ROUND_S, budget_s - spent_s)
    return max(FEWEST, min(MOST, int(written / spent_s * seconds)))


def write_corpus(work: Path, target_folder: Path, budget_s: float, seed: int, tell: Tell) -> None:
    """Write corpus rounds into `work` until `budget_s` seconds have been spent on them in all."""
    from transformers import AutoTokenizer

    clock = Clock(work / "clock.json")
    number = len(list(work.glob("round-*.jsonl")))
    if number and clock.spent.get("text", 0.0) >= budget_s:
        return
    tokenizer = AutoTokenizer.from_pretrained(target_folder)
    target = Target.load(target_folder)
    while not number or clock.spent.get("text", 0.0) < budget_s:
        clock.start("text")

        def tick(_: int) -> None:
            # Counted while it runs: a build that is killed again and again must not take longer.
            tell("writing text", min(1.0, clock.tick() / budget_s))

        size = round_size(work, clock.spent.get("text", 0.0), budget_s)
        writer = Writer(target, min(96, size), seed=seed * 10_000 + number, keep=AUX_LAYERS)
        corpus.write_round(work, number, size, writer, tokenizer, tick)
        clock.tick(force=True)
        number += 1


def read_parts(work: Path) -> list[Part]:
    """All finished rounds, without samples that share a run of words with a bundled prompt."""
    overlap = Overlap(bundled_texts())
    parts = []
    for path in sorted(work.glob("round-*.jsonl")):
        states = open_states(path)
        texts = corpus.texts_of(path)
        usable = [i for i, text in enumerate(texts) if not overlap.shared(text)]
        held_out = tuple(i for i in usable if i % HELD_OUT == 0)
        training = tuple(i for i in usable if i % HELD_OUT)
        parts.append(Part(states, training, held_out))
    return parts


def draft_ids(method: str, parts: list[Part], vocabulary: int) -> Tensor:
    """Target ids that a head can draft, most frequent in the training answers first.

    The MTP head scores with the target's own `lm_head`: all of them.
    """
    counts: Counter[int] = Counter()
    for part in parts:
        for i in part.training:
            begin = int(part.states.starts[i]) + int(part.states.prompts[i])
            counts.update(part.states.tokens[begin : int(part.states.starts[i + 1])].tolist())
    # Tokens never seen follow by id: byte-pair merges are numbered by how common they were.
    ranked = sorted(range(vocabulary), key=lambda token: (-counts[token], token))
    return torch.tensor(ranked if method == "mtp" else ranked[:DRAFT_VOCABULARY])


def trainer_for(method: str, parts: list[Part], weights: dict[str, Tensor], seed: int) -> Trainer:
    """A fresh trainer over the parts' draft vocabulary."""
    embedding = weights["model.embed_tokens.weight"]
    ids = draft_ids(method, parts, embedding.shape[0])
    head = new_head(method, weights, spread_scale(parts[0].states), seed)
    return Trainer(method, head, Vocabulary(embedding, ids, seed), seed)


def train_head(
    method: str,
    parts: list[Part],
    weights: dict[str, Tensor],
    checkpoint: Path,
    budget_s: float,
    seed: int,
    tell: Tell,
) -> Trainer:
    """Train one head for `budget_s` seconds in all, going on from `checkpoint` where it exists."""
    trainer = trainer_for(method, parts, weights, seed)
    if checkpoint.exists():
        trainer.restore(checkpoint)
    pool = [(part.states, i) for part in parts for i in part.training]
    saved = [time.monotonic()]

    def report(progress: Report) -> None:
        tell(f"training {method}: step {progress.step}, loss {progress.loss:.2f}", progress.share)
        if time.monotonic() - saved[0] > CHECKPOINT_S:
            trainer.save(checkpoint)
            saved[0] = time.monotonic()

    # Another order after a restart: the epoch in flight is not repeated from its beginning.
    trainer.run(batches(pool, seed + trainer.step), budget_s, report)
    trainer.save(checkpoint)
    return trainer


def export(trainer: Trainer, path: Path, metadata: dict[str, str]) -> None:
    """Write a head as it is shipped: bf16 tensors, and `d2t` where the vocabulary is reduced."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in trainer.head.export().items()
    }
    ids = trainer.vocabulary.sorted_ids
    if trainer.method != "mtp":
        tensors["d2t"] = ids - torch.arange(len(ids))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with weights_written(temporary):
        save_file(tensors, temporary, metadata=metadata)
    temporary.replace(path)


def load_target(folder: Path) -> dict[str, Tensor]:
    """The converted target's tensors."""
    from safetensors.torch import load_file

    loaded: dict[str, Tensor] = load_file(folder / "model.safetensors")
    return loaded


def build(
    work: Path, target_folder: Path, budget_s: float, seed: int, tell: Tell
) -> Iterator[tuple[str, Path, Trainer]]:
    """Everything: text, then one head after the other.

    Args:
        work: folder of the build's state; the same folder continues.
        target_folder: the converted target.
        budget_s: seconds for all of it.
        seed: of sampling, initial weights and order; the prompts of a round are always the same.
        tell: progress over the whole build.

    Yields:
        Method, file of the head, and its trainer, as each is done.

    Raises:
        NoSpaceError: before anything is written.
        BuildRunsError: another build works in the folder.
        OtherSeedError: the folder's build began with another seed.
        OSError: the system refuses a file.
    """
    work.mkdir(parents=True, exist_ok=True)
    with held(work / "lock", "zoo build", 0.0, partial(BuildRunsError, work)):
        yield from _build(work, target_folder, budget_s, seed, tell)


def _build(
    work: Path, target_folder: Path, budget_s: float, seed: int, tell: Tell
) -> Iterator[tuple[str, Path, Trainer]]:
    text_s = TEXT_SHARE * budget_s
    kept = sum(path.stat().st_size for path in work.iterdir())
    require_space(work, max(0, int(text_s * BYTES_PER_SECOND) + CHECKPOINT_BYTES - kept))
    _begin(work / "seed", seed)
    write_corpus(
        work, target_folder, text_s, seed, lambda what, share: tell(what, TEXT_SHARE * share)
    )
    parts, weights = read_parts(work), load_target(target_folder)
    each = (1 - TEXT_SHARE) / len(CLASSES)
    # The last round ends after its time; the heads share what is left.
    left_s = max(budget_s - Clock(work / "clock.json").spent["text"], budget_s / 4)
    for number, method in enumerate(CLASSES):
        begin = TEXT_SHARE + number * each

        def within(what: str, share: float, begin: float = begin) -> None:
            tell(what, begin + each * share)

        trainer = train_head(
            method, parts, weights, work / f"{method}.pt", left_s / len(CLASSES), seed, within
        )
        path = work / f"{method}.safetensors"
        export(trainer, path, {"method": method, "seed": str(seed), "steps": str(trainer.step)})
        yield method, path, trainer


def _begin(note: Path, seed: int) -> None:
    """Write down the seed of a work folder's build, or see that it is this one."""
    if note.exists() and (began := note.read_text(encoding="utf-8")) != str(seed):
        raise OtherSeedError(note.parent, began, seed)
    note.write_text(str(seed), encoding="utf-8")


def tokens_in(parts: list[Part]) -> dict[str, Any]:
    """Sizes for the log and the cards: samples and answer tokens that are trained on."""
    samples = sum(len(part.training) for part in parts)
    tokens = sum(
        int(p.states.starts[i + 1] - p.states.starts[i] - p.states.prompts[i])
        for p in parts
        for i in p.training
    )
    return {"samples": samples, "answer_tokens": tokens}
