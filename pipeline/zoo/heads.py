"""What the three trainable heads share; `recurrent.py` and `block.py` hold the heads themselves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipeline.zoo.layers import DROPOUT, Rope
from pipeline.zoo.windows import Window


class Head(nn.Module):
    """What all heads share: the frozen embedding and the drafted outputs of a window."""

    unroll = 1
    """Positions that one draft predicts in training."""

    def __init__(self, embedding: Tensor) -> None:
        super().__init__()
        self.embedding = embedding  # a plain attribute: neither trained nor saved
        self.rope = Rope()
        self.dropout = nn.Dropout(DROPOUT)

    def export(self) -> dict[str, Tensor]:
        """Tensors under the engine's names, fp32; views of the parameters except for `fc`."""
        raise NotImplementedError

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over exported tensors; the head must have been made with a scale of one."""
        for name, place in self.export().items():
            place.copy_(tensors[name].float())
        if "fc.weight" in tensors:  # its export is a product, not a view
            self.get_parameter("fc.weight").copy_(tensors["fc.weight"].float())

    def draft(self, window: Window, steps: int) -> tuple[list[Tensor], Tensor]:
        """Outputs before the language model's head.

        Args:
            window: the batch.
            steps: how many positions to draft.

        Returns:
            One [B, Q, H] per drafted position, and the columns [Q] or [B, Q] of the *first* token
            that each of the Q drafts predicts.
        """
        raise NotImplementedError
