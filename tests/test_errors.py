import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import (
    EXIT_BAD_CONFIG,
    EXIT_CELLS_FAILED,
    EXIT_CRASH,
    EXIT_NO_INFRASTRUCTURE,
    EXIT_OK,
    EXIT_REGRESSION,
    InfrastructureError,
    InputError,
    PipelineError,
    nearest,
)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        pytest.param({}, "it is 7", id="only the problem"),
        pytest.param({"where": "a.b"}, "a.b: it is 7", id="with its place"),
        pytest.param({"allowed": "8"}, "it is 7; allowed: 8", id="with what is allowed"),
        pytest.param({"remedy": "add 1"}, "it is 7; add 1", id="with what to do"),
        pytest.param(
            {"where": "a.b", "allowed": "8", "remedy": "add 1"},
            "a.b: it is 7; allowed: 8; add 1",
            id="with everything",
        ),
    ],
)
def test_an_error_reads_as_one_sentence(parts: dict[str, str], sentence: str) -> None:
    assert str(PipelineError("it is 7", **parts)) == sentence


def test_an_error_keeps_its_parts_for_those_who_lay_them_out_otherwise() -> None:
    error = InputError("p", where="w", allowed="a", remedy="r")
    assert (error.problem, error.where, error.allowed, error.remedy) == ("p", "w", "a", "r")


def test_each_kind_of_error_has_an_exit_code_of_its_own() -> None:
    assert PipelineError("x").exit_code == EXIT_CRASH
    assert InputError("x").exit_code == EXIT_BAD_CONFIG
    assert InfrastructureError("x").exit_code == EXIT_NO_INFRASTRUCTURE


def test_the_exit_codes_are_the_documented_ones() -> None:
    codes = (
        EXIT_OK,
        EXIT_CRASH,
        EXIT_BAD_CONFIG,
        EXIT_CELLS_FAILED,
        EXIT_REGRESSION,
        EXIT_NO_INFRASTRUCTURE,
    )
    assert codes == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        pytest.param("ngrm", ", did you mean 'ngram'?", id="a letter missing"),
        pytest.param("eagle", ", did you mean 'eagle3'?", id="a digit missing"),
        pytest.param("banana", "", id="nothing like it"),
        pytest.param("", "", id="nothing at all"),
    ],
)
def test_the_nearest_known_word_is_offered_where_one_is_close(word: str, hint: str) -> None:
    assert nearest(word, ["none", "ngram", "mtp", "eagle3"]) == hint


@given(st.text(), st.lists(st.text()))
def test_only_known_words_are_ever_offered(word: str, known: list[str]) -> None:
    hint = nearest(word, known)
    assert hint == "" or hint[len(", did you mean '") : -len("'?")] in known
