"""DFlash: a whole block of tokens in one pass.

With the last accepted token x[n] and the target's residual streams h[0..n-1], slots 0 to K at
positions n to n+K hold x[n] and K mask embeddings; all of them see the context and each other; slot
j predicts x[n+j].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.heads import Head
from pipeline.zoo.layers import Attention, Mlp, Norm, layer_tensors
from pipeline.zoo.lm import HEAD_DIM, HIDDEN
from pipeline.zoo.windows import Window

DEPTH = 2
"""Layers of a block: the second gained more at the first position than a longer training of one."""


class BlockLayer(nn.Module):
    """One Qwen3 layer of DFlash."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(HIDDEN, normed=True)
        self.mlp = Mlp()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()


class Dflash(Head):
    """DFlash: a whole block in one pass."""

    def __init__(self, embedding: Tensor, scale: Tensor, layers: int = DEPTH) -> None:
        super().__init__(embedding)
        self.scale = scale
        self.fc = nn.Linear(HIDDEN * len(AUX_LAYERS), HIDDEN, bias=False)
        self.hidden_norm, self.norm = Norm(), Norm()
        self.layers = nn.ModuleList(BlockLayer() for _ in range(layers))
        self.mask_embedding = nn.Parameter(embedding.float().mean(0))

    def draft(
        self, window: Window, steps: int, anchors: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """See `Head.draft`.

        Args:
            window: the batch.
            steps: K, the masked slots of a block.
            anchors: columns [B, Q] of the last accepted token; all answer columns by default.
        """
        rows, total = window.tokens.shape
        if anchors is None:
            anchors = torch.arange(window.prompt, total - 1).expand(rows, -1)
        count, size = anchors.shape[1], steps + 1
        columns = torch.arange(total)
        context = self.hidden_norm(self.fc(self.dropout(window.streams * self.scale)))
        context_rope = self.rope(columns[None] - window.first[:, None])
        block_positions = (anchors[..., None] + torch.arange(size)).flatten(1)
        block_rope = self.rope(block_positions - window.first[:, None])
        visible = (columns >= window.first[:, None])[:, None] & (columns < anchors[..., None])
        known = self.embedding[window.tokens.gather(1, anchors)].float()[:, :, None]
        masked = self.mask_embedding.expand(rows, count, steps, HIDDEN)
        x = torch.cat([known, masked], dim=2).flatten(1, 2)
        for layer in self.layers:
            keys, values = layer.attention.keys_values(context, context_rope)
            inner = self.dropout(layer.input_layernorm(x))
            own = layer.attention.keys_values(inner, block_rope)
            query = layer.attention.queries(inner, block_rope)
            x = x + layer.attention.o_proj(_attend_block(query, keys, values, visible, own, size))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        outputs = self.norm(x).unflatten(1, (count, size))
        return [outputs[:, :, j] for j in range(1, size)], anchors + 1

    def export(self) -> dict[str, Tensor]:
        """Tensors under the engine's names, fp32."""
        tensors = {
            "fc.weight": self.fc.weight * self.scale,
            "hidden_norm.weight": self.hidden_norm.weight,
            "norm.weight": self.norm.weight,
            "mask_embedding": self.mask_embedding,
        }
        for i, layer in enumerate(self.layers):
            prefix = f"layers.{i}"
            for name in ("input_layernorm", "post_attention_layernorm"):
                tensors[f"{prefix}.{name}.weight"] = getattr(layer, name).weight
            for name in ("q_norm", "k_norm"):
                tensors[f"{prefix}.self_attn.{name}.weight"] = getattr(layer.attention, name).weight
            tensors |= layer_tensors(prefix, layer.attention, layer.mlp)
        return tensors


def _attend_block(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor,
    own: tuple[Tensor, Tensor],
    size: int,
) -> Tensor:
    """Each block of `size` slots sees its context columns and itself, in both directions."""
    scale, (own_keys, own_values) = HEAD_DIM**-0.5, own
    scores = (query @ keys.transpose(-1, -2)).float() * scale
    scores = scores.masked_fill(~visible.repeat_interleave(size, dim=1)[:, None], float("-inf"))
    blocks = [y.unflatten(2, (-1, size)) for y in (query, own_keys, own_values)]
    inside = (blocks[0] @ blocks[1].transpose(-1, -2)).float().flatten(2, 3) * scale
    weights = torch.softmax(torch.cat([scores, inside], dim=-1), dim=-1).to(values.dtype)
    outer = weights[..., : keys.shape[2]] @ values
    inner = (weights[..., keys.shape[2] :].unflatten(2, (-1, size)) @ blocks[2]).flatten(2, 3)
    return (outer + inner).transpose(1, 2).flatten(2)
