"""Training of one head: distillation on the cached hidden states, resumable at any step.

Weights are fp32 masters, products run in bf16 where the processor has it (`precision.py`). Matrices
are updated by Muon, norms and biases by AdamW.

A run is split into slices of its budget: learning rate and unroll follow the finished *share*, so
that the same schedule fits twenty minutes and ten hours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from pipeline.zoo.block import Dflash
from pipeline.zoo.errors import NothingToTrainError
from pipeline.zoo.heads import Head
from pipeline.zoo.hidden import States
from pipeline.zoo.lm import HIDDEN, LAYERS
from pipeline.zoo.loss import Labels, Vocabulary, labels_at
from pipeline.zoo.memory import release
from pipeline.zoo.muon import Muon
from pipeline.zoo.precision import products
from pipeline.zoo.recurrent import Eagle3, Mtp
from pipeline.zoo.storage import weights_written
from pipeline.zoo.windows import Window, window

CLASSES: dict[str, type[Eagle3] | type[Mtp] | type[Dflash]] = {
    "eagle3": Eagle3,
    "mtp": Mtp,
    "dflash": Dflash,
}
BATCH = 24
RELEASE_EVERY = 20
SHORTEST = 8
"""Fewest answer tokens of a sample that is trained on."""
MUON_RATE, ADAM_RATE = 1e-2, 2e-3
POSITION_WEIGHT = {"eagle3": 0.8, "mtp": 0.8, "dflash": math.exp(-0.5)}
SINGLE_STEP_SHARE = 0.4
"""Share of a run before recurrent heads are unrolled. From then on each batch is drafted one to
`unroll` steps deep: the first step decides most of what is accepted and so gets most of the
time."""


@dataclass(frozen=True)
class Report:
    """Where a training stands.

    Attributes:
        step: optimiser steps done.
        share: finished share of the run, 0 to 1.
        loss: running mean of the cross-entropy per draft, nats.
    """

    step: int
    share: float
    loss: float


def new_head(method: str, target: dict[str, Tensor], scale: Tensor, seed: int) -> Head:
    """A head started from the target's own late layers.

    Args:
        method: eagle3, mtp or dflash.
        target: the target's tensors by their checkpoint names.
        scale: [4H] reciprocal spread of each stream entry.
        seed: of the random part.
    """
    torch.manual_seed(seed)
    head = CLASSES[method](target["model.embed_tokens.weight"], scale)
    with torch.no_grad():
        _warm_start(method, head, target, scale)
    return head


def _warm_start(method: str, head: Any, target: dict[str, Tensor], scale: Tensor) -> None:
    blocks = list(head.layers) if method == "dflash" else [head]
    for i, block in enumerate(blocks):
        _copy_layer(block, target, LAYERS - len(blocks) + i)
        if i < len(blocks) - 1:  # silent at first: one layer's start is the whole head's start
            block.attention.o_proj.weight.zero_()
            block.mlp.down_proj.weight.zero_()
    final = head.final_layernorm if method == "mtp" else head.norm
    # The late layers are sure of the token that is already known; a small norm makes that cheap to
    # unlearn.
    final.weight.copy_(target["model.norm.weight"].float() * 0.3)
    spread = 1 / scale
    typical = spread[-HIDDEN:].square().mean().sqrt()
    newest = torch.diag(spread[-HIDDEN:] / typical)
    if method == "mtp":
        head.input_proj.weight.normal_(0, 0.01)
        head.input_proj.weight[:, :HIDDEN] = newest
        head.hidden_layernorm.weight.copy_(typical / spread[-HIDDEN:])
        return
    head.fc.weight.normal_(0, 0.01)
    head.fc.weight[:, -HIDDEN:] += newest
    if method == "eagle3":  # its two norms stand before the concatenation
        head.hidden_norm.weight.copy_(head.input_layernorm.weight)
        head.input_layernorm.weight.fill_(1.0)


def _copy_layer(block: Any, target: dict[str, Tensor], number: int) -> None:
    """A decoder layer of the target; the columns of a wider input that it has not start as
    noise."""
    prefix = f"model.layers.{number}"
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        projection = getattr(block.attention, name)
        projection.weight.normal_(0, 0.01)
        projection.weight[:, -HIDDEN:] = target[f"{prefix}.self_attn.{name}.weight"].float()
        if projection.bias is not None:
            projection.bias.zero_()
    for name in ("gate_proj", "up_proj", "down_proj"):
        getattr(block.mlp, name).weight.copy_(target[f"{prefix}.mlp.{name}.weight"].float())
    for name in ("input_layernorm", "post_attention_layernorm"):
        getattr(block, name).weight.copy_(target[f"{prefix}.{name}.weight"].float())


def spread_scale(states: States, rows: int = 20_000) -> Tensor:
    """[4H] reciprocal root mean square of each stream entry over the first tokens of a corpus part.

    Position 0 is left out: its streams are hundreds of times larger than all others.
    """
    sample = states.streams[:rows].float()
    keep = torch.ones(len(sample), dtype=torch.bool)
    starts = torch.from_numpy(states.starts[states.starts < len(sample)])
    keep[starts] = False
    return 1 / sample[keep].square().mean(0).sqrt().clamp_min(1e-4)


def batches(samples: list[tuple[States, int]], seed: int) -> Iterator[Window]:
    """Endless batches of samples with prompts of like length, reshuffled every epoch."""
    random = Random(seed)
    pool = [(s, i) for s, i in samples if s.starts[i + 1] - s.starts[i] - s.prompts[i] >= SHORTEST]
    if not pool:
        raise NothingToTrainError(len(samples), SHORTEST)
    while True:
        random.shuffle(pool)
        for begin in range(0, len(pool), BATCH * 16):
            chunk = sorted(pool[begin : begin + BATCH * 16], key=lambda p: int(p[0].prompts[p[1]]))
            groups = [chunk[i : i + BATCH] for i in range(0, len(chunk), BATCH)]
            random.shuffle(groups)
            for group in groups:
                yield window(group)


class Trainer:
    """Head, optimisers and counters of one run; saved and restored as one file."""

    def __init__(self, method: str, head: Head, vocabulary: Vocabulary, seed: int = 0) -> None:
        self.method, self.head, self.vocabulary = method, head, vocabulary
        matrices = [p for p in head.parameters() if p.ndim == 2]
        others = [p for p in head.parameters() if p.ndim != 2]
        self._muon = Muon(matrices, lr=MUON_RATE, weight_decay=0.1)
        self._adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0)
        self._random = Random(seed)
        self.step, self.spent_s, self.loss = 0, 0.0, 0.0

    def run(
        self, data: Iterator[Window], budget_s: float, report: Callable[[Report], None]
    ) -> None:
        """Train until `budget_s` seconds have been spent in all (earlier runs counted in)."""
        while self.spent_s < budget_s:
            begun = time.monotonic()
            share = min(1.0, self.spent_s / budget_s)
            self._update(next(data), share)
            if self.step % RELEASE_EVERY == 0:
                release()
            self.spent_s += time.monotonic() - begun
            report(Report(self.step, min(1.0, self.spent_s / budget_s), self.loss))

    def _update(self, batch: Window, share: float) -> None:
        self.head.train()
        loss = self._loss(batch, share)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        warm = min(1.0, (self.step + 1) / 20)
        rate = warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        for optimizer, full in ((self._muon, MUON_RATE), (self._adam, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = full * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        value = float(loss.detach())
        self.loss = value if self.step == 1 else 0.98 * self.loss + 0.02 * value

    def _loss(self, batch: Window, share: float) -> Tensor:
        with products():
            outputs, columns = self._draft(batch, share)
            total, weights = torch.zeros(()), 0.0
            for i, output in enumerate(outputs):
                labels = labels_at(batch, columns, i)
                valid = labels.valid
                flat = Labels(labels.best[valid], labels.probabilities[valid], valid[valid])
                if not len(flat.best):
                    continue
                weight = POSITION_WEIGHT[self.method] ** i
                total = total + weight * self.vocabulary.loss(output[valid], flat).mean()
                weights += weight
            return total / max(weights, 1e-6)

    def _draft(self, batch: Window, share: float) -> tuple[list[Tensor], Tensor]:
        if isinstance(self.head, Dflash):
            steps = self._random.choice((1, 3, 7))
            count = min(batch.tokens.shape[1] - 1 - batch.prompt, 128 // (steps + 1))
            first = (
                batch.prompt
                + torch.rand(len(batch.end), count)
                .mul((batch.end - 1 - batch.prompt).clamp_min(1)[:, None])
                .long()
            )
            return self.head.draft(batch, steps, first)
        unrolled = share >= SINGLE_STEP_SHARE
        return self.head.draft(batch, self._random.randint(1, self.head.unroll) if unrolled else 1)

    def save(self, path: Path) -> None:
        """Write everything needed to go on, atomically."""
        state = {
            "head": self.head.state_dict(),
            "muon": self._muon.state_dict(),
            "adam": self._adam.state_dict(),
            "step": self.step,
            "spent_s": self.spent_s,
            "loss": self.loss,
        }
        temporary = path.with_suffix(".part")
        with weights_written(temporary):
            torch.save(state, temporary)
        temporary.replace(path)

    def restore(self, path: Path) -> None:
        """Go on from a file of `save`."""
        state = torch.load(path, weights_only=True)
        self.head.load_state_dict(state["head"])
        self._muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])
        self.step, self.spent_s, self.loss = state["step"], state["spent_s"], state["loss"]
