from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline.zoo.generate import END_OF_TURN, Request, Writer
from pipeline.zoo.lm import LAYERS, Target, causal

PROMPT = (1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28)


@pytest.fixture(scope="module")
def target(target_folder: Path) -> Target:
    return Target.load(target_folder)


def plain(target: Target, tokens: tuple[int, ...]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    ids = torch.tensor([tokens])
    with torch.inference_mode():
        positions = torch.arange(len(tokens))[None]
        return target.forward(ids, positions, causal, (2, LAYERS))


def test_the_forward_pass_is_that_of_transformers(target: Target, target_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.bfloat16)
    with torch.inference_mode():
        reference = model(torch.tensor([PROMPT]), output_hidden_states=True)
        stream, kept = plain(target, PROMPT)

        logits = target.logits(stream)

    assert (logits.argmax(-1) == reference.logits.argmax(-1)).float().mean() > 0.85
    error = (kept[0] - reference.hidden_states[2]).float().norm()
    assert error < 0.02 * kept[0].float().norm()


def test_writing_many_texts_at_once_gives_what_each_gives_alone(target: Target) -> None:
    prompts = [PROMPT, PROMPT[:9], PROMPT[:5], PROMPT[:12], PROMPT[:7]]
    requests = [Request(str(i), prompt, 6 + i) for i, prompt in enumerate(prompts)]

    together = {
        answer.request.key: answer.tokens
        for answer in Writer(target, slots=2, length=64).write(deque(requests))
    }

    assert set(together) == {request.key for request in requests}
    for request in requests:
        text = request.prompt + together[request.key]
        stream, _ = plain(target, text)
        with torch.inference_mode():
            logits = target.logits(stream)[0].float()
        best = logits.max(-1).values
        for position in range(len(request.prompt) - 1, len(text) - 1):
            # bf16 ties may fall either way; a wrong cache would be off by far more.
            assert best[position] - logits[position, text[position + 1]] < 1.0


def test_an_answer_ends_at_its_cap_or_at_the_end_of_the_turn(target: Target) -> None:
    requests = deque(Request(str(n), PROMPT, n) for n in (1, 5))

    answers = list(Writer(target, slots=2, length=64).write(requests))

    assert all(
        len(a.tokens) == a.request.max_tokens or a.tokens[-1] == END_OF_TURN for a in answers
    )


def test_a_request_that_does_not_fit_is_dropped(target: Target) -> None:
    requests = deque([Request("long", PROMPT, 60), Request("short", PROMPT, 3)])

    answers = list(Writer(target, slots=2, length=32).write(requests))

    assert [answer.request.key for answer in answers] == ["short"]


def test_kept_streams_are_those_of_a_plain_pass(target: Target) -> None:
    writer = Writer(target, slots=2, length=64, keep=(2, LAYERS))

    answer = next(iter(writer.write(deque([Request("x", PROMPT, 6)]))))

    assert answer.seen is not None
    text = PROMPT + answer.tokens
    _, kept = plain(target, text)
    expected = torch.cat(kept, dim=-1)[0, :-1].float()
    found = answer.seen.streams[:-1].float()
    assert (found - expected).norm() < 0.03 * expected.norm()
    assert answer.seen.best[len(PROMPT) - 1 : -1, 0].tolist() == list(answer.tokens)
    assert (answer.seen.best[: len(PROMPT) - 1] == -1).all()
    assert (answer.seen.best[-1] == -1).all()
