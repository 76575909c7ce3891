"""Training prompts of five kinds: code, json, math, chat, echo.

Two ways to a prompt. *Templates* filled at random give every kind its form. *Openings* are the
start of a user turn, under a system line that names a theme, which the target itself completes by
sampling: its own turns are far broader than any list of templates. A third step puts text that the
target wrote into prompts that ask to repeat, edit or extract.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from pipeline.zoo import templates, words

KINDS = ("code", "json", "math", "chat", "echo")


@dataclass(frozen=True)
class Opening:
    """The start of a user turn for the target to complete.

    Attributes:
        kind: one of `KINDS`.
        system: system line that steers the turn; the answer is written under the default one.
        prefix: first words of the turn, possibly none.
    """

    kind: str
    system: str
    prefix: str


def opening(kind: str, random: Random) -> Opening:
    """A random opening of a kind."""
    systems, prefixes = templates.THEMES[kind]
    # No blank at the end: the tokenizer joins it to the word that follows.
    return Opening(kind, random.choice(systems), random.choice(prefixes).rstrip(" "))


def templated(kind: str, random: Random) -> str:
    """A filled template of a kind."""
    if kind == "echo":
        text = random.choice(
            [" ".join(random.sample(words.SENTENCES, random.randint(1, 4)))] * 2
            + [random.choice(words.SNIPPETS)]
        )
        return about_text(text, random)
    return random.choice(templates.TEMPLATES[kind]).format(**_filling(random))


def about_text(text: str, random: Random) -> str:
    """A prompt that asks to repeat, edit or extract from `text`."""
    is_code = "\n    " in text or "```" in text
    pool = templates.ECHO_CODE if is_code else templates.ECHO + templates.EXTRACT
    seen = [word for word in text.split() if word.isalpha()] or ["the"]
    return random.choice(pool).format(
        text=text, old=random.choice(seen), new=random.choice(words.FIELDS)
    )


def _filling(random: Random) -> dict[str, str]:
    fields = random.sample(words.FIELDS, 3)
    tools = random.sample(words.TOOLS, 2)
    small = random.randint(2, 12)
    values = [random.choice(words.NAMES + words.CITIES + words.THINGS) for _ in range(2)]
    return {
        "language": random.choice(words.LANGUAGES),
        "function": random.choice(words.FUNCTIONS),
        "argument": random.choice(("values", "text", "n", "items", "a, b", "data, key", "numbers")),
        "cls": random.choice(words.CLASSES),
        "snippet": random.choice(words.SNIPPETS),
        "error": random.choice(words.ERRORS),
        "entity": random.choice(words.ENTITIES),
        "field": fields[0],
        "field2": fields[1],
        "field3": fields[2],
        "verb": random.choice(("sort", "copy", "merge", "iterate over", "filter", "print")),
        "name": random.choice(words.NAMES),
        "name2": random.choice(words.NAMES),
        "surname": random.choice(words.SURNAMES),
        "city": random.choice(words.CITIES),
        "things": random.choice(words.THINGS),
        "place": random.choice(words.PLACES),
        "number": str(random.randint(20, 400)),
        "number2": str(random.randint(3, 60)),
        "number3": str(small),
        "twice": str(2 * small),
        "thrice": str(4 * small),
        "value": values[0],
        "value2": values[1],
        "tool": tools[0],
        "tool2": tools[1],
        "request": _request(tools[0], random),
        "record": json.dumps(_record(random)),
        "records": json.dumps([_record(random) for _ in range(random.randint(2, 3))]),
        "topic": random.choice(words.TOPICS),
        "pair": random.choice(words.PAIRS),
        "style": random.choice(words.STYLES),
        "sentence": random.choice(words.SENTENCES),
    }


def _record(random: Random) -> dict[str, object]:
    keys = random.sample(words.FIELDS, random.randint(2, 5))
    pool: list[object] = [
        random.choice(words.NAMES),
        random.randint(1, 500),
        True,
        random.choice(words.CITIES),
        round(random.uniform(1, 99), 2),
    ]
    return {key: random.choice(pool) for key in keys}


def _request(tool: str, random: Random) -> str:
    action = tool.split("(")[0].replace("_", " ")
    name, city = random.choice(words.NAMES), random.choice(words.CITIES)
    topic, thing = random.choice(words.TOPICS), random.choice(words.THINGS)
    return random.choice(
        (
            f"please {action} for {name} in {city}.",
            f"I want to {action}, {random.randint(2, 30)} of them, for {topic}.",
            f"{action} with {thing} tomorrow at {random.randint(1, 12)} o'clock.",
        )
    )
