"""The target as plain torch functions, fast on a CPU with many sequences at once.

Two uses: writing the training text (`generate.py`) and reading the hidden states that the drafters
are trained on (`hidden.py`). Projections that share an input are merged and three query heads ride
on each key head as three rows of one product, which is what makes this several times faster on two
cores than a general implementation.

Shapes: B sequences, T tokens, H=576 residual width, 9 query heads, 3 key heads, D=64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from pipeline.zoo.precision import PRODUCTS

LAYERS, QUERY_HEADS, KEY_HEADS, HEAD_DIM = 30, 9, 3, 64
GROUP = QUERY_HEADS // KEY_HEADS
HIDDEN, VOCABULARY, ROPE_THETA, EPSILON = 576, 49152, 100_000.0, 1e-5

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [B, 9, T, D], k [B, 3, T, D], v) → mixed values [B, T, 9*D]; also keeps k and v."""


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm over the last axis, computed in fp32 and returned in x's type."""
    return F.rms_norm(x.float(), (x.shape[-1],), weight.float(), EPSILON).to(x.dtype)


def rope_tables(length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin, each [length, D], for positions 0 to length - 1."""
    inverse = 1.0 / ROPE_THETA ** (torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
    angles = torch.outer(torch.arange(length).float(), inverse)
    doubled = torch.cat([angles, angles], dim=-1)
    return doubled.cos().to(dtype), doubled.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [..., D]; cos and sin broadcast against x."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Target:
    """Weights of the target and its forward pass. Not trained, hence not a Module."""

    def __init__(self, weights: dict[str, Tensor], max_length: int = 2048) -> None:
        weights = {name: tensor.to(PRODUCTS) for name, tensor in weights.items()}
        self.embedding = weights["model.embed_tokens.weight"]
        self.norm = weights["model.norm.weight"]
        self.layers = [self._merged(weights, f"model.layers.{i}") for i in range(LAYERS)]
        self.cos, self.sin = rope_tables(max_length, self.embedding.dtype)

    @classmethod
    def load(cls, folder: Path) -> Target:
        """Read a converted checkpoint."""
        from safetensors.torch import load_file

        return cls(load_file(folder / "model.safetensors"))

    @staticmethod
    def _merged(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
        def part(name: str) -> Tensor:
            return weights[f"{prefix}.{name}.weight"]

        return {
            "qkv": torch.cat([part(f"self_attn.{x}_proj") for x in "qkv"]),
            "out": part("self_attn.o_proj"),
            "gate_up": torch.cat([part("mlp.gate_proj"), part("mlp.up_proj")]),
            "down": part("mlp.down_proj"),
            "norm_in": part("input_layernorm"),
            "norm_mlp": part("post_attention_layernorm"),
        }

    def forward(
        self, tokens: Tensor, positions: Tensor, attend: Attend, keep: tuple[int, ...] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        """Run all layers.

        Args:
            tokens, positions: [B, T].
            attend: see `Attend`.
            keep: layers whose *incoming* residual stream is returned; 30 means the stream leaving
                the last layer, before the final norm.

        Returns:
            The final stream [B, T, H] before the norm, and the kept streams.
        """
        x = self.embedding[tokens]
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        kept = []
        for i, layer in enumerate(self.layers):
            if i in keep:
                kept.append(x)
            x = x + self._attention(layer, i, x, cos, sin, attend)
            gate, up = F.linear(rms_norm(x, layer["norm_mlp"]), layer["gate_up"]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        if LAYERS in keep:
            kept.append(x)
        return x, kept

    def _attention(
        self, layer: dict[str, Tensor], i: int, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend
    ) -> Tensor:
        batch, length, _ = x.shape
        qkv = F.linear(rms_norm(x, layer["norm_in"]), layer["qkv"])
        heads = qkv.view(batch, length, QUERY_HEADS + 2 * KEY_HEADS, HEAD_DIM).transpose(1, 2)
        q, k, v = heads.split([QUERY_HEADS, KEY_HEADS, KEY_HEADS], dim=1)
        return F.linear(attend(i, rotate(q, cos, sin), rotate(k, cos, sin), v), layer["out"])

    def logits(self, stream: Tensor) -> Tensor:
        """[..., H] final stream → [..., V] logits."""
        return F.linear(rms_norm(stream, self.norm), self.embedding)


def causal(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`Attend` without a cache: plain causal attention over sequences padded on the right."""
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return mixed.transpose(1, 2).flatten(2)


class SlotCache:
    """Keys and values of B independent sequences, each at its own length."""

    def __init__(self, slots: int, length: int) -> None:
        shape = (slots, KEY_HEADS, length, HEAD_DIM)
        self.keys = [torch.zeros(shape, dtype=PRODUCTS) for _ in range(LAYERS)]
        self.values = [torch.zeros(shape, dtype=PRODUCTS) for _ in range(LAYERS)]
        self.length = length

    def prefill(self, slots: Tensor) -> Attend:
        """`Attend` that fills the given slots ([b] indices) from position 0 on."""

        def attend(i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[i][slots, :, : k.shape[2]] = k
            self.values[i][slots, :, : v.shape[2]] = v
            return causal(i, q, k, v)

        return attend

    def decode(self, positions: Tensor) -> Attend:
        """`Attend` for one new token in every slot, at `positions` ([B])."""
        span = int(positions.max()) + 1
        rows = torch.arange(positions.shape[0])
        mask = (torch.arange(span)[None] <= positions[:, None])[:, None, None]
        bias = torch.zeros(mask.shape, dtype=self.keys[0].dtype).masked_fill(~mask, float("-inf"))

        def attend(i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[i][rows, :, positions] = k[:, :, 0]
            self.values[i][rows, :, positions] = v[:, :, 0]
            keys, values = self.keys[i][:, :, :span], self.values[i][:, :, :span]
            grouped = q.view(q.shape[0], KEY_HEADS, GROUP, HEAD_DIM)
            mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias)
            return mixed.reshape(q.shape[0], 1, QUERY_HEADS * HEAD_DIM)

        return attend


def no_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.inference_mode` as a typed decorator."""
    decorated: Callable[..., Any] = torch.inference_mode()(function)
    return decorated
