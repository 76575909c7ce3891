"""A round of the corpus with a writer that answers by rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from pipeline.zoo import corpus
from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.generate import END_OF_TURN, LIKELIEST, Answer, Request, Seen
from pipeline.zoo.hidden import open_states
from pipeline.zoo.lm import HIDDEN


class Rule:
    """Completes every user turn with the same words, and answers with seven tokens."""

    def __init__(self, tokenizer: Any, *, ends: bool = True) -> None:
        self._turn = tuple(tokenizer(" a list of green apples")["input_ids"])
        self._ends = ends
        self.seen: list[Request] = []

    def write(self, waiting: deque[Request]) -> Iterator[Answer]:
        while waiting:
            request = waiting.popleft()
            self.seen.append(request)
            if request.temperature > 0:
                yield Answer(request, (*self._turn, END_OF_TURN) if self._ends else self._turn)
                continue
            tokens = (5, 6, 7, 8, 9, 10, END_OF_TURN)
            rows = len(request.prompt) + len(tokens)
            yield Answer(
                request,
                tokens,
                Seen(
                    torch.full((rows, HIDDEN * len(AUX_LAYERS)), 1.5, dtype=torch.bfloat16),
                    torch.zeros(rows, LIKELIEST, dtype=torch.int32),
                    torch.zeros(rows, LIKELIEST, dtype=torch.float16),
                ),
            )


@pytest.fixture(scope="module")
def tokenizer(target_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(target_folder)


def write(folder: Path, number: int, writer: Rule, tokenizer: Any, size: int = 60) -> int:
    return corpus.write_round(folder, number, size, writer, tokenizer, lambda _: None)  # type: ignore[arg-type]


def test_a_completed_turn_is_answered_under_the_default_system_line(
    tmp_path: Path, tokenizer: Any
) -> None:
    writer = Rule(tokenizer)

    tokens = write(tmp_path, 0, writer, tokenizer)

    samples = corpus.read_rounds(tmp_path)
    sampled = [request for request in writer.seen if request.temperature > 0]
    assert tokens == 7 * len(samples) == 7 * 60
    assert sum("a list of green apples" in sample.text for sample in samples) == len(sampled) > 10
    assert all("named SmolLM" in tokenizer.decode(sample.prompt) for sample in samples)
    assert {sample.kind for sample in samples} == set(corpus.SHARES)


def test_a_turn_that_does_not_end_is_not_asked(tmp_path: Path, tokenizer: Any) -> None:
    writer = Rule(tokenizer, ends=False)

    write(tmp_path, 0, writer, tokenizer)

    asked = [request for request in writer.seen if request.temperature == 0]
    assert len(corpus.read_rounds(tmp_path)) == len(asked) < 60


def test_a_finished_round_is_not_written_again(tmp_path: Path, tokenizer: Any) -> None:
    first = write(tmp_path, 0, Rule(tokenizer), tokenizer)
    writer = Rule(tokenizer)

    assert write(tmp_path, 0, writer, tokenizer) == first
    assert writer.seen == []


def test_a_round_depends_on_its_number_alone(tmp_path: Path, tokenizer: Any) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 5, Rule(tokenizer), tokenizer)
    write(tmp_path / "one", 6, Rule(tokenizer), tokenizer)

    texts = [corpus.texts_of(corpus.round_path(tmp_path / name, 5)) for name in ("one", "two")]
    assert texts[0] == texts[1]
    assert corpus.texts_of(corpus.round_path(tmp_path / "one", 6)) != texts[0]


def test_texts_and_states_stand_in_the_same_order(tmp_path: Path, tokenizer: Any) -> None:
    write(tmp_path, 0, Rule(tokenizer), tokenizer)

    states = open_states(corpus.round_path(tmp_path, 0))

    for i, sample in enumerate(corpus.read_rounds(tmp_path)):
        begin = int(states.starts[i])
        assert tuple(states.tokens[begin : int(states.starts[i + 1])]) == (
            sample.prompt + sample.answer
        )
    assert float(states.streams[0, 0]) == 1.5
