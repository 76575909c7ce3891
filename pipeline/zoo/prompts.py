"""Training prompts of five kinds: code, json, math, chat, echo.

Two ways to a prompt. *Templates* filled at random give every kind its form. *Openings* are the start of
a user turn, under a system line that names a theme, which the target itself completes by sampling: its
own turns are far broader than any list of templates. A third step puts text that the target wrote into
prompts that ask to repeat, edit or extract.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from pipeline.zoo import words

KINDS = ("code", "json", "math", "chat", "echo")

_CODE = (
    "Write a {language} function that {function}.",
    "Write a {language} program that {function}. Add comments.",
    "Can you show me {language} code which {function}?",
    "Implement a function in {language} that {function}, and give an example of its use.",
    "I need a small {language} script: it {function}.",
    "Complete this Python function:\n\ndef solve({argument}):\n    \"\"\"A function that {function}.\"\"\"",
    "Write a unit test for a Python function that {function}.",
    "Create a {language} class {cls} with {number} useful methods.",
    "Write a Python class called {cls} with a constructor and a __str__ method.",
    "Explain what this code does:\n```\n{snippet}\n```",
    "Add a docstring and type hints to this code:\n{snippet}",
    "Find the bug, if there is one:\n\n{snippet}",
    "My program stops with {error}. What does it mean and how do I fix it?",
    "Translate this code to {language}:\n{snippet}",
    "Write an SQL query that lists each {entity} with its {field}, newest first.",
    "Write a SQL CREATE TABLE statement for a {entity} with the columns {field}, {field2} and {field3}.",
    "Write a regular expression that matches a {field}, and explain it.",
    "How do I {verb} a dictionary in {language}? Show code.",
    "Give me a {language} one-liner that {function}.",
    "Write an HTML page with a form for a {entity}: {field}, {field2}.",
    "Optimize this code and explain the change:\n\n{snippet}",
    "Write pseudocode for an algorithm that {function}.",
)
_JSON = (
    "Return a JSON object for a {entity} with the keys {field}, {field2} and {field3}.",
    "Give me a JSON array of {number} {entity} records. Each has {field} and {field2}.",
    "Write a JSON schema for a {entity} with {field}, {field2}, {field3}.",
    "Convert this record to JSON: {field}: {value}, {field2}: {number}, {field3}: {value2}.",
    "Extract the person, the city and the number as JSON from: {name} {surname} from {city} ordered "
    "{number} {things}.",
    "Answer only with JSON. Describe a {entity} called {value} in {city} with {number} {field}.",
    "You can call this function: {tool}. Answer with a JSON object with \"name\" and \"arguments\". "
    "Request: {request}",
    "Available tools:\n- {tool}\n- {tool2}\nUser: {request}\nReply with the JSON call only.",
    "Turn this CSV into JSON:\n{field},{field2}\n{value},{number}\n{value2},{number2}",
    "Here is a JSON object:\n{record}\nAdd the key \"{field}\" with a sensible value and return all of it.",
    "Sort these records by {field} and return JSON:\n{records}",
    "What is the value of \"{field}\" in this JSON?\n{record}",
    "Write a YAML configuration for a {entity} service with {field}, {field2} and {field3}.",
    "Make a Markdown table with the columns {field}, {field2} and {field3} for {number} {entity} rows.",
    "Generate a sample JSON response of an API that returns a {entity}.",
    "Rewrite as valid JSON: {{{field}: {value}, {field2}: {number},}}",
    "Create a nested JSON object for a {place} in {city} with a list of {number} {things}.",
    "Fill in this JSON template for {name} {surname}: {{\"name\": \"\", \"age\": 0, \"city\": \"\"}}",
    "List {number} {entity} names as a JSON array of strings.",
    "Write an XML document that describes a {entity} with {field} and {field2}.",
)
_MATH = (
    "{name} has {number} {things}. {name2} gives {name} {number2} more. How many {things} are there now?",
    "A {place} sells {number} {things} a day at ${number2} each. How much does it earn in {number3} days?",
    "{name} buys {number3} boxes of {things} with {number} in each box and gives away {number2}. How many "
    "are left?",
    "A train travels {number} km in {number3} hours. What is its average speed?",
    "What is {number} + {number2} x {number3}? Explain each step.",
    "Solve for x: {number3}x + {number2} = {number}.",
    "What is {number3}% of {number}?",
    "{name} is {number3} years older than {name2}. Together they are {number} years old. How old is each?",
    "A rectangle is {number3} m wide and {number2} m long. Find its area and perimeter.",
    "The price of a coat falls from ${number} by {number3} percent. What is the new price?",
    "{name} shares {number} {things} equally among {number3} friends. How many does each get?",
    "Calculate the mean of {number}, {number2} and {number3}.",
    "How many minutes are there in {number3} hours and {number2} minutes?",
    "If {number3} workers need {number2} days to build a wall, how long do {number} workers need?",
    "{name} reads {number2} pages each day. How long does a book of {number} pages take?",
    "Simplify the fraction {number2}/{number}.",
    "{name} walks {number3} km to the {place} and back {number2} times a week. How far is that in a month?",
    "A tank holds {number} litres and loses {number3} litres an hour. When is it half empty?",
    "What is the next number: {number3}, {twice}, {thrice}, ...? Explain the rule.",
    "There are {number} {things} in a {place}. {number2} are sold in the morning and {number3} in the "
    "afternoon. How many remain?",
    "Find the probability of drawing a red ball from a bag of {number3} red and {number2} blue balls.",
    "Convert {number} kilometres to miles and show the calculation.",
    "{name} earns ${number2} an hour and works {number3} hours a day. How much is that in a week?",
    "Factor the expression x^2 + {number3}x + {number2} if possible.",
)
_CHAT = (
    "Explain {topic} {style}.",
    "Tell me about {topic}.",
    "What should I know about {topic}?",
    "What is the difference between {pair}?",
    "Give me {number3} tips about {topic}.",
    "Write a short story about {name} and {topic}.",
    "Write a poem about {topic}.",
    "I am {name} from {city}. I feel tired lately. What can I do?",
    "Write an email to {name} {surname} about {topic}.",
    "Who are you and what can you do?",
    "Plan a weekend in {city} for two people.",
    "Why is {topic} important?",
    "Summarize what is known about {topic} {style}.",
    "Can you recommend a gift for a friend who likes {topic}?",
    "Write a dialogue between {name} and {name2} about {topic}.",
    "What are common mistakes with {topic}?",
    "Describe a {place} in {city} {style}.",
    "Do you think {topic} will matter in fifty years?",
    "List the advantages and disadvantages of {topic}.",
    "Write a product description for {things}.",
    "Imagine you are a guide in {city}. Greet your guests.",
    "Help me to start an essay on {topic}.",
    "How would {name} explain {topic} to a friend?",
    "Translate to Spanish: {sentence}",
    "Write {number3} questions about {topic}.",
)
_ECHO = (
    "Repeat the following text exactly:\n{text}",
    "Copy this text without any change:\n\n{text}",
    "Correct the grammar and spelling:\n{text}",
    "Rewrite the following in the past tense:\n{text}",
    "Replace every '{old}' with '{new}' in this text:\n{text}",
    "Write the following text again, and add one sentence at the end:\n{text}",
    "Put the following in a more formal tone:\n\n{text}",
    "Return the text below as a bulleted list:\n{text}",
    "Proofread this and return the corrected version only:\n{text}",
    "Here is some text. Print it back word for word.\n---\n{text}\n---",
    "Shorten this text:\n{text}",
    "Quote the first two sentences of this text:\n{text}",
    "Paraphrase:\n{text}",
)
_ECHO_CODE = (
    "Repeat this code exactly:\n{text}",
    "Rename the variable '{old}' to '{new}' in this code:\n{text}",
    "Add comments to this code and change nothing else:\n{text}",
    "Return this code with one blank line after each statement:\n{text}",
    "Format this code and return it:\n{text}",
)
_EXTRACT = (
    "Extract the important facts of this text as JSON:\n{text}",
    "Summarize in one sentence:\n{text}",
    "Return a JSON object with the keys \"title\" and \"summary\" for this text:\n{text}",
    "Answer with JSON: what are the names, places and numbers in this text?\n{text}",
)
_TEMPLATES = {"code": _CODE, "json": _JSON, "math": _MATH, "chat": _CHAT}

_THEMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "code": (
        (
            "You are a programming assistant. The user asks for a Python function.",
            "You help developers. The user asks you to write or fix code.",
            "You are an expert in Python, SQL and JavaScript.",
        ),
        ("Write a ", "Write a Python function that ", "Implement ", "How do I ", "Create a program ",
         "I have this code:\n\n```python\n", "Given a list of ", "def ", "Write an SQL query ", ""),
    ),
    "json": (
        (
            "You answer only with JSON. The user describes data.",
            "You extract data from text and return JSON.",
            "You are an API. The user asks for records in JSON.",
        ),
        ("Convert ", "Extract ", "Return a JSON object ", "Create a JSON ", "Here is the data:\n",
         "Generate a list of ", "Parse the following ", ""),
    ),
    "math": (
        (
            "You are a math tutor. The user gives a word problem for primary school.",
            "You solve arithmetic and algebra problems step by step.",
        ),
        ("A ", "If ", "Solve ", "Find ", "What is ", "There are ", "Calculate ", "How many ", ""),
    ),
    "chat": (
        (
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
            "You are a friendly assistant who talks about everyday life.",
            "You are a knowledgeable assistant for science, history and culture.",
            "You help with letters, stories and essays.",
        ),
        ("", "", "", "What ", "How ", "Why ", "Can you ", "I ", "Write ", "Tell me ", "Explain ", "Give ",
         "Describe ", "Is ", "My "),
    ),
    "echo": (
        (
            "You edit text. The user gives a text and asks to correct or rewrite it.",
            "You rewrite and summarize texts that the user gives.",
        ),
        ("Rewrite ", "Correct ", "Edit the following ", "Summarize ", "Edit this ", "Make this ", ""),
    ),
}


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
    systems, prefixes = _THEMES[kind]
    # No blank at the end: the tokenizer joins it to the word that follows.
    return Opening(kind, random.choice(systems), random.choice(prefixes).rstrip(" "))


def templated(kind: str, random: Random) -> str:
    """A filled template of a kind."""
    if kind == "echo":
        text = random.choice([" ".join(random.sample(words.SENTENCES, random.randint(1, 4)))] * 2
                             + [random.choice(words.SNIPPETS)])
        return about_text(text, random)
    return random.choice(_TEMPLATES[kind]).format(**_filling(random))


def about_text(text: str, random: Random) -> str:
    """A prompt that asks to repeat, edit or extract from `text`."""
    is_code = "\n    " in text or "```" in text
    pool = _ECHO_CODE if is_code else _ECHO + _EXTRACT
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
        "language": random.choice(words.LANGUAGES), "function": random.choice(words.FUNCTIONS),
        "argument": random.choice(("values", "text", "n", "items", "a, b", "data, key", "numbers")),
        "cls": random.choice(words.CLASSES), "snippet": random.choice(words.SNIPPETS),
        "error": random.choice(words.ERRORS), "entity": random.choice(words.ENTITIES),
        "field": fields[0], "field2": fields[1], "field3": fields[2],
        "verb": random.choice(("sort", "copy", "merge", "iterate over", "filter", "print")),
        "name": random.choice(words.NAMES), "name2": random.choice(words.NAMES),
        "surname": random.choice(words.SURNAMES), "city": random.choice(words.CITIES),
        "things": random.choice(words.THINGS), "place": random.choice(words.PLACES),
        "number": str(random.randint(20, 400)), "number2": str(random.randint(3, 60)),
        "number3": str(small), "twice": str(2 * small), "thrice": str(4 * small),
        "value": values[0], "value2": values[1],
        "tool": tools[0], "tool2": tools[1], "request": _request(tools[0], random),
        "record": json.dumps(_record(random)),
        "records": json.dumps([_record(random) for _ in range(random.randint(2, 3))]),
        "topic": random.choice(words.TOPICS), "pair": random.choice(words.PAIRS),
        "style": random.choice(words.STYLES), "sentence": random.choice(words.SENTENCES),
    }


def _record(random: Random) -> dict[str, object]:
    keys = random.sample(words.FIELDS, random.randint(2, 5))
    pool: list[object] = [random.choice(words.NAMES), random.randint(1, 500), True,
                          random.choice(words.CITIES), round(random.uniform(1, 99), 2)]
    return {key: random.choice(pool) for key in keys}


def _request(tool: str, random: Random) -> str:
    action = tool.split("(")[0].replace("_", " ")
    return random.choice((
        f"please {action} for {random.choice(words.NAMES)} in {random.choice(words.CITIES)}.",
        f"I want to {action}, {random.randint(2, 30)} of them, for {random.choice(words.TOPICS)}.",
        f"{action} with {random.choice(words.THINGS)} tomorrow at {random.randint(1, 12)} o'clock.",
    ))
