"""The command line: every mistake is one sentence with exit code 2, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.checkpoints.__main__ import main
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from tests.checkpoints.folders import trap

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["registr-mtp", "."], "did you mean 'register-mtp'?"),
        (["register-mtp"], "one folder is needed"),
        (["register-mtp", "a", "b"], "one folder is needed"),
        (["register-mtp", "nowhere"], "there is no such folder"),
        (["register-mtp", "nowhere", "--chek"], "did you mean '--check'?"),
        (["register-mtp", "nowhere", "--check", "--undo"], "do not go together"),
        (["register-mtp", "nowhere", "sorce=x"], "did you mean 'source'?"),
        (["register-mtp", "nowhere", "wins=me"], "allowed: extra or index"),
        (["register-mtp", "nowhere", "prefix="], "exactly one value"),
        (["register-mtp", "~nobody-of-this-name/x"], "not a folder"),
        (["build-hybrid", "int4=a", "fp8=b"], "out= are needed"),
        (["build-hybrid", "int4=a", "fp8=b", "out=c"], "there is no such folder"),
    ],
)
def test_mistakes(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(arguments) == EXIT_BAD_CONFIG

    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extra", ["extra=nothing.safetensors", "extra=../model.safetensors"])
def test_a_file_that_is_not_in_the_folder(
    tmp_path: Path, extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)

    assert main(["register-mtp", str(folder), extra]) == EXIT_BAD_CONFIG
    assert "there is no file" in capsys.readouterr().err


def test_an_empty_folder_is_no_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["register-mtp", str(tmp_path)]) == EXIT_BAD_CONFIG
    assert "neither model.safetensors.index.json nor" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == EXIT_OK
    assert "build-hybrid int4=FOLDER" in capsys.readouterr().out
    assert main([]) == EXIT_BAD_CONFIG


def test_as_a_process_without_a_tensor_library(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 2)
    script = (
        "import sys; from pipeline.checkpoints.__main__ import main; code = main(sys.argv[1:]);"
        "print([m for m in ('torch', 'safetensors', 'numpy', 'transformers') if m in sys.modules]);"
        "raise SystemExit(code)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, "register-mtp", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == EXIT_OK
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr == ""
