"""Batches for the training: prompts aligned on the right, answers on the left, side by side.

With the answers of all samples in the same columns, the parts of a head that only matter where it
drafts (queries, MLP, logits) run on those columns alone, and the prompt contributes keys and
values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.zoo.hidden import LIKELIEST, WIDTH, States

LONGEST_PROMPT = 320
"""Columns kept of a prompt; rope is relative, so cutting its start loses only context."""


@dataclass(frozen=True)
class Window:
    """A batch of B samples in C = P + A columns.

    Attributes:
        tokens: [B, C].
        streams: [B, C, 4 * H] bf16.
        best: [B, C, 8] the target's likeliest next tokens after each column.
        log_probabilities: [B, C, 8].
        first: [B] first column in use (prompts are padded on the left).
        end: [B] column after the last in use.
        prompt: P, the first answer column.
        whole: [B] True where column `first` is position 0 of the text.
    """

    tokens: Tensor
    streams: Tensor
    best: Tensor
    log_probabilities: Tensor
    first: Tensor
    end: Tensor
    prompt: int
    whole: Tensor


def window(parts: list[tuple[States, int]]) -> Window:
    """Lay samples, each given by its states and index, out side by side."""
    cuts = []
    for states, i in parts:
        start, end, prompt = (
            int(states.starts[i]),
            int(states.starts[i + 1]),
            int(states.prompts[i]),
        )
        kept = min(prompt, LONGEST_PROMPT)
        cuts.append((states, start, start + prompt - kept, end, kept))
    left = max(kept for *_, kept in cuts)
    columns = left + max(end - begin - kept for _, _, begin, end, kept in cuts)
    rows = len(cuts)
    tokens = torch.zeros(rows, columns, dtype=torch.long)
    streams = torch.zeros(rows, columns, WIDTH, dtype=torch.bfloat16)
    best = torch.full((rows, columns, LIKELIEST), -1, dtype=torch.long)
    log_probabilities = torch.zeros(rows, columns, LIKELIEST)
    first, last = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
    for row, (states, _, begin, end, kept) in enumerate(cuts):
        span = slice(left - kept, left - kept + end - begin)
        tokens[row, span] = torch.from_numpy(states.tokens[begin:end].astype(np.int64))
        streams[row, span] = states.streams[begin:end]
        best[row, span] = torch.from_numpy(states.best[begin:end].astype(np.int64))
        log_probabilities[row, span] = torch.from_numpy(
            states.log_probabilities[begin:end].astype(np.float32)
        )
        first[row], last[row] = span.start, span.stop
    whole = torch.tensor([start == begin for _, start, begin, _, _ in cuts])
    return Window(tokens, streams, best, log_probabilities, first, last, left, whole)
