"""What the drafters are trained on: the target's hidden states over the corpus, kept once for all
heads.

One pair of files per corpus round. `NAME.states` holds bf16 rows of the residual streams named by
`AUX_LAYERS`, one row per token; `NAME.npz` holds the tokens, where each sample begins, how long its
prompt is, and the target's likeliest next tokens with their log-probabilities (answers only).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.generate import LIKELIEST, Seen
from pipeline.zoo.lm import HIDDEN

__all__ = ["LIKELIEST", "WIDTH", "Sample", "States", "StatesWriter", "open_states"]

WIDTH = HIDDEN * len(AUX_LAYERS)


@dataclass(frozen=True)
class Sample:
    """One training text: what was asked, token ids of the rendered prompt and of the answer."""

    kind: str
    text: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class States:
    """Hidden states of a list of samples, memory mapped.

    Attributes:
        tokens: [N] all samples' tokens one after the other.
        starts: [S + 1] where each sample begins; the last is N.
        prompts: [S] prompt lengths.
        kinds: [S] the kind of each sample.
        best: [N, 8] likeliest next tokens; row t is the target's view after token t. -1 in prompts.
        log_probabilities: [N, 8] of `best`.
        streams: [N, 4 * H] bf16, in the order of `AUX_LAYERS`.
    """

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    prompts: NDArray[np.int32]
    kinds: NDArray[np.str_]
    best: NDArray[np.int32]
    log_probabilities: NDArray[np.float16]
    streams: Tensor

    def __len__(self) -> int:
        return len(self.prompts)


class StatesWriter:
    """Appends samples to `path`.states; `close` writes `path`.npz, without which nothing counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.with_suffix(".states").open("wb")
        self._samples: list[Sample] = []
        self._seen: list[tuple[Tensor, Tensor]] = []

    def append(self, sample: Sample, seen: Seen) -> None:
        """Add one sample."""
        self._file.write(seen.streams.view(torch.int16).numpy().tobytes())
        self._samples.append(sample)
        self._seen.append((seen.best, seen.log_probabilities))

    def close(self) -> None:
        """Finish both files."""
        self._file.close()
        texts = [sample.prompt + sample.answer for sample in self._samples]
        temporary = self._path.with_suffix(".part.npz")
        np.savez(
            temporary,
            tokens=np.concatenate([np.array(text, dtype=np.int32) for text in texts]),
            starts=np.cumsum([0, *map(len, texts)], dtype=np.int64),
            prompts=np.array([len(s.prompt) for s in self._samples], dtype=np.int32),
            kinds=np.array([s.kind for s in self._samples]),
            best=torch.cat([best for best, _ in self._seen]).numpy(),
            log_probabilities=torch.cat([values for _, values in self._seen]).numpy(),
        )
        temporary.replace(self._path.with_suffix(".npz"))


def open_states(path: Path) -> States:
    """Map what `write_states` wrote."""
    loaded = np.load(path.with_suffix(".npz"))
    rows = len(loaded["tokens"])
    raw = np.memmap(path.with_suffix(".states"), dtype=np.int16, mode="c", shape=(rows, WIDTH))
    return States(
        loaded["tokens"],
        loaded["starts"],
        loaded["prompts"],
        loaded["kinds"],
        loaded["best"],
        loaded["log_probabilities"],
        torch.from_numpy(raw).view(torch.bfloat16),
    )
