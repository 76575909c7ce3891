from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipeline.zoo.overlap import LENGTH, Overlap, bundled_texts, texts_by_kind

vocabulary = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"])


@given(
    st.lists(vocabulary), st.lists(vocabulary, min_size=LENGTH, max_size=20), st.lists(vocabulary)
)
def test_a_text_that_quotes_enough_of_a_forbidden_one_is_found(
    before: list[str], quoted: list[str], after: list[str]
) -> None:
    text = ", ".join([*before, *quoted[:LENGTH], *after]).upper()

    assert Overlap([" ".join(quoted)]).shared(text)


@given(st.lists(vocabulary, max_size=20))
def test_a_text_of_other_words_is_free(words: list[str]) -> None:
    assert not Overlap(["one two three four five six seven eight nine"]).shared(" ".join(words))


def test_seven_words_in_common_are_allowed_and_eight_are_not() -> None:
    overlap = Overlap(["one two three four five six seven eight nine"])

    assert not overlap.shared("two three four five six seven eight ten")
    assert overlap.shared("so: two three four five six seven eight nine")


def test_a_forbidden_text_shorter_than_a_run_is_forbidden_as_a_whole() -> None:
    overlap = Overlap(["Tell me a joke."])

    assert overlap.shared("tell me a joke")
    assert not overlap.shared("tell me a joke about cats and dogs please now")


def test_the_bundled_sets_are_read_by_kind() -> None:
    assert {"code", "json", "math", "chat", "echo"} <= set(texts_by_kind())
    assert all(Overlap(bundled_texts()).shared(text) for text in bundled_texts())


def test_an_empty_folder_forbids_nothing(tmp_path: Path) -> None:
    assert bundled_texts(tmp_path) == []
