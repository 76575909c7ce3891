"""Acceptance by position: counted offline from hidden states, or by the engine.

Offline, a head drafts at every column of a finished greedy text at once; since an accepted draft
is the text, teacher forcing shows exactly what the engine would have drafted. The count then walks
through the
text as the engine does: a draft, its accepted tokens, one token of the target's own, the next
    draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.zoo.heads import Head
from pipeline.zoo.hidden import States
from pipeline.zoo.loss import Vocabulary
from pipeline.zoo.precision import products
from pipeline.zoo.windows import window


@dataclass(frozen=True)
class Counts:
    """Drafts made, and drafts accepted up to and including each position."""

    drafts: int
    accepted: tuple[int, ...]

    def rates(self) -> tuple[float, ...]:
        """Joint acceptance by position, 0 to 1."""
        return tuple(a / max(self.drafts, 1) for a in self.accepted)

    def share_accepted(self) -> float:
        """Accepted over drafted tokens."""
        return sum(self.accepted) / max(self.drafts * len(self.accepted), 1)


def total(parts: Iterable[Counts]) -> Counts:
    """Sum of counts over the same number of positions; none at all is zero drafts."""
    listed = list(parts)
    columns = zip(*(part.accepted for part in listed), strict=True)
    return Counts(sum(part.drafts for part in listed), tuple(sum(column) for column in columns))


def walk(matches: NDArray[np.bool_]) -> Counts:
    """Counts of one text.

    Args:
        matches: [Q, K]; row q tells for the draft that begins at the text's q-th draftable token
            which
            of its K tokens are the text's.
    """
    rows, k = matches.shape
    leading = np.cumprod(matches, axis=1, dtype=np.int64)
    accepted = np.zeros(k, dtype=np.int64)
    drafts = at = 0
    while at < rows:
        accepted += leading[at]
        drafts += 1
        at += int(leading[at].sum()) + 1
    return Counts(drafts, tuple(int(a) for a in accepted))


@torch.inference_mode()
def offline(
    head: Head, vocabulary: Vocabulary, states: States, indices: Sequence[int], k: int
) -> dict[str, Counts]:
    """Acceptance of a head over samples, by kind.

    Args:
        head: in any state of training.
        vocabulary: tokens it can draft.
        states: hidden states of finished greedy texts.
        indices: the samples to count.
        k: drafted tokens.
    """
    head.eval()
    found: dict[str, list[Counts]] = {}
    ordered = sorted(indices, key=lambda i: int(states.prompts[i]))
    for begin in range(0, len(ordered), 8):
        chosen = ordered[begin : begin + 8]
        batch = window([(states, i) for i in chosen])
        with products():
            outputs, columns = head.draft(batch, k)
        rows, size = batch.tokens.shape
        at = columns.expand(rows, -1)
        matches = []
        for step, output in enumerate(outputs):
            drafted = vocabulary.argmax(output.flatten(0, 1)).unflatten(0, at.shape)
            ahead = at + step
            truth = batch.tokens.gather(1, ahead.clamp_max(size - 1))
            matches.append((drafted == truth) & (ahead < batch.end[:, None]))
        hits = torch.stack(matches, dim=-1).numpy()
        for row, i in enumerate(chosen):
            rows_used = int((at[row] < batch.end[row]).sum())
            counted = walk(hits[row, :rows_used])
            found.setdefault(str(states.kinds[i]), []).append(counted)
    return {kind: total(parts) for kind, parts in sorted(found.items())}
