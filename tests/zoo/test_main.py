from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from pipeline.locks import held
from pipeline.zoo import corpus, drafters, evaluate, target
from pipeline.zoo.__main__ import main
from pipeline.zoo.acceptance import Counts
from pipeline.zoo.evaluate import Comparison


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


def refused(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 5) -> str:
    """What a verb says that is refused, on a machine that is not able to; one sentence."""
    capsys.readouterr()
    assert main(words) == code
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

    assert said.startswith(f"{tmp_path / 'work'}: 1 MB are free, 2180 MB are needed")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["lock"]


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


def test_a_shipped_head_that_was_tampered_with_is_not_evaluated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target_in_cache: None,
) -> None:
    content = bytearray(drafters.HEADS[1].path.read_bytes())
    content[-1] ^= 1
    (tmp_path / "eagle3.safetensors").write_bytes(content)
    monkeypatch.setattr(drafters, "WEIGHTS", tmp_path)

    said = refused(["evaluate", "engine=false", "methods=eagle3", f"heads={tmp_path}"], capsys)

    assert "eagle3.safetensors: sha256 is " in said


def test_a_file_without_the_head_of_its_name_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target_in_cache: None
) -> None:
    whole = drafters.HEADS[1].path.read_bytes()
    asked = ["evaluate", "engine=false", f"heads={tmp_path}"]
    for method, content in (("eagle3", whole[:-100]), ("eagle3", b"no weights"), ("mtp", whole)):
        (tmp_path / f"{method}.safetensors").write_bytes(content)
        said = refused([*asked, f"methods={method}"], capsys, 2)
        assert f"{method}.safetensors: no head can be read from it (" in said


def test_a_disagreement_is_told_and_ends_with_four(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target_in_cache: None
) -> None:
    one, other = {"code": Counts(1000, (500, 200))}, {"code": Counts(1000, (400, 200))}
    found = [Comparison("mtp", one, other), Comparison("eagle3", one, one)]
    for compared, code in ((found, 4), (found[1:], 0)):
        monkeypatch.setattr(evaluate, "evaluate", lambda *_, given=compared: iter(given))
        assert main(["evaluate"]) == code
    said = capsys.readouterr().out
    assert said.count("mtp: offline and engine differ by 0.100 at position 1, 0.03 is allowed") == 1


def test_a_second_build_in_a_folder_is_refused_and_so_is_another_seed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target_in_cache: None,
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "write_round", stopped)
    asked = ["build", "budget=0.05", f"work={tmp_path}"]
    with held(tmp_path / "lock", "zoo build", 0.0, AssertionError):
        said = refused(asked, capsys)
    assert said.startswith(f"{tmp_path}: another build works here (zoo build, process ")

    assert main(asked) == 130
    assert "interrupted; a build goes on with the same command\n" in capsys.readouterr().err
    said = refused([*asked, "seed=1"], capsys, 2)
    assert said.startswith(f"seed: the build in {tmp_path} began with seed 0")


def test_what_safetensors_raises_on_a_full_disk_is_one_sentence(
    tmp_path: Path,
) -> None:
    """Its error is none of the operating system's; a limit on file sizes acts as a full disk."""
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pipeline.zoo.__main__ import main\n"
        "import torch, safetensors.torch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "sys.exit(main(['materialise', 'smollm2-135m-instruct']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SPEC_DECODE_PIPELINE_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert "the system refused the file (" in done.stderr


def test_help_tells_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "materialise" in capsys.readouterr().out
    assert main([]) == 2
