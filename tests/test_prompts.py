import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.prompts import DatasetError, PromptSet, load_prompts
from pipeline.spec import DatasetSpec

# As they were when these sets were first measured: a change here makes all records of a set
# incomparable with the next ones.
DIGESTS = {
    "chat": "dcf2564700e5db5318e00b01ce14e302b6ba341bcb0b733afc7a0ced112a012d",
    "code": "73774a2aff5cff53e2a04ce83984ca9500cfde8581bae43d567eb35b87948a1e",
    "echo": "9cdece1ac7f5812bdb633194974680fe5caac44b12d548f5206253a8b0681037",
    "json": "a9295639e6e6df73ba46c9c6d958b0b777d7d4bf4bc0fe573851969cc75bd0b9",
    "math": "fb254912f0b106311b613a974339aee876931f51d69887c8bbc137559b3be9d7",
}
Row = dict[str, object]


def local(path: Path, **changes: Any) -> DatasetSpec:
    spec: dict[str, Any] = {
        "name": "mine",
        "source": {"kind": "path", "path": str(path)},
        "max_tokens": 64,
    }
    return DatasetSpec.model_validate({**spec, **changes})


def lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., PromptSet]:
    """Write rows, text or bytes to a file and read them as prompts."""

    def read(
        content: Sequence[Row] | str | bytes,
        file: str = "prompts.jsonl",
        **changes: Any,
    ) -> PromptSet:
        text = content if isinstance(content, str | bytes) else lines(content)
        path = tmp_path / file
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_prompts(local(path, **changes))

    return read


Load = Callable[..., PromptSet]
TWO: list[Row] = [
    {"id": "a", "category": "greeting", "prompt": "Hello"},
    {"id": "b", "category": "farewell", "prompt": "Bye"},
]


# --- the sets that ship with the package


@pytest.mark.parametrize("name", DIGESTS)
def test_a_bundled_set_loads_with_its_categories_and_the_digest_it_always_had(name: str) -> None:
    source = {"kind": "bundled", "file": f"{name}.jsonl"}
    spec = DatasetSpec.model_validate({"name": name, "source": source, "max_tokens": 128})
    prompts = load_prompts(spec)
    assert len(prompts.prompts) == 20
    assert len({p.category for p in prompts.prompts}) >= 4
    assert prompts.digest == DIGESTS[name]


# --- forms of files


def test_prompts_keep_their_order_ids_and_categories(load: Load) -> None:
    prompts = load(TWO).prompts
    assert [(p.id, p.category, p.text) for p in prompts] == [
        ("a", "greeting", "Hello"),
        ("b", "farewell", "Bye"),
    ]


def test_a_compressed_file_holds_the_same_prompts_and_digest(load: Load) -> None:
    packed = load(gzip.compress(lines(TWO).encode()), "prompts.jsonl.gz")
    assert packed == load(TWO)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lines(TWO).replace("\n", "\r\n"), id="with the line ends of Windows"),
        pytest.param(lines(TWO).replace("\n", "\n\n"), id="with blank lines between"),
        pytest.param(lines(TWO).rstrip("\n"), id="without the last line end"),
        pytest.param("\ufeff" + lines(TWO), id="with a byte order mark"),
        pytest.param(lines(TWO).replace("ll", "\\u006c\\u006c"), id="with escaped letters"),
    ],
)
def test_another_encoding_of_the_same_prompts_keeps_their_digest(load: Load, text: str) -> None:
    assert load(text).digest == load(TWO).digest


def test_of_several_turns_the_first_is_asked(load: Load) -> None:
    rows: list[Row] = [
        {"question_id": 81, "category": "writing", "turns": ["First.", "Second."]},
        {"question_id": 82, "category": "qa", "turns": ["Only."], "reference": ["x"]},
    ]
    prompts = load(rows, prompt_field="turns", id_field="question_id").prompts
    assert [(p.id, p.category, p.text) for p in prompts] == [
        ("81", "writing", "First."),
        ("82", "qa", "Only."),
    ]


def test_questions_with_answers_and_no_ids_are_numbered_under_the_sets_name(load: Load) -> None:
    rows: list[Row] = [
        {"question": "How many?", "answer": "7\n#### 7"},
        {"question": "How far?", "answer": "8"},
    ]
    prompts = load(rows, prompt_field="question", name="sums").prompts
    assert [p.id for p in prompts] == ["sums-0000", "sums-0001"]
    assert {p.category for p in prompts} == {"sums"}


def test_tasks_with_code_keep_their_blanks_and_line_ends(load: Load) -> None:
    body = 'def f(x):\n    """Return x.\n    >>> f(1)\n    """\n'
    rows: list[Row] = [
        {"task_id": "Eval/0", "prompt": body, "entry_point": "f", "test": "assert f(1) == 1"}
    ]
    prompts = load(rows, id_field="task_id").prompts
    assert (prompts[0].id, prompts[0].text) == ("Eval/0", body)


def test_fields_may_stand_in_some_records_only_and_change_their_type(load: Load) -> None:
    rows: list[Row] = [
        {"prompt": "a", "reference": ["x"]},
        {"id": 7, "prompt": "b", "reference": "x", "category": None},
        {"id": "c", "prompt": ["c"], "more": {"deep": [1, {}]}, "category": "k"},
    ]
    prompts = load(rows).prompts
    assert [p.id for p in prompts] == ["mine-0000", "7", "c"]
    assert [p.category for p in prompts] == ["mine", "mine", "k"]


@pytest.mark.parametrize("text", ["2020-01-01", "2020-01-01T00:00:00", "1e5", "null", "é😀 "])
def test_a_prompt_is_the_text_that_was_written_whatever_it_looks_like(
    load: Load, text: str
) -> None:
    prompt = load([{"id": text, "prompt": text}]).prompts[0]
    assert (prompt.id, prompt.text) == (text, text)


def test_an_edited_file_is_read_anew(load: Load) -> None:
    assert load(TWO).prompts[0].text == "Hello"
    assert load(lines(TWO).replace("Hello", "Howdy")).prompts[0].text == "Howdy"


def test_reading_a_file_leaves_nothing_beside_it(load: Load, tmp_path: Path) -> None:
    load(TWO)
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.jsonl"]


def test_reading_says_nothing_on_the_console(load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    load(TWO)
    with pytest.raises(DatasetError):
        load("{broken\n")
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


# --- what counts


def test_a_limit_takes_the_first_prompts(load: Load) -> None:
    assert [p.id for p in load(TWO, limit=1).prompts] == ["a"]
    assert len(load(TWO, limit=9).prompts) == 2


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        pytest.param(None, 64, id="the set's own cap"),
        pytest.param(16, 16, id="a lower cap of the measurement"),
        pytest.param(999, 64, id="a higher cap of the measurement changes nothing"),
    ],
)
def test_the_lower_token_cap_holds(tmp_path: Path, cap: int | None, expected: int) -> None:
    (tmp_path / "p.jsonl").write_text(lines(TWO))
    prompts = load_prompts(local(tmp_path / "p.jsonl"), cap)
    assert {p.max_tokens for p in prompts.prompts} == {expected}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_tokens": 65}, id="the token cap"),
        pytest.param({"limit": 1}, id="the number of prompts"),
        pytest.param({"system": "Be brief."}, id="the system prompt"),
        pytest.param({"id_field": None}, id="the ids"),
        pytest.param({"category_field": None}, id="the categories"),
    ],
)
def test_what_changes_the_prompts_changes_their_digest(load: Load, changes: Row) -> None:
    assert load(TWO, **changes).digest != load(TWO).digest


def test_the_sets_name_and_its_files_place_leave_the_digest_alone(load: Load) -> None:
    assert load(TWO, "elsewhere.jsonl", name="other").digest == load(TWO).digest


def test_a_pinned_digest_is_checked_and_the_one_found_is_told(load: Load) -> None:
    found = load(TWO).digest
    assert load(TWO, sha256=found).digest == found
    with pytest.raises(DatasetError, match=f"set sha256: {found}"):
        load(TWO, sha256="0" * 64)


def test_a_pinned_digest_holds_whatever_caps_the_answers(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(lines(TWO))
    spec = local(file)
    pinned = spec.model_copy(update={"sha256": load_prompts(spec).digest})
    capped = load_prompts(pinned, 1)
    assert {prompt.max_tokens for prompt in capped.prompts} == {1}
    assert capped.digest != pinned.sha256


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "p.jsonl").write_text(lines(TWO))
    assert len(load_prompts(local(Path("~/p.jsonl"))).prompts) == 2


# --- the hub


def hub_spec() -> DatasetSpec:
    source = {"kind": "hub", "repo": "maker/set", "split": "test", "revision": "a" * 40}
    return DatasetSpec.model_validate({"name": "mine", "source": source, "max_tokens": 8})


def test_a_set_on_the_hub_is_asked_for_at_its_pinned_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def load_dataset(*args: object, **kwargs: object) -> list[Row]:
        asked.extend([args, kwargs])
        return TWO

    import datasets

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert [p.text for p in load_prompts(hub_spec()).prompts] == ["Hello", "Bye"]
    assert asked == [("maker/set", None), {"split": "test", "revision": "a" * 40}]


def test_a_set_that_the_hub_does_not_give_is_a_mistake_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_dataset(*args: object, **kwargs: object) -> list[Row]:
        raise ConnectionError("no route to host\nand more lines")

    import datasets

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DatasetError, match=r"maker/set at a{12} .*no route.*source\.kind=path"):
        load_prompts(hub_spec())
