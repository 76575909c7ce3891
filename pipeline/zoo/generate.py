"""Writing text with the target: many sequences at once, finished ones replaced as they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.zoo.lm import SlotCache, Target

END_OF_TURN = 2
"""Token id of `<|im_end|>`."""
SAMPLED_AMONG = 64
"""Likeliest tokens that sampling draws from."""


@dataclass(frozen=True)
class Request:
    """One text to write.

    Attributes:
        key: comes back with the answer.
        prompt: token ids.
        max_tokens: most new tokens, `<|im_end|>` included.
        temperature: 0 for greedy, 1 for the target's own distribution.
    """

    key: str
    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What the target wrote for a request; `tokens` ends with `<|im_end|>` if it ended by itself."""

    request: Request
    tokens: tuple[int, ...]


@dataclass
class _Running:
    request: Request
    tokens: list[int] = field(default_factory=list)

    def finished(self) -> bool:
        return len(self.tokens) >= self.request.max_tokens or self.tokens[-1] == END_OF_TURN


class Writer:
    """Continuous batching over a fixed number of slots.

    Args:
        target: the model.
        slots: sequences at once.
        length: most tokens of a prompt and its answer together.
        seed: of the sampling generator.
    """

    def __init__(self, target: Target, slots: int = 192, length: int = 512, seed: int = 0) -> None:
        self._target, self._length = target, length
        self._cache = SlotCache(slots, length)
        self._running: list[_Running | None] = [None] * slots
        self._last = torch.zeros(slots, dtype=torch.long)
        self._position = torch.zeros(slots, dtype=torch.long)
        self._temperature = torch.zeros(slots)
        self._random = torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def write(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """Answers in the order they end. A prompt that leaves no room for its answer is skipped."""
        waiting = (r for r in requests if len(r.prompt) + r.max_tokens <= self._length)
        exhausted = False
        while True:
            free = [i for i, running in enumerate(self._running) if running is None]
            busy = len(self._running) - len(free)
            # Prompts are read in groups: a group of one would waste most of its product's rows.
            if not exhausted and (len(free) >= max(1, len(self._running) // 12) or not busy):
                taken = [r for _, r in zip(free, waiting, strict=False)]
                exhausted = len(taken) < len(free)
                if taken:
                    self._admit(free[: len(taken)], taken)
                    yield from self._collect()
                    continue
            if not busy:
                return
            self._step()
            yield from self._collect()

    def _admit(self, slots: list[int], requests: list[Request]) -> None:
        lengths = torch.tensor([len(r.prompt) for r in requests])
        tokens = torch.zeros(len(requests), int(lengths.max()), dtype=torch.long)
        for row, request in enumerate(requests):
            tokens[row, : len(request.prompt)] = torch.tensor(request.prompt)
        index = torch.tensor(slots)
        positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        stream, _ = self._target.forward(tokens, positions, self._cache.prefill(index))
        self._temperature[index] = torch.tensor([r.temperature for r in requests])
        first = self._choose(stream[torch.arange(len(requests)), lengths - 1], index)
        self._position[index] = lengths
        for slot, request, token in zip(slots, requests, first.tolist(), strict=True):
            self._running[slot] = _Running(request, [token])
        self._last[index] = first

    def _step(self) -> None:
        attend = self._cache.decode(self._position)
        stream, _ = self._target.forward(self._last[:, None], self._position[:, None], attend)
        every = torch.arange(len(self._running))
        self._last = self._choose(stream[:, 0], every)
        for running, token in zip(self._running, self._last.tolist(), strict=True):
            if running is not None:
                running.tokens.append(token)
        self._position += 1

    def _choose(self, stream: Tensor, slots: Tensor) -> Tensor:
        logits = self._target.logits(stream)
        temperature = self._temperature[slots]
        chosen = logits.argmax(dim=-1)
        hot = temperature > 0
        if bool(hot.any()):
            # Among the likeliest only: drawing from all 49,152 costs more than the forward pass.
            best, ids = logits[hot].topk(SAMPLED_AMONG, dim=-1)
            scaled = torch.softmax(best.float() / temperature[hot, None], dim=-1)
            drawn = torch.multinomial(scaled, 1, generator=self._random)
            chosen[hot] = ids.gather(1, drawn)[:, 0]
        return chosen

    def _collect(self) -> Iterator[Answer]:
        for slot, running in enumerate(self._running):
            if running is not None and running.finished():
                self._running[slot] = None
                # An idle slot keeps stepping at position 0: harmless, and simpler than compacting.
                self._position[slot], self._last[slot] = 0, 0
                yield Answer(running.request, tuple(running.tokens))
