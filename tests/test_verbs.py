"""The small verbs' arguments."""

import importlib

import pytest

from pipeline.errors import EXIT_OK, InputError
from pipeline.verbs import helped, options


@pytest.mark.parametrize("module", ["ui", "report.__main__", "tracking.__main__"])
@pytest.mark.parametrize("asked", [["--help"], ["-h"], ["help"], ["x", "--help"]])
def test_a_verb_that_is_asked_for_help_shows_its_usage(
    module: str, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    verb = importlib.import_module(f"pipeline.{module}")
    assert verb.main(asked) == EXIT_OK
    assert capsys.readouterr().out == f"{verb.USAGE}\n"


def test_words_that_only_look_like_help_are_words() -> None:
    assert not helped(["replay", "help"], "usage")
    assert options(["replay", "help", "uri=x"], ("uri",), "usage") == (
        ["replay", "help"],
        {"uri": "x"},
    )


@pytest.mark.parametrize("argv", [["url=x"], ["uri="], ["uri=x", "uri=y"]])
def test_a_wrong_option_is_refused_with_the_usage(argv: list[str]) -> None:
    with pytest.raises(InputError, match="usage"):
        options(argv, ("uri",), "usage")
