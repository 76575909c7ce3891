from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.host.reading import HostReading
from pipeline.host.reference import reference_file
from pipeline.host.throttling import Reference
from pipeline.preflight.__main__ import main
from pipeline.preflight.report import PreflightReport
from tests.preflight.hosts import path_of

ROOT = Path(__file__).resolve().parents[2]


def test_this_machine_without_a_gpu_can_measure(tmp_path: Path) -> None:
    record = tmp_path / "host.json"
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline.preflight", "platform=cpu", f"record={record}"],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "nothing keeps an engine from being started" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert HostReading.model_validate_json(record.read_bytes()).memory.total > 2**30


def test_a_spark_without_its_checkpoint_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert main(["platform=dgx_spark", f"replay={path_of('gb10')}"]) == 5
    shown = capsys.readouterr().out
    assert "STOP" in shown
    assert "qwen35-122b-hybrid-int4fp8" in shown
    assert "an engine should not be started" in shown


def test_what_matters_most_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["platform=dgx_spark", f"replay={path_of('gb10_power_capped')}"]) == 5
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    marks = [row for row in rows if row in ("STOP", "WARN", "ok")]
    assert marks == sorted(marks, key=["STOP", "WARN", "ok"].index)
    assert {"STOP", "ok"} <= set(marks)


def test_the_nodes_reference_is_told_with_where_it_is_kept(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = Reference(
        gpu="NVIDIA GB10",
        driver="580.173.02",
        sm_clock_mhz=2411,
        power_w=36.0,
        measured_at="2026-11-29T12:00:00+00:00",
    )
    reference_file().parent.mkdir(parents=True)
    reference_file().write_text(known.model_dump_json())
    main(["platform=dgx_spark", f"replay={path_of('gb10_power_capped')}"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "this node has sustained 2411 MHz, in its highest performance state" in shown
    assert "delete it to begin anew" in shown


def test_as_json_it_holds_the_findings_and_what_they_rest_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["platform=dgx_spark", "model=qwen3-30b-a3b", "json=true"]
    assert main([*asked, f"replay={path_of('gb10_orphan')}"]) == 5
    report = PreflightReport.model_validate_json(capsys.readouterr().out)
    assert report.platform == "dgx_spark"
    assert all(name.startswith("qwen3-30b-a3b--") for name in report.engines)
    assert report.host.node == "spark-1"
    assert "gpu_processes" in [f.check for f in report.findings if f.severity == "stop"]
    assert len(report.findings) == len(set(report.findings))


def test_warnings_alone_do_not_stop(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    reading = json.loads(path_of("no_gpu").read_text())
    reading["disks"][0]["free_bytes"] = 3 * 2**30
    (tmp_path / "host.json").write_text(json.dumps(reading))
    assert main(["platform=cpu", f"replay={tmp_path / 'host.json'}"]) == 0
    shown = capsys.readouterr().out
    assert "WARN" in shown
    assert "warnings: 1" in shown


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["platfrom=cpu"], "did you mean 'platform'?"),
        (["cpu"], "'cpu' is not of the form key=value"),
        (["--json"], "'--json' is not of the form key=value"),
        (["json=yes"], "allowed: true or false"),
        (["json=true", "json=true"], "needs exactly one value"),
        (["platform="], "needs exactly one value"),
        (["platform=spark"], "dgx_spark"),
        (["platform=cpu", "model=qwen"], "there is no model called 'qwen'"),
        (["platform=cpu", "sweep=spec_method"], "did you mean 'spec_methods'?"),
        (["platform=cpu", "replay=/no/such/file"], "/no/such/file: it cannot be read"),
        (["platform=cpu", f"replay={Path(__file__).parent}"], "it cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema_version": 2}', "\xff\xfe"])
def test_a_file_that_is_no_reading_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host.json").write_text(text, encoding="latin-1")
    assert main(["platform=cpu", f"replay={tmp_path / 'host.json'}"]) == 2
    assert "record it again" in capsys.readouterr().err


def test_a_reading_that_cannot_be_kept_is_the_machines_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["platform=cpu", f"record={tmp_path}"]) == 5
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_says_how_to_call_it(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert "python -m pipeline.preflight" in capsys.readouterr().out
