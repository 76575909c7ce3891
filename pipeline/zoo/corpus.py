"""The training text: prompts of five kinds and the target's greedy answers, in resumable rounds.

A round is one file, written whole and renamed into place; a killed run repeats at most the round in
flight. Within a round the target completes the openings of `prompts.py` to whole user turns
(sampled) and answers every prompt greedily, as it will be asked to when the drafters are measured.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from pipeline.zoo import prompts
from pipeline.zoo.generate import END_OF_TURN, Request, Writer
from pipeline.zoo.hidden import Sample, StatesWriter

ANSWER_TOKENS = 128
TURN_TOKENS = 120
SHARES = {"code": 0.22, "json": 0.21, "math": 0.2, "chat": 0.24, "echo": 0.13}
TEMPLATE_SHARE, ABOUT_SHARE = 0.2, 0.15
"""Prompts from templates, and about text of an earlier round; the others the target writes."""
LAG = 2
"""Rounds back that texts are taken from: two processes can write neighbouring rounds."""


def round_path(folder: Path, number: int) -> Path:
    """File of a round."""
    return folder / f"round-{number:04d}.jsonl"


def read_rounds(folder: Path) -> list[Sample]:
    """All samples of the finished rounds, in order."""
    return [sample for path in sorted(folder.glob("round-*.jsonl")) for sample in read_round(path)]


def texts_of(path: Path) -> list[str]:
    """The user turns of one round's file, in the order of its hidden states."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [str(row["text"]) for row in rows]


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
    tokenizer: Any,
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
        states = StatesWriter(path)
        rows = list(_written(folder, number, size, writer, tokenizer, tick, states))
        states.close()
        temporary = path.with_suffix(".part")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        temporary.replace(path)
    return sum(len(sample.answer) for sample in read_round(path))


def _written(
    folder: Path,
    number: int,
    size: int,
    writer: Writer,
    tokenizer: Any,
    tick: Callable[[int], None],
    states: StatesWriter,
) -> Iterator[dict[str, object]]:
    """Rows of a round. A completed user turn joins the queue at once: no slot waits for the last
    one."""
    asked, turns = _asked(folder, number, size, tokenizer)
    # Prompts of like length are read together: less padding.
    answers = sorted((_request(*item, tokenizer) for item in asked), key=lambda r: len(r.prompt))
    waiting = deque([*turns, *answers])
    for answer in writer.write(waiting):
        tick(len(answer.tokens))
        kind, text = answer.request.key.split(":", 1)
        if answer.request.temperature == 0:
            sample = Sample(kind, text, answer.request.prompt, answer.tokens)
            if answer.seen is not None:
                states.append(sample, answer.seen)
            yield asdict(sample)
            continue
        turn = text + _decoded(tokenizer, answer.tokens)
        if answer.tokens[-1] == END_OF_TURN and len(turn) > 8:
            waiting.append(_request(kind, turn.strip(), tokenizer))


def _asked(
    folder: Path,
    number: int,
    size: int,
    tokenizer: Any,
) -> tuple[list[tuple[str, str]], list[Request]]:
    """(kind, text) of the prompts that are ready, and the user turns to be completed."""
    random = Random(f"corpus-{number}")
    lent = round_path(folder, number - LAG)
    earlier = read_round(lent) if lent.exists() else []
    texts = [text for s in earlier if (text := _decoded(tokenizer, s.answer)).strip()]
    ready, turns = [], []
    for kind in random.choices(list(SHARES), list(SHARES.values()), k=size):
        draw = random.random()
        if draw < TEMPLATE_SHARE or (not texts and draw < TEMPLATE_SHARE + ABOUT_SHARE):
            ready.append((kind, prompts.templated(kind, random)))
        elif draw < TEMPLATE_SHARE + ABOUT_SHARE:
            text = _cut(random.choice(texts), random)
            ready.append(("echo", prompts.about_text(text, random)))
        else:
            begun = prompts.opening(kind, random)
            head = f"<|im_start|>system\n{begun.system}<|im_end|>\n<|im_start|>user\n{begun.prefix}"
            ids = tuple(tokenizer(head)["input_ids"])
            turns.append(Request(f"{kind}:{begun.prefix}", ids, TURN_TOKENS, 1.0))
    return ready, turns


def _request(kind: str, text: str, tokenizer: Any) -> Request:
    chat = [{"role": "user", "content": text}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    return Request(f"{kind}:{text}", tuple(ids), ANSWER_TOKENS)


def _decoded(tokenizer: Any, tokens: tuple[int, ...]) -> str:
    text: str = tokenizer.decode(tokens, skip_special_tokens=True)
    return text


def _cut(text: str, random: Random) -> str:
    """The first lines or sentences of a text, at most about 100 tokens."""
    limit = random.randint(80, 400)
    head = text[:limit]
    end = max(head.rfind("\n"), head.rfind(". "))
    return head[: end + 1].strip() if end > 40 else head.strip()
