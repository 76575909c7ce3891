"""Writing text with the target: many sequences at once, finished ones replaced as they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.zoo.lm import HIDDEN, SlotCache, Target

END_OF_TURN = 2
"""Token id of `<|im_end|>`."""
SAMPLED_AMONG = 64
"""Likeliest tokens that sampling draws from."""
LIKELIEST = 8
"""Likeliest next tokens kept per position as labels."""


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
class Seen:
    """The target's view of a finished text of N tokens: what the drafters learn from.

    Attributes:
        streams: [N, W] bf16 residual streams of the kept layers, side by side. The last row is
            zero:
            the last token is chosen, never read.
        best: [N, 8] int32; row t holds the likeliest tokens after token t, -1 inside the prompt.
        log_probabilities: [N, 8] fp16, among those eight.
    """

    streams: Tensor
    best: Tensor
    log_probabilities: Tensor


@dataclass(frozen=True)
class Answer:
    """What the target wrote for a request.

    Attributes:
        request: the request.
        tokens: the new tokens; they end with `<|im_end|>` if the text ended by itself.
        seen: for greedy requests of a writer that keeps streams.
    """

    request: Request
    tokens: tuple[int, ...]
    seen: Seen | None = None


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
        keep: layers whose streams are kept (see `Target.forward`): reading the texts a second time
            for them would cost a third of the writing.
    """

    def __init__(
        self,
        target: Target,
        slots: int = 96,
        length: int = 512,
        seed: int = 0,
        keep: tuple[int, ...] = (),
    ) -> None:
        self._target, self._length, self._keep = target, length, keep
        self._cache = SlotCache(slots, length)
        self._running: list[_Running | None] = [None] * slots
        self._last = torch.zeros(slots, dtype=torch.long)
        self._position = torch.zeros(slots, dtype=torch.long)
        self._temperature = torch.zeros(slots)
        self._random = torch.Generator().manual_seed(seed)
        shape = (slots, length)
        self._streams = torch.zeros(*shape, len(keep) * HIDDEN, dtype=torch.bfloat16)
        self._best = torch.zeros(*shape, LIKELIEST, dtype=torch.int32)
        self._log_probabilities = torch.zeros(*shape, LIKELIEST, dtype=torch.float16)

    @torch.inference_mode()
    def write(self, waiting: deque[Request]) -> Iterator[Answer]:
        """Answers in the order they end, until none is waiting or running.

        Args:
            waiting: requests, consumed from the left; the caller may append more while iterating.
                One that leaves no room for its answer is dropped.
        """
        while waiting or any(self._running):
            free = [i for i, running in enumerate(self._running) if running is None]
            # Prompts are read in groups: a group of one would waste most of its product's rows.
            if waiting and len(free) >= max(1, len(self._running) // 12):
                self._admit(free, waiting)
            else:
                self._step()
            yield from self._collect()

    def _admit(self, free: list[int], waiting: deque[Request]) -> None:
        requests: list[Request] = []
        while waiting and len(requests) < len(free):
            request = waiting.popleft()
            if len(request.prompt) + request.max_tokens <= self._length:
                requests.append(request)
        if not requests:
            return
        slots = free[: len(requests)]
        lengths = torch.tensor([len(r.prompt) for r in requests])
        tokens = torch.zeros(len(requests), int(lengths.max()), dtype=torch.long)
        for row, request in enumerate(requests):
            tokens[row, : len(request.prompt)] = torch.tensor(request.prompt)
        index = torch.tensor(slots)
        positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        attend = self._cache.prefill(index)
        stream, kept = self._target.forward(tokens, positions, attend, self._keep)
        if kept:
            self._streams[index, : tokens.shape[1]] = torch.cat(kept, dim=-1).to(torch.bfloat16)
        self._temperature[index] = torch.tensor([r.temperature for r in requests])
        last = lengths - 1
        first = self._choose(stream[torch.arange(len(requests)), last], index, last)
        self._position[index] = lengths
        for slot, request, token in zip(slots, requests, first.tolist(), strict=True):
            self._running[slot] = _Running(request, [token])
        self._last[index] = first

    def _step(self) -> None:
        attend = self._cache.decode(self._position)
        tokens, positions = self._last[:, None], self._position[:, None]
        stream, kept = self._target.forward(tokens, positions, attend, self._keep)
        every = torch.arange(len(self._running))
        if kept:
            self._streams[every, self._position] = torch.cat(kept, dim=-1)[:, 0].to(torch.bfloat16)
        self._last = self._choose(stream[:, 0], every, self._position)
        for running, token in zip(self._running, self._last.tolist(), strict=True):
            if running is not None:
                running.tokens.append(token)
        self._position += 1

    def _choose(self, stream: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
        logits = self._target.logits(stream)
        temperature = self._temperature[slots]
        hot = temperature > 0
        # Among the likeliest only: drawing from all 49,152 costs more than the forward pass.
        best, ids = logits.topk(SAMPLED_AMONG if bool(hot.any()) else LIKELIEST, dim=-1)
        chosen = ids[:, 0].clone()
        if bool(hot.any()):
            scaled = torch.softmax(best[hot].float() / temperature[hot, None], dim=-1)
            drawn = torch.multinomial(scaled, 1, generator=self._random)
            chosen[hot] = ids[hot].gather(1, drawn)[:, 0]
        if self._keep:
            self._best[slots, positions] = ids[:, :LIKELIEST].to(torch.int32)
            among = torch.log_softmax(best[:, :LIKELIEST].float(), dim=-1)
            self._log_probabilities[slots, positions] = among.to(torch.float16)
        return chosen

    def _collect(self) -> Iterator[Answer]:
        for slot, running in enumerate(self._running):
            if running is not None and running.finished():
                self._running[slot] = None
                yield Answer(running.request, tuple(running.tokens), self._seen(slot, running))
                # An idle slot keeps stepping at position 0: harmless, and simpler than compacting.
                self._position[slot], self._last[slot] = 0, 0

    def _seen(self, slot: int, running: _Running) -> Seen | None:
        if not self._keep or running.request.temperature > 0:
            return None
        prompt = len(running.request.prompt)
        total = prompt + len(running.tokens)
        streams = self._streams[slot, :total].clone()
        best = self._best[slot, :total].clone()
        streams[-1], best[: prompt - 1], best[-1] = 0, -1, -1
        return Seen(streams, best, self._log_probabilities[slot, :total].clone())
