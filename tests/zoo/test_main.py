from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.zoo import target
from pipeline.zoo.__main__ import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["biuld"], "unknown verb 'biuld', did you mean 'build'?"),
        (["build", "bugdet=3"], "unknown argument 'bugdet', did you mean 'budget'?"),
        (["build", "budget"], "unknown argument 'budget'"),
        (["build", "budget=soon"], "budget: 'soon' cannot be used"),
        (["build", "budget=0"], "budget: '0' cannot be used"),
        (["build", "seed=-1"], "seed: '-1' cannot be used"),
        (["evaluate", "per_kind=none"], "per_kind: 'none' cannot be used"),
        (["evaluate", "methods=medusa"], "the zoo has no head for 'medusa'"),
        (["evaluate", "methods=mtp", "heads=/nowhere"], "/nowhere/mtp.safetensors: there is no"),
        (["materialise", "smollm"], "the zoo has no checkpoint 'smollm'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], target_in_cache: None
) -> None:
    code = main(words)

    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith(sentence)
    assert said.count("\n") == 1
    assert "Traceback" not in said


@pytest.fixture
def target_in_cache(target_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEC_DECODE_PIPELINE_CACHE", str(cache))


def test_materialise_prints_names_and_folders(
    target_folder: Path, target_in_cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["materialise", "smollm2-135m-instruct"]) == 0
    assert capsys.readouterr().out == f"smollm2-135m-instruct {target_folder}\n"


def test_a_machine_without_the_weights_ends_with_exit_code_five(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEC_DECODE_PIPELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(target.packaged, "PACKAGE", "no-such-package")

    assert main(["materialise", "smollm2-135m-instruct"]) == 5
    assert "no-such-package" in capsys.readouterr().err


def test_help_tells_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "materialise" in capsys.readouterr().out
    assert main([]) == 2
