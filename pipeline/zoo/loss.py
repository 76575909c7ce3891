"""Distillation on a sampled vocabulary.

The full softmax over the vocabulary would cost more than the head itself. Each step scores the
labels of the batch, the most frequent tokens, and a uniform sample of the others, whose logits are
raised by the
log of what they stand for: the partition function is estimated without bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from pipeline.zoo.precision import PRODUCTS
from pipeline.zoo.windows import Window

FREQUENT, SAMPLED = 1024, 1024
SOFT_SHARE = 0.8
"""Weight of the target's probabilities against its first choice."""


@dataclass(frozen=True)
class Labels:
    """What the target would say at the columns that the drafts predict.

    Attributes:
        best: [..., 8] likeliest tokens.
        probabilities: [..., 8] over those.
        valid: [...] False where a sequence has ended or the prompt is meant.
    """

    best: Tensor
    probabilities: Tensor
    valid: Tensor


def labels_at(window: Window, columns: Tensor, step: int) -> Labels:
    """Labels of draft step `step` for drafts whose first predicted column is `columns` ([Q] or [B,
    Q])."""
    rows, total = window.tokens.shape
    at = columns.expand(rows, -1) + step
    before = (at - 1).clamp_max(total - 1)[..., None].expand(-1, -1, window.best.shape[-1])
    best = window.best.gather(1, before)
    probabilities = window.log_probabilities.gather(1, before).exp()
    valid = (at < window.end[:, None]) & (best[..., 0] >= 0)
    return Labels(best, probabilities, valid)


class Vocabulary:
    """The tokens a head can draft.

    Args:
        embedding: [V, H] the target's, bf16.
        ids: target ids of the draft vocabulary, most frequent first.
        seed: of the sampling.
    """

    def __init__(self, embedding: Tensor, ids: Tensor, seed: int = 0) -> None:
        self._embedding = embedding.to(PRODUCTS)
        self._frequent, self._rest = ids[:FREQUENT], ids[FREQUENT:]
        self._allowed = torch.zeros(embedding.shape[0], dtype=torch.bool)
        self._allowed[ids] = True
        self.sorted_ids = ids.sort().values
        self._random = torch.Generator().manual_seed(seed)

    def argmax(self, outputs: Tensor) -> Tensor:
        """[N, H] outputs → target ids drafted greedily over the whole draft vocabulary."""
        rows = self._embedding[self.sorted_ids]
        chunks = [F.linear(x, rows).argmax(-1) for x in outputs.to(PRODUCTS).split(512)]
        return self.sorted_ids[torch.cat(chunks)] if chunks else self.sorted_ids[:0]

    def candidates(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Distinct target ids to score for a step with these labels, and their logits' offsets."""
        drawn = self._rest[torch.randint(len(self._rest), (SAMPLED,), generator=self._random)]
        certain = torch.zeros_like(self._allowed)
        certain[self._frequent] = True
        certain[labels.clamp_min(0).flatten()] = True
        certain &= self._allowed
        chance = torch.zeros_like(self._allowed)
        chance[drawn] = True
        chance &= ~certain
        ids = torch.cat([certain.nonzero()[:, 0], chance.nonzero()[:, 0]])
        others = int(self._allowed.sum()) - int(certain.sum())
        offsets = torch.zeros(len(ids))
        offsets[int(certain.sum()) :] = math.log(max(others, 1) / max(int(chance.sum()), 1))
        return ids, offsets

    def loss(self, outputs: Tensor, labels: Labels) -> Tensor:
        """Cross-entropy per draft, [N], for flat outputs [N, H] and labels ([N, 8])."""
        ids, offsets = self.candidates(labels.best[:, 0])
        place = torch.full((len(self._allowed),), -1)
        place[ids] = torch.arange(len(ids))
        at = place[labels.best.clamp_min(0)]
        known = at >= 0
        soft = labels.probabilities * known
        soft = soft / soft.sum(-1, keepdim=True).clamp_min(1e-6)
        aim = SOFT_SHARE * soft
        aim[:, 0] += (1 - SOFT_SHARE) * known[:, 0]
        logits = F.linear(outputs.to(PRODUCTS), self._embedding[ids]).float() + offsets
        wanted = logits.gather(1, at.clamp_min(0))
        share = aim.sum(-1)
        cross = share * torch.logsumexp(logits, dim=-1) - (aim * wanted).sum(-1)
        # A first choice outside the draft vocabulary can't be drafted: nothing to learn from it.
        return cross * known[:, 0]
