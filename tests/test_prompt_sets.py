import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "pipeline" / "data" / "prompts"
SETS = ("code", "json", "math", "chat", "echo")
LINES = 20
SHARED_WORDS = 8
LENGTHS = {"code": (10, 150), "json": (10, 150), "math": (10, 150), "chat": (10, 150)}
ECHO_LENGTHS = (60, 260)

each_set = pytest.mark.parametrize("name", SETS)


def rows(name: str) -> list[dict[str, str]]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def word_runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {
        tuple(words[start : start + SHARED_WORDS]) for start in range(len(words) - SHARED_WORDS + 1)
    }


def test_the_folder_holds_the_five_sets_and_nothing_else() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{n}.jsonl" for n in SETS)


@each_set
def test_a_set_has_twenty_lines_and_ends_with_one_newline(name: str) -> None:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == LINES
    assert text.endswith("}\n")
    assert len(rows(name)) == LINES


@each_set
def test_every_line_has_exactly_the_keys_id_category_and_prompt(name: str) -> None:
    for row in rows(name):
        assert list(row) == ["id", "category", "prompt"]
        assert all(isinstance(value, str) for value in row.values())


@each_set
def test_ids_count_up_from_one_under_the_name_of_the_set(name: str) -> None:
    expected = [f"{name}-{number:02d}" for number in range(1, LINES + 1)]
    assert [row["id"] for row in rows(name)] == expected


def test_no_id_appears_twice_across_the_sets() -> None:
    ids = [row["id"] for name in SETS for row in rows(name)]
    assert len(set(ids)) == len(ids)


@each_set
def test_a_set_mixes_four_to_six_categories_with_kebab_case_names(name: str) -> None:
    categories = {row["category"] for row in rows(name)}
    assert 4 <= len(categories) <= 6
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", category) for category in categories)


@each_set
def test_prompts_have_no_blank_edges_and_keep_to_the_length_bounds(name: str) -> None:
    low, high = LENGTHS.get(name, ECHO_LENGTHS)
    for row in rows(name):
        assert row["prompt"] == row["prompt"].strip(), row["id"]
        assert low <= len(row["prompt"].split()) <= high, row["id"]


def test_echo_prompts_carry_a_source_text_of_sixty_words_or_more() -> None:
    for row in rows("echo"):
        assert len(row["prompt"].split()) >= 60, row["id"]
        _, _, source = row["prompt"].partition("\n\n")
        assert 60 <= len(source.split()) <= 220, row["id"]


def test_no_two_prompts_share_a_run_of_eight_words() -> None:
    owner: dict[tuple[str, ...], str] = {}
    clashes: list[tuple[str, str, str]] = []
    for name in SETS:
        for row in rows(name):
            for run in word_runs(row["prompt"]):
                first = owner.setdefault(run, row["id"])
                if first != row["id"]:
                    clashes.append((first, row["id"], " ".join(run)))
    assert clashes == []
