"""The files in jobs/schedules/, checked by the tools that read them; the scripts really run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from pipeline.folders import CONF

SCHEDULES = Path(__file__).parents[2] / "jobs" / "schedules"
SCRIPTS = ("install-systemd", "run-nightly", "ray-submit")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter's stand-in that writes down what it was asked and ends as told."""
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        'case "$2" in jobs.nightly) sleep "${SLEEP:-0}"; exit "${CODE:-0}";; esac\n'
    )
    program.chmod(0o755)
    return program


def run(
    script: str, *arguments: str, python: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCHEDULES / script, *arguments],
        env={**os.environ, "PYTHON": str(python), "TMPDIR": str(python.parent), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def asked(python: Path) -> list[str]:
    return (python.parent / "asked").read_text().splitlines()


def test_the_scripts_pass_shellcheck() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [shellcheck, *(SCHEDULES / name for name in SCRIPTS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_installed_units_are_what_systemd_takes(tmp_path: Path) -> None:
    units = tmp_path / "units"
    done = run("install-systemd", "nightly", python=Path(sys.executable), UNITS=str(units))
    assert done.returncode == 0, done.stderr
    assert verified(units) == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_units_for_a_suite_in_a_folder_of_ones_own_are_what_systemd_takes(tmp_path: Path) -> None:
    units, folder = tmp_path / "units", tmp_path / "my conf"
    folder.mkdir()
    where = {"UNITS": str(units), "CONFIG_DIR": str(folder)}
    done = run("install-systemd", "nightly", python=Path(sys.executable), **where)
    assert done.returncode == 0, done.stderr
    assert verified(units) == []
    for over in units.glob("*.d/config-dir.conf"):
        over.write_text(over.read_text().replace(sys.executable, "/not/there"))
    assert len(verified(units)) == 2, "systemd does not read what was laid over the units"


def verified(units: Path) -> list[str]:
    """What systemd says against the units of the suite `nightly`."""
    for unit in units.glob("*@.*"):
        unit.rename(unit.with_name(unit.name.replace("@.", "@nightly.")))
    files = [str(path) for path in sorted(units.iterdir()) if path.is_file()]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return [line for line in checked.stderr.splitlines() if "spec-decode" in line]


@pytest.mark.parametrize("unit", ["nightly", "nightly-failed"])
def test_a_folder_of_ones_own_stands_in_the_command_of_the_night_and_of_the_alarm(
    unit: str, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    where = {"UNITS": str(tmp_path), "CONFIG_DIR": str(tmp_path / "conf")}
    over = tmp_path / f"spec-decode-{unit}@mine.service.d" / "config-dir.conf"
    run("install-systemd", "mine", python=Path(sys.executable), **where)
    *_, reset, command = over.read_text().splitlines()
    assert reset == "ExecStart="
    assert command.startswith(f"ExecStart={sys.executable} -m jobs.")
    assert command.endswith(f' suite=%i "--config-dir={tmp_path}/conf"')
    run("install-systemd", "other", python=Path(sys.executable), UNITS=str(tmp_path))
    assert over.is_file(), "another suite is not this one's matter"
    run("install-systemd", "mine", python=Path(sys.executable), UNITS=str(tmp_path))
    assert not over.exists()


def test_a_folder_that_is_not_there_is_found_at_installation(tmp_path: Path) -> None:
    where = {"UNITS": str(tmp_path / "u"), "CONFIG_DIR": str(tmp_path / "none")}
    done = run("install-systemd", "nightly", python=Path(sys.executable), **where)
    assert done.returncode == 2
    assert done.stderr == f"there is no folder '{tmp_path}/none', which CONFIG_DIR names\n"
    assert not (tmp_path / "u").exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_timer_comes_every_night_and_makes_up_for_a_missed_one() -> None:
    timer = (SCHEDULES / "systemd" / "spec-decode-nightly@.timer").read_text()
    settings = dict(line.split("=", 1) for line in timer.splitlines() if "=" in line)
    assert settings["Persistent"] == "true"
    done = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=2", settings["OnCalendar"]],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.count("02:00:00") >= 2


def test_a_unit_runs_only_modules_that_are_there() -> None:
    texts = [unit.read_text() for unit in (SCHEDULES / "systemd").glob("*.service")]
    modules = {word for text in texts for word in text.split() if word.startswith("jobs.")}
    assert modules == {"jobs.nightly", "jobs.alarm"}
    assert all((SCHEDULES.parent / f"{m.partition('.')[2]}.py").is_file() for m in modules)


def test_no_unit_keeps_a_mark_once_it_is_installed(tmp_path: Path) -> None:
    run("install-systemd", "nightly", python=Path(sys.executable), UNITS=str(tmp_path))
    texts = [path.read_text() for path in tmp_path.glob("spec-decode-*")]
    assert len(texts) == 3
    assert not any("@CHECKOUT@" in text or "@PYTHON@" in text for text in texts)
    assert any(f"ExecStart={sys.executable} -m jobs.nightly suite=%i" in text for text in texts)


def test_an_interpreter_that_is_not_there_is_found_at_installation(tmp_path: Path) -> None:
    done = run("install-systemd", "nightly", python=tmp_path / "none", UNITS=str(tmp_path / "u"))
    assert done.returncode == 2
    assert "set PYTHON" in done.stderr
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("code", [0, 3, 4, 5, 130, 143])
def test_a_night_that_spoke_for_itself_raises_no_alarm(code: int, python: Path) -> None:
    done = run("run-nightly", "demo", "measure=smoke", python=python, CODE=str(code))
    assert done.returncode == code
    assert asked(python) == ["-m jobs.nightly suite=demo measure=smoke"]


@pytest.mark.parametrize("code", [1, 2, 137])
def test_a_night_that_could_not_speak_has_an_alarm_raised(code: int, python: Path) -> None:
    done = run("run-nightly", "demo", python=python, CODE=str(code))
    assert done.returncode == code
    assert asked(python)[1:] == [
        f"-m jobs.alarm suite=demo what=the command ended with exit code {code}"
    ]


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--config-dir", "/my conf", "measure=smoke"], ["--config-dir=/my conf"]),
        (["--config-dir=/a", "ray.address=auto", "-cd", "/b"], ["--config-dir=/a", "-cd=/b"]),
        (["--confg-dir", "/a"], []),
        (["k=1", "--config-dir"], []),
    ],
)
def test_the_alarm_looks_for_the_suite_where_the_night_did(
    given: list[str], passed_on: list[str], python: Path
) -> None:
    done = run("run-nightly", "demo", *given, python=python, CODE="1")
    assert done.returncode == 1, done.stderr
    night, alarm = asked(python)
    assert night == " ".join(["-m jobs.nightly suite=demo", *given])
    what = "what=the command ended with exit code 1"
    assert alarm == " ".join(["-m jobs.alarm suite=demo", what, *passed_on])


def test_a_second_night_does_not_begin_beside_the_first(python: Path) -> None:
    environment = {**os.environ, "PYTHON": str(python), "TMPDIR": str(python.parent), "SLEEP": "5"}
    first = subprocess.Popen([SCHEDULES / "run-nightly", "demo"], env=environment)
    deadline = time.monotonic() + 30
    while not (python.parent / "asked").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    second = run("run-nightly", "demo", python=python)
    assert first.wait(timeout=60) == 0
    assert second.returncode == 75
    assert "still running" in second.stderr
    assert len(asked(python)) == 1


def test_the_cron_line_runs_a_script_that_is_there() -> None:
    (line,) = [t for t in (SCHEDULES / "crontab").read_text().splitlines() if t[0] != "#"]
    *when, command, suite, _, log, _ = line.split()
    assert when == ["0", "2", "*", "*", "*"]
    assert (SCHEDULES.parents[1] / command.removeprefix("CHECKOUT/")).is_file()
    assert (CONF / "suite" / f"{suite}.yaml").is_file()
    assert log.startswith("CHECKOUT/")


def test_the_cron_job_of_kubernetes_never_runs_two_nights_at_once() -> None:
    text = (SCHEDULES / "kuberay" / "nightly-cronjob.yaml").read_text()
    (job,) = yaml.safe_load_all(text)
    assert (job["kind"], job["spec"]["concurrencyPolicy"]) == ("CronJob", "Forbid")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["ray", "job", "submit", "--"]
    assert pod["restartPolicy"] == "Never"


def test_the_workflow_of_github_runs_on_ones_own_machine_and_keeps_the_verdict() -> None:
    workflow = yaml.safe_load((SCHEDULES / "github" / "nightly.yml").read_text())
    job = workflow["jobs"]["nightly"]
    assert job["runs-on"] == ["self-hosted", "spec-decode"]
    assert workflow["concurrency"]["cancel-in-progress"] is False
    last = job["steps"][-1]
    assert last["if"] == "always()"
    assert last["with"]["path"] == "outputs/nights/*/last/"
