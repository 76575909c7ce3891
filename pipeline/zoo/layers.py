"""The parts that the heads are made of, with the exact arithmetic of the engine."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from pipeline.zoo.lm import (
    EPSILON,
    GROUP,
    HEAD_DIM,
    HIDDEN,
    KEY_HEADS,
    QUERY_HEADS,
    rope_tables,
    rotate,
)
from pipeline.zoo.precision import PRODUCTS

KV = KEY_HEADS * HEAD_DIM
INNER = 1536
DROPOUT = 0.2
"""Share of a head's inputs and of its inner activations that training drops. Without it a head
knows its training text by heart (first position .96) and does half as well on any other."""


class Norm(nn.Module):
    """RMSNorm in fp32 over the last axis."""

    def __init__(self, width: int = HIDDEN) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] → the same shape, fp32."""
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, EPSILON)


class Attention(nn.Module):
    """Grouped attention with separate projections; biases and per-head norms where a layout has
    them."""

    def __init__(self, width: int, *, bias: bool = False, normed: bool = False) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, HIDDEN, bias=bias)
        self.k_proj = nn.Linear(width, KV, bias=bias)
        self.v_proj = nn.Linear(width, KV, bias=bias)
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        if normed:
            self.q_norm, self.k_norm = Norm(HEAD_DIM), Norm(HEAD_DIM)
        self.normed = normed

    def queries(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        """[B, T, width] → [B, 9, T, D]."""
        heads = self.q_proj(x).unflatten(-1, (QUERY_HEADS, HEAD_DIM)).transpose(1, 2)
        return rotate(self.q_norm(heads) if self.normed else heads, *rope).to(PRODUCTS)

    def keys_values(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """[B, T, width] → keys and values, each repeated to [B, 9, T, D]."""
        keys = self.k_proj(x).unflatten(-1, (KEY_HEADS, HEAD_DIM)).transpose(1, 2)
        keys = rotate(self.k_norm(keys) if self.normed else keys, *rope)
        values = self.v_proj(x).unflatten(-1, (KEY_HEADS, HEAD_DIM)).transpose(1, 2)
        repeated = (y.to(PRODUCTS).repeat_interleave(GROUP, dim=1) for y in (keys, values))
        first, second = repeated
        return first, second


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] → [..., H]."""
        out: Tensor = self.down_proj(self.dropout(F.silu(self.gate_proj(x)) * self.up_proj(x)))
        return out


class Rope:
    """cos and sin by position, shaped to broadcast over heads."""

    def __init__(self, length: int = 1024) -> None:
        self._cos, self._sin = rope_tables(length, torch.float32)

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T] positions → two [B, 1, T, D]."""
        at = positions.clamp_min(0)
        return self._cos[at][:, None], self._sin[at][:, None]


def layer_tensors(prefix: str, attention: Attention, mlp: Mlp) -> dict[str, Tensor]:
    """Tensors of one decoder layer under the engine's names."""
    dot = f"{prefix}." if prefix else ""
    tensors = {}
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        projection = getattr(attention, name)
        tensors[f"{dot}self_attn.{name}.weight"] = projection.weight
        if projection.bias is not None:
            tensors[f"{dot}self_attn.{name}.bias"] = projection.bias
    for name in ("gate_proj", "up_proj", "down_proj"):
        tensors[f"{dot}mlp.{name}.weight"] = getattr(mlp, name).weight
    return tensors
