"""The training text: prompts of five kinds and the target's greedy answers, in resumable rounds.

A round is one file, written whole and renamed into place, and depends only on the seed and its number;
a killed run repeats at most the round in flight. Within a round the target first completes the
openings of `prompts.py` to whole user turns (sampled), then answers every prompt greedily, as it will
be asked to when the drafters are measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pipeline.zoo import prompts
from pipeline.zoo.generate import END_OF_TURN, Request, Writer

ANSWER_TOKENS = 128
TURN_TOKENS = 120
SHARES = {"code": 0.22, "json": 0.21, "math": 0.2, "chat": 0.24, "echo": 0.13}
TEMPLATE_SHARE, ABOUT_SHARE = 0.4, 0.15
"""Prompts from templates, and about text of an earlier round; the others the target writes."""
LAG = 2
"""Rounds back that texts are taken from: two processes can write neighbouring rounds."""


@dataclass(frozen=True)
class Sample:
    """One training text: the rendered prompt's token ids and the answer's."""

    kind: str
    text: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def round_path(folder: Path, number: int) -> Path:
    """File of a round."""
    return folder / f"round-{number:04d}.jsonl"


def read_rounds(folder: Path) -> list[Sample]:
    """All samples of the finished rounds, in order."""
    return [
        sample for path in sorted(folder.glob("round-*.jsonl")) for sample in read_round(path)
    ]


def read_round(path: Path) -> list[Sample]:
    """The samples of one round's file."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        Sample(row["kind"], row["text"], tuple(row["prompt"]), tuple(row["answer"])) for row in rows
    ]


def write_round(
    folder: Path,
    number: int,
    size: int,
    writer: Writer,
    tokenizer: Any,  # noqa: ANN401 - transformers is untyped here
    tick: Callable[[int], None],
) -> int:
    """Write round `number` of `size` prompts unless it is there; returns its answers' tokens.

    Args:
        folder: where rounds lie.
        number: 0, 1, …; also the seed of the round's prompts.
        size: prompts asked for (some openings lead nowhere and are dropped).
        writer: the target.
        tokenizer: with the chat template.
        tick: called with the number of new tokens as they are written.
    """
    path = round_path(folder, number)
    if not path.exists():
        asked = list(_prompts(folder, number, size, writer, tokenizer, tick))
        rows = list(_answers(asked, writer, tokenizer, tick))
        temporary = path.with_suffix(".part")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        temporary.replace(path)
    return sum(len(sample.answer) for sample in read_round(path))


def _prompts(
    folder: Path, number: int, size: int, writer: Writer, tokenizer: Any, tick: Callable[[int], None]  # noqa: ANN401
) -> Iterator[tuple[str, str]]:
    random = Random(f"corpus-{number}")
    kinds = random.choices(list(SHARES), list(SHARES.values()), k=size)
    lent = round_path(folder, number - LAG)
    earlier = read_round(lent) if lent.exists() else []
    texts = [text for s in earlier if (text := _decoded(tokenizer, s.answer)).strip()]
    turns = []
    for i, kind in enumerate(kinds):
        draw = random.random()
        if draw < TEMPLATE_SHARE or (not texts and draw < TEMPLATE_SHARE + ABOUT_SHARE):
            yield kind, prompts.templated(kind, random)
        elif draw < TEMPLATE_SHARE + ABOUT_SHARE:
            yield "echo", prompts.about_text(_cut(random.choice(texts), random), random)
        else:
            begun = prompts.opening(kind, random)
            head = f"<|im_start|>system\n{begun.system}<|im_end|>\n<|im_start|>user\n{begun.prefix}"
            ids = tuple(tokenizer(head)["input_ids"])
            turns.append(Request(f"{i}:{kind}:{begun.prefix}", ids, TURN_TOKENS, 1.0))
    for answer in writer.write(turns):
        tick(len(answer.tokens))
        _, kind, prefix = answer.request.key.split(":", 2)
        turn = prefix + _decoded(tokenizer, answer.tokens)
        if answer.tokens[-1] == END_OF_TURN and len(turn) > 8:
            yield kind, turn.strip()


def _answers(
    asked: list[tuple[str, str]], writer: Writer, tokenizer: Any, tick: Callable[[int], None]  # noqa: ANN401
) -> Iterator[dict[str, object]]:
    requests = []
    for i, (_, text) in enumerate(asked):
        chat = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
        requests.append(Request(str(i), tuple(ids), ANSWER_TOKENS))
    # Prompts of like length are read together: less padding.
    requests.sort(key=lambda request: len(request.prompt))
    for answer in writer.write(requests):
        tick(len(answer.tokens))
        kind, text = asked[int(answer.request.key)]
        yield {
            "kind": kind,
            "text": text,
            "prompt": list(answer.request.prompt),
            "answer": list(answer.tokens),
        }


def _decoded(tokenizer: Any, tokens: tuple[int, ...]) -> str:  # noqa: ANN401
    text: str = tokenizer.decode(tokens, skip_special_tokens=True)
    return text


def _cut(text: str, random: Random) -> str:
    """The first lines or sentences of a text, at most about 100 tokens."""
    limit = random.randint(80, 400)
    head = text[:limit]
    end = max(head.rfind("\n"), head.rfind(". "))
    return head[: end + 1].strip() if end > 40 else head.strip()
