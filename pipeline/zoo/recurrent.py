"""EAGLE3 and MTP: one layer that is fed its own output.

x[t] is the token at position t, h[t] the target's residual streams there. Slot t reads h[t] and
x[t+1] at rope position t and predicts x[t+2]. Draft step s continues from the head's own output
with the token just proposed, at position t+s, and sees the step-0 keys of slots up to t and its own
later ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.heads import Head
from pipeline.zoo.layers import Attention, Mlp, Norm, layer_tensors
from pipeline.zoo.lm import HEAD_DIM, HIDDEN
from pipeline.zoo.windows import Window


class Recurrent(Head):
    """EAGLE3 and MTP: one layer, fed its own output."""

    attention: Attention
    unroll = 3

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
    weights = torch.softmax(torch.cat([scores, later], dim=-1), dim=-1).to(values.dtype)
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
        mixed: Tensor = self.fc(self.dropout(streams * self.scale))
        return mixed

    def merge(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Embedding first."""
        normed = [self.input_layernorm(embedded), self.hidden_norm(hidden)]
        return self.dropout(torch.cat(normed, dim=-1)), hidden.float()

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
        return tensors | layer_tensors("midlayer", self.attention, self.mlp)


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
        x = self.input_proj(self.dropout(torch.cat(normed, dim=-1))).float()
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
        return tensors | layer_tensors("", self.attention, self.mlp)
