"""The files in jobs/schedules/ for all but systemd; the scripts really run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from pipeline.errors import InfrastructureError
from pipeline.folders import CONF
from pipeline.locks import held
from tests.jobs import checkouts
from tests.jobs.checkouts import SCHEDULES, fresh_checkout, stand_in

SCRIPTS = ("install-systemd", "run-nightly", "ray-submit")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter's stand-in that writes down what it was asked and ends as told."""
    return stand_in(
        tmp_path / "python",
        f'echo "$@" >> {tmp_path}/asked\n[ "$2" != jobs.nightly ] || exit "${{CODE:-0}}"',
    )


def run(
    script: str, *arguments: str, python: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return checkouts.run(SCHEDULES / script, *arguments, PYTHON=str(python), **environment)


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


def test_a_second_night_ends_with_5_and_says_who_measures(tmp_path: Path) -> None:
    """By the real interpreter: the lock is the night's own."""
    checkout = fresh_checkout(tmp_path / "checkout")
    suites = tmp_path / "conf" / "suite"
    suites.mkdir(parents=True)
    (suites / "demo.yaml").write_text(
        "{name: demo, command: [+sweep=smoke], budget_hours: 1, tell: [{kind: console}]}"
    )
    nights = checkout / "outputs" / "nights" / "demo"
    nights.mkdir(parents=True)
    with held(nights / ".lock", "night of demo", 0.0, InfrastructureError):
        second = checkouts.run(
            checkout / "jobs" / "schedules" / "run-nightly",
            *("demo", "--config-dir", str(tmp_path / "conf")),
            PYTHON=sys.executable,
        )
    assert second.returncode == 5, second.stderr
    assert "a night is running already (night of demo, process " in second.stderr
    assert not list(nights.glob("*T*"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_how_it_is_called(script: str, python: Path) -> None:
    asked_for = run(script, "--help", python=python, CHECKOUT="")
    assert (asked_for.returncode, asked_for.stderr) == (0, "")
    assert asked_for.stdout.startswith("usage: ")
    assert f"jobs/schedules/{script} " in asked_for.stdout
    for words in ((), ("-x",)):
        wrong = run(script, *words, python=python, CHECKOUT="")
        assert (wrong.returncode, wrong.stderr) == (2, asked_for.stdout)
    assert not (python.parent / "asked").exists()


def schedule_by_cron(checkout: Path, tools: Path) -> str:
    """Do what the first line of the crontab's comment says; the line that cron gets."""
    file = checkout / "jobs" / "schedules" / "crontab"
    documented = file.read_text().splitlines()[0].partition("checkout: ")[2]
    stand_in(tools / "crontab", f'[ "$1" = -l ] && echo "no crontab" >&2 || cat > {tools}/tab')
    path = f"{tools}:/usr/bin:/bin"
    done = checkouts.run("/bin/sh", "-c", documented, cwd=checkout, PATH=path)
    assert done.returncode == 0, done.stderr
    (line,) = (tools / "tab").read_text().splitlines()
    return line


def as_cron(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a crontab's command in the environment that cron has."""
    *when, command = line.split(maxsplit=5)
    assert when == ["0", "2", "*", "*", "*"]
    assert "%" not in command, "cron would end the command there"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_cron_line_as_documented_runs_in_a_fresh_checkout(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "my checkout")
    stand_in(checkout / ".venv" / "bin" / "python", 'echo "$PWD: $@"; echo trouble >&2; exit 3')
    line = schedule_by_cron(checkout, tmp_path / "tools")
    for night in (1, 2):
        done = as_cron(line, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
        said = f"{checkout}: -m jobs.nightly suite=nightly\ntrouble\n"
        assert (checkout / "outputs" / "nightly.log").read_text() == said * night
    assert (CONF / "suite" / "nightly.yaml").is_file()


def test_a_log_that_cannot_be_written_keeps_no_night_from_running(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    stand_in(checkout / ".venv" / "bin" / "python", 'echo "$@"')
    line = schedule_by_cron(checkout, tmp_path / "tools")
    (checkout / "outputs").touch()
    done = as_cron(line, tmp_path)
    assert (done.returncode, done.stdout) == (0, "-m jobs.nightly suite=nightly\n")
    assert "outputs" in done.stderr, "what cron sends by mail says why there is no log"
    (checkout / "outputs").unlink()
    (checkout / "outputs" / "nightly.log").mkdir(parents=True)
    assert as_cron(line, tmp_path).stdout == "-m jobs.nightly suite=nightly\n"


@pytest.mark.parametrize("further", [(), ("measure=smoke", "--config-dir", "/it's my conf", "a$b")])
def test_what_follows_the_suite_reaches_the_night_on_the_cluster(
    further: Sequence[str], tmp_path: Path
) -> None:
    """The stand-in joins words and has a shell take them apart, as `ray job submit` does."""
    checkout = fresh_checkout(tmp_path / "the head's checkout")
    stand_in(checkout / "jobs" / "schedules" / "run-nightly", 'pwd; printf "%s\\n" "$@"')
    program = tmp_path / "bin" / "ray"
    stand_in(program, "").write_text(
        f"#!{sys.executable}\nimport shlex, subprocess, sys\n"
        "own, command = sys.argv[1:5], sys.argv[6:]\n"
        "assert own[:3] == ['job', 'submit', '--submission-id'] and sys.argv[5] == '--'\n"
        "sys.exit(subprocess.call(shlex.join(command), shell=True))\n"
    )
    path = f"{program.parent}:/usr/bin:/bin"
    done = checkouts.run(
        SCHEDULES / "ray-submit", "demo", *further, CHECKOUT=str(checkout), PATH=path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(checkout), "demo", "ray.address=auto", *further]


def test_a_cluster_without_a_checkout_is_named() -> None:
    done = checkouts.run(SCHEDULES / "ray-submit", "demo", CHECKOUT="")
    assert done.returncode == 2
    assert done.stderr == (
        "ray-submit: CHECKOUT is not set: the folder of the pipeline on the head node\n"
    )


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
