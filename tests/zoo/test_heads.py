"""The heads' batched drafting against the same arithmetic written plainly, slot by slot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pipeline.zoo.block import Dflash
from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.heads import Head
from pipeline.zoo.hidden import LIKELIEST
from pipeline.zoo.lm import HIDDEN
from pipeline.zoo.precision import products
from pipeline.zoo.recurrent import Eagle3, Mtp, Recurrent
from pipeline.zoo.train import CLASSES
from pipeline.zoo.windows import Window

VOCABULARY = 50


def make(method: str) -> Head:
    torch.manual_seed(3)
    embedding = torch.randn(VOCABULARY, HIDDEN).to(torch.bfloat16)
    head = CLASSES[method](embedding, torch.ones(HIDDEN * len(AUX_LAYERS))).eval()
    for parameter in head.parameters():
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return head


def batch(prompts: tuple[int, ...], answers: tuple[int, ...]) -> Window:
    """Random samples with the given lengths, laid out as `windows.window` does."""
    torch.manual_seed(7)
    left, rows = max(prompts), len(prompts)
    columns = left + max(answers)
    width = HIDDEN * len(AUX_LAYERS)
    return Window(
        tokens=torch.randint(0, VOCABULARY, (rows, columns)),
        streams=torch.randn(rows, columns, width).to(torch.bfloat16),
        best=torch.zeros(rows, columns, LIKELIEST, dtype=torch.long),
        log_probabilities=torch.zeros(rows, columns, LIKELIEST),
        first=torch.tensor([left - prompt for prompt in prompts]),
        end=torch.tensor([left + answer for answer in answers]),
        prompt=left,
        whole=torch.ones(rows, dtype=torch.bool),
    )


def alone(window: Window, row: int) -> Window:
    """One sample of a window without its padding."""
    span = slice(int(window.first[row]), int(window.end[row]))
    return Window(
        tokens=window.tokens[row : row + 1, span],
        streams=window.streams[row : row + 1, span],
        best=window.best[row : row + 1, span],
        log_probabilities=window.log_probabilities[row : row + 1, span],
        first=torch.zeros(1, dtype=torch.long),
        end=torch.tensor([span.stop - span.start]),
        prompt=window.prompt - span.start,
        whole=window.whole[row : row + 1],
    )


def close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).norm() < 0.03 * other.norm())


@torch.no_grad()
def draft(head: Head, window: Window, steps: int) -> list[Tensor]:
    with products():
        return [output.float() for output in head.draft(window, steps)[0]]


@pytest.mark.parametrize("method", sorted(CLASSES))
def test_a_sample_is_drafted_the_same_alone_and_beside_longer_ones(method: str) -> None:
    head, window = make(method), batch((6, 9), (8, 5))

    together = draft(head, window, 3)

    for row in (0, 1):
        single = draft(head, alone(window, row), 3)
        for step, (one, other) in enumerate(zip(together, single, strict=True)):
            used = other.shape[1] - step  # later drafts of the last slots reach past the text
            assert close(one[row, :used], other[0, :used])


@pytest.mark.parametrize("method", ["eagle3", "mtp"])
def test_recurrent_drafts_equal_the_engines_slot_by_slot_arithmetic(method: str) -> None:
    head, window = make(method), batch((5,), (7,))
    assert isinstance(head, Recurrent)

    outputs = draft(head, window, 3)

    for query, slot in enumerate(range(window.prompt - 1, window.tokens.shape[1] - 2)):
        for step, expected in enumerate(slot_by_slot(head, window, slot, 3)):
            if slot + 1 + step < window.tokens.shape[1]:
                assert close(outputs[step][0, query], expected)


@torch.no_grad()
def slot_by_slot(head: Recurrent, window: Window, slot: int, steps: int) -> list[Tensor]:
    """Draft from one slot with a growing key cache, as an engine does."""
    tokens, total = window.tokens[0], window.tokens.shape[1]
    keys, values, outputs = [], [], []
    hidden = torch.empty(0)
    with products():
        for t in range(slot + steps):
            step = max(0, t - slot)
            embedded = head.embedding[tokens[min(t + 1, total - 1)]]
            if isinstance(head, Mtp) and t == 0:
                embedded = torch.zeros_like(embedded)
            state = hidden if step else head.begin(window.streams[0, t])
            inner, residual = head.merge(embedded[None, None], state.reshape(1, 1, HIDDEN))
            rope = head.rope(torch.tensor([[t]]))
            key, value = head.attention.keys_values(inner, rope)
            keys.append(key)
            values.append(value)
            query = head.attention.queries(inner, rope)
            mixed = torch.nn.functional.scaled_dot_product_attention(
                query, torch.cat(keys, dim=2), torch.cat(values, dim=2)
            )
            mixed = head.attention.o_proj(mixed.transpose(1, 2).flatten(2))
            output, hidden = head.finish(residual, mixed)
            if t >= slot:
                outputs.append(output[0, 0].float())
    return outputs


def test_a_dflash_block_sees_the_context_before_its_token_and_nothing_after() -> None:
    head, window = make("dflash"), batch((6,), (10,))
    anchors = torch.tensor([[8]])
    assert isinstance(head, Dflash)

    def at(changed: Window) -> Tensor:
        with torch.no_grad(), products():
            return torch.stack([x.float() for x in head.draft(changed, 3, anchors)[0]])

    before = at(window)
    window.streams[0, 8:] = 0  # hidden states that the engine has not computed yet
    window.tokens[0, 9:] = 0
    assert torch.equal(at(window), before)
    window.streams[0, 7] = 0
    assert not torch.equal(at(window), before)


@pytest.mark.parametrize("method", sorted(CLASSES))
def test_an_exported_head_drafts_the_same_when_loaded_again(method: str) -> None:
    head, window = make(method), batch((5, 4), (6, 6))
    if not isinstance(head, Mtp):
        torch.nn.init.uniform_(head.scale, 0.5, 2.0)
    exported = {name: tensor.detach().clone() for name, tensor in head.export().items()}
    fresh = make(method)
    for parameter in fresh.parameters():
        torch.nn.init.zeros_(parameter)

    fresh.load(exported)

    for one, other in zip(draft(fresh, window, 2), draft(head, window, 2), strict=True):
        assert close(one, other)


def test_eagle3_exports_what_the_engine_asks_for() -> None:
    head = make("eagle3")
    assert isinstance(head, Eagle3)

    shapes = {name: tuple(tensor.shape) for name, tensor in head.export().items()}

    assert shapes["fc.weight"] == (HIDDEN, HIDDEN * len(AUX_LAYERS))
    assert shapes["midlayer.self_attn.q_proj.weight"] == (HIDDEN, 2 * HIDDEN)
    assert shapes["midlayer.hidden_norm.weight"] == (HIDDEN,)
