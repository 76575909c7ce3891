"""The three heads as trainable modules, with the exact arithmetic of the engine that will run them.

x[t] is the token at position t, h[t] the target's residual streams there.

*EAGLE3 and MTP* (`Recurrent`): slot t reads h[t] and x[t+1] at rope position t and predicts x[t+2].
Draft step s continues from the head's own output with the token just proposed, at position t+s,
and sees the step-0 keys of slots up to t and its own later ones.

*DFlash* (`Block`): with the last accepted token x[n] and h[0..n-1], slots 0 to K at positions n to
n+K hold x[n] and K mask embeddings; all of them see the context and each other; slot j predicts
x[n+j].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from pipeline.zoo.drafters import AUX_LAYERS
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
from pipeline.zoo.windows import Window

KV = KEY_HEADS * HEAD_DIM
INNER = 1536


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
        return rotate(self.q_norm(heads) if self.normed else heads, *rope).to(torch.bfloat16)

    def keys_values(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """[B, T, width] → keys and values, each repeated to [B, 9, T, D]."""
        keys = self.k_proj(x).unflatten(-1, (KEY_HEADS, HEAD_DIM)).transpose(1, 2)
        keys = rotate(self.k_norm(keys) if self.normed else keys, *rope)
        values = self.v_proj(x).unflatten(-1, (KEY_HEADS, HEAD_DIM)).transpose(1, 2)
        repeated = (y.to(torch.bfloat16).repeat_interleave(GROUP, dim=1) for y in (keys, values))
        first, second = repeated
        return first, second


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] → [..., H]."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Rope:
    """cos and sin by position, shaped to broadcast over heads."""

    def __init__(self, length: int = 1024) -> None:
        self._cos, self._sin = rope_tables(length, torch.float32)

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T] positions → two [B, 1, T, D]."""
        at = positions.clamp_min(0)
        return self._cos[at][:, None], self._sin[at][:, None]


class Head(nn.Module):
    """What all heads share: the frozen embedding and the drafted outputs of a window."""

    unroll = 1
    """Positions that one draft predicts in training."""

    def __init__(self, embedding: Tensor) -> None:
        super().__init__()
        self.embedding = embedding  # a plain attribute: neither trained nor saved
        self.rope = Rope()

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


class Recurrent(Head):
    """EAGLE3 and MTP: one layer, fed its own output."""

    attention: Attention
    unroll = 2

    def begin(self, streams: Tensor) -> Tensor:
        """[..., 4H] of the target → the hidden state of step 0."""
        raise NotImplementedError

    def merge(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Token embedding and hidden state → input of the attention, residual."""
        raise NotImplementedError

    def finish(self, residual: Tensor, mixed: Tensor) -> tuple[Tensor, Tensor]:
        """Residual and attention output → input of the language model's head, next hidden state."""
        raise NotImplementedError

    def _embed(self, tokens: Tensor, positions: Tensor, window: Window) -> Tensor:
        del positions, window
        return self.embedding[tokens]

    def draft(self, window: Window, steps: int) -> tuple[list[Tensor], Tensor]:
        """See `Head.draft`; slot c predicts column c + 2 first."""
        total = window.tokens.shape[1]
        slots = torch.arange(total - 1)
        asking = torch.arange(window.prompt - 1, total - 2)
        positions = slots[None] - window.first[:, None]
        embedded = self._embed(window.tokens[:, 1:], positions, window)
        inner, residual = self.merge(embedded, self.begin(window.streams[:, :-1]))
        keys, values = self.attention.keys_values(inner, self.rope(positions))
        seen = (slots[None] <= asking[:, None])[None] & (positions >= 0)[:, None]
        inner, residual = inner[:, asking], residual[:, asking]
        hidden = residual
        outputs: list[Tensor] = []
        own: list[tuple[Tensor, Tensor]] = []
        for step in range(steps):
            here = asking[None] - window.first[:, None] + step
            if step:
                ahead = (asking + 1 + step).clamp_max(total - 1)
                inner, residual = self.merge(self.embedding[window.tokens[:, ahead]], hidden)
                own.append(self.attention.keys_values(inner, self.rope(here)))
            query = self.attention.queries(inner, self.rope(here))
            mixed = _attend(query, keys, values, seen, own)
            output, hidden = self.finish(residual, self.attention.o_proj(mixed))
            outputs.append(output)
        return outputs, asking + 2


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, seen: Tensor, own: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """Attention over the step-0 keys allowed by `seen` and, slot by slot, the `own` later ones."""
    if not own:
        mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen[:, None])
        return mixed.transpose(1, 2).flatten(2)
    scale = HEAD_DIM**-0.5
    scores = (query @ keys.transpose(-1, -2)).float() * scale
    scores = scores.masked_fill(~seen[:, None], float("-inf"))
    later = torch.stack([(query * key).float().sum(-1) * scale for key, _ in own], dim=-1)
    weights = torch.softmax(torch.cat([scores, later], dim=-1), dim=-1).to(torch.bfloat16)
    mixed = weights[..., : keys.shape[2]] @ values
    for i, (_, value) in enumerate(own):
        mixed = mixed + weights[..., keys.shape[2] + i, None] * value
    return mixed.transpose(1, 2).flatten(2)


class Eagle3(Recurrent):
    """EAGLE3: streams of several layers, mixed by `fc`; embedding and state side by side."""

    def __init__(self, embedding: Tensor, scale: Tensor) -> None:
        super().__init__(embedding)
        self.scale = scale
        self.fc = nn.Linear(HIDDEN * len(AUX_LAYERS), HIDDEN, bias=False)
        self.attention = Attention(2 * HIDDEN)
        self.mlp = Mlp()
        self.input_layernorm, self.hidden_norm = Norm(), Norm()
        self.post_attention_layernorm, self.norm = Norm(), Norm()

    def begin(self, streams: Tensor) -> Tensor:
        """Streams in units of their spread; `export` folds the units into fc."""
        mixed: Tensor = self.fc(streams * self.scale)
        return mixed

    def merge(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Embedding first."""
        normed = [self.input_layernorm(embedded), self.hidden_norm(hidden)]
        return torch.cat(normed, dim=-1), hidden.float()

    def finish(self, residual: Tensor, mixed: Tensor) -> tuple[Tensor, Tensor]:
        """The state goes on without the norm."""
        x = residual + mixed
        x = x + self.mlp(self.post_attention_layernorm(x))
        return self.norm(x), x

    def export(self) -> dict[str, Tensor]:
        """Tensors under the engine's names, fp32."""
        tensors = {"fc.weight": self.fc.weight * self.scale, "norm.weight": self.norm.weight}
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            tensors[f"midlayer.{name}.weight"] = getattr(self, name).weight
        return tensors | _layer_tensors("midlayer", self.attention, self.mlp)


class Mtp(Recurrent):
    """MTP in MiMo's layout: the last stream only; a Qwen2 block with biases."""

    def __init__(self, embedding: Tensor, scale: Tensor) -> None:
        super().__init__(embedding)
        del scale
        self.input_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.attention = Attention(HIDDEN, bias=True)
        self.mlp = Mlp()
        self.token_layernorm, self.hidden_layernorm = Norm(), Norm()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
        self.final_layernorm = Norm()

    def begin(self, streams: Tensor) -> Tensor:
        """The stream that leaves the last layer."""
        return streams[..., -HIDDEN:]

    def _embed(self, tokens: Tensor, positions: Tensor, window: Window) -> Tensor:
        start = (positions == 0) & window.whole[:, None]
        return self.embedding[tokens].masked_fill(start[..., None], 0)

    def merge(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """State first."""
        normed = [self.hidden_layernorm(hidden), self.token_layernorm(embedded)]
        x = self.input_proj(torch.cat(normed, dim=-1)).float()
        return self.input_layernorm(x), x

    def finish(self, residual: Tensor, mixed: Tensor) -> tuple[Tensor, Tensor]:
        """The normed state goes on."""
        x = residual + mixed
        y = self.final_layernorm(x + self.mlp(self.post_attention_layernorm(x)))
        return y, y

    def export(self) -> dict[str, Tensor]:
        """Tensors under the engine's names (without the layer's prefix), fp32."""
        names = (
            "token_layernorm",
            "hidden_layernorm",
            "final_layernorm",
            "input_layernorm",
            "post_attention_layernorm",
            "input_proj",
        )
        tensors = {f"{name}.weight": getattr(self, name).weight for name in names}
        return tensors | _layer_tensors("", self.attention, self.mlp)


class BlockLayer(nn.Module):
    """One Qwen3 layer of DFlash."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(HIDDEN, normed=True)
        self.mlp = Mlp()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()


class Dflash(Head):
    """DFlash: a whole block in one pass."""

    def __init__(self, embedding: Tensor, scale: Tensor, layers: int = 1) -> None:
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
        context = self.hidden_norm(self.fc(window.streams * self.scale))
        context_rope = self.rope(columns[None] - window.first[:, None])
        block_positions = (anchors[..., None] + torch.arange(size)).flatten(1)
        block_rope = self.rope(block_positions - window.first[:, None])
        visible = (columns >= window.first[:, None])[:, None] & (columns < anchors[..., None])
        known = self.embedding[window.tokens.gather(1, anchors)].float()[:, :, None]
        masked = self.mask_embedding.expand(rows, count, steps, HIDDEN)
        x = torch.cat([known, masked], dim=2).flatten(1, 2)
        for layer in self.layers:
            keys, values = layer.attention.keys_values(context, context_rope)
            inner = layer.input_layernorm(x)
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
            tensors |= _layer_tensors(prefix, layer.attention, layer.mlp)
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
    weights = torch.softmax(torch.cat([scores, inside], dim=-1), dim=-1).to(torch.bfloat16)
    outer = weights[..., : keys.shape[2]] @ values
    inner = (weights[..., keys.shape[2] :].unflatten(2, (-1, size)) @ blocks[2]).flatten(2, 3)
    return (outer + inner).transpose(1, 2).flatten(2)


def _layer_tensors(prefix: str, attention: Attention, mlp: Mlp) -> dict[str, Tensor]:
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
