from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from pipeline.zoo import corpus, drafters, target
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


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a verb says on a machine that is not able to; one sentence, exit code 5."""
    capsys.readouterr()
    assert main(words) == 5
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_machine_without_the_weights_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEC_DECODE_PIPELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(target.packaged, "PACKAGE", "no-such-package")

    for words in (["materialise", "smollm2-135m-instruct"], ["build"], ["evaluate"]):
        assert "'no-such-package'" in refused(words, capsys)


def test_a_disk_without_room_is_said_before_a_build_writes_anything(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target_in_cache: None,
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000))

    said = refused(["build", f"work={tmp_path / 'work'}"], capsys)

    assert said.startswith(f"{tmp_path / 'work'}: 1 MB are free, 2120 MB are needed")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_disk_that_fills_up_during_a_build_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target_in_cache: None,
) -> None:
    def full(folder: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    monkeypatch.setattr(corpus, "write_round", full)

    said = refused(["build", "budget=0.05", f"work={tmp_path}"], capsys)

    assert said.startswith(f"{tmp_path}: the system refused the file (No space left on device)")


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target_in_cache: None
) -> None:
    (tmp_path / "file").write_text("")

    assert "File exists" in refused(["build", f"work={tmp_path / 'file'}"], capsys)


def test_a_tampered_weight_file_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target_folder: Path,
) -> None:
    shutil.copytree(target_folder, tmp_path / "zoo" / target_folder.name, copy_function=os.link)
    (tmp_path / "weights").mkdir()
    for head in drafters.HEADS:
        content = bytearray(head.path.read_bytes())
        content[-1] ^= 1
        (tmp_path / "weights" / head.path.name).write_bytes(content)
    monkeypatch.setenv("SPEC_DECODE_PIPELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(drafters, "WEIGHTS", tmp_path / "weights")

    for head in drafters.HEADS:
        said = refused(["materialise", f"smollm2-135m-instruct-{head.method}"], capsys)
        assert f"{head.method}.safetensors: sha256 is " in said


def test_help_tells_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "materialise" in capsys.readouterr().out
    assert main([]) == 2
