"""The script that installs a suite's units: what systemd takes of them, what it refuses."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.checkouts import HERE, SCHEDULES, fresh_checkout, run, stand_in

INSTALL = SCHEDULES / "install-systemd"
ME = pwd.getpwuid(os.getuid()).pw_name
needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd is not installed"
)


def install(
    units: Path, *arguments: str, script: Path = INSTALL, **environment: str
) -> subprocess.CompletedProcess[str]:
    given = {"PYTHON": sys.executable, "UNITS": str(units), "RUN_AS": ME, **environment}
    return run(script, *arguments, **given)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    return tmp_path / "units"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of one's own, with the suite `mine`."""
    folder = tmp_path / "my conf"
    (folder / "suite").mkdir(parents=True)
    (folder / "suite" / "mine.yaml").write_text(
        "{name: mine, command: [+sweep=smoke], budget_hours: 1, tell: [{kind: console}]}\n"
    )
    return folder


def command(units: Path, unit: str, key: str = "ExecStart") -> str:
    (found,) = re.findall(
        rf"^{key}=((?:.*\\\n)*.*)$", (units / f"spec-decode-{unit}").read_text(), re.M
    )
    return str(found)


def verified(units: Path) -> list[str]:
    """What systemd says against the units."""
    files = sorted(str(path) for path in units.iterdir())
    checked = run("systemd-analyze", "verify", "--man=no", *files)
    return [line for line in checked.stderr.splitlines() if "spec-decode" in line]


@needs_systemd
def test_the_installed_units_are_what_systemd_takes(units: Path) -> None:
    done = install(units, "nightly")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"the nights of nightly run as {ME}, in {HERE}\n"
    assert len(list(units.iterdir())) == 4
    assert verified(units) == []


@needs_systemd
def test_paths_with_spaces_are_what_systemd_takes(units: Path, mine: Path, tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "my checkout")
    python = stand_in(tmp_path / "my tools" / "python", f'exec {sys.executable} "$@"')
    script = checkout / "jobs" / "schedules" / "install-systemd"
    where = {"PYTHON": str(python), "CONFIG_DIR": str(mine)}
    done = install(units, "mine", script=script, **where)
    assert done.returncode == 0, done.stderr
    assert verified(units) == []
    python.unlink()
    assert len(verified(units)) == 2, "systemd does not take the path for the interpreter's"


@pytest.mark.parametrize("unit", ["nightly", "nightly-failed"])
def test_a_folder_of_ones_own_stands_in_the_command_of_the_night_and_of_the_alarm(
    unit: str, units: Path, mine: Path
) -> None:
    assert install(units, "mine", CONFIG_DIR=str(mine)).returncode == 0
    assert install(units, "nightly").returncode == 0
    start = f'"{sys.executable}" -m jobs.'
    own = command(units, f"{unit}@mine.service")
    assert own.startswith(start), own
    assert own.endswith(f' suite=%i "--config-dir={mine}"')
    assert command(units, f"{unit}@nightly.service").endswith(" suite=%i"), "another's matter"


def test_no_unit_keeps_a_mark_once_it_is_installed(units: Path) -> None:
    install(units, "nightly")
    texts = {path.name: path.read_text() for path in units.iterdir()}
    assert not [name for name, text in texts.items() if re.search("@[A-Z]+@", text)]
    for name in ("nightly", "nightly-failed"):
        assert f"\nUser={ME}\n" in texts[f"spec-decode-{name}@nightly.service"]
        assert f"\nWorkingDirectory={HERE}\n" in texts[f"spec-decode-{name}@nightly.service"]


def test_a_unit_runs_only_modules_that_are_there() -> None:
    texts = [unit.read_text() for unit in (SCHEDULES / "systemd").glob("*.service")]
    modules = {word for text in texts for word in text.split() if word.startswith("jobs.")}
    assert modules == {"jobs.nightly", "jobs.alarm"}
    assert all((SCHEDULES.parent / f"{m.partition('.')[2]}.py").is_file() for m in modules)


def test_nights_are_run_by_the_owner_of_the_checkout_unless_another_is_named(
    units: Path, tmp_path: Path
) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    script = checkout / "jobs" / "schedules" / "install-systemd"
    assert install(units, "nightly", script=script, RUN_AS="").returncode == 0
    night = (units / "spec-decode-nightly@nightly.service").read_text()
    assert f"\nUser={checkout.owner()}\n" in night


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a checkout to somebody else")
def test_a_user_who_could_not_write_down_a_night_is_refused(units: Path, tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    script = checkout / "jobs" / "schedules" / "install-systemd"
    other = pwd.getpwuid(1).pw_name
    for given in (other, ""):
        done = install(units, "nightly", script=script, RUN_AS=given, PYTHON="/bin/sh")
        assert done.returncode == 2
        assert done.stderr.startswith(f"install-systemd: {other} cannot write in {checkout}; ")
        # To whom it belongs now; the folder above is closed to them.
        os.chown(checkout, 1, 1)
    assert not units.exists()


@pytest.mark.parametrize("words", [(), ("-x",), ("nightly", "nightly_cpu"), ("--remove",)])
def test_what_is_no_call_is_answered_with_the_usage(words: tuple[str, ...], units: Path) -> None:
    done = install(units, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert not units.exists()


@pytest.mark.parametrize(
    ("suite", "environment", "sentence"),
    [
        ("nightyl", {}, "there is no suite called 'nightyl', did you mean"),
        ("a b/c", {}, "'a b/c' is no name of a suite"),
        ("a b", {}, "the suite cannot be read: suite: the value is 'a b'"),
        ("mine", {}, "there is no suite called 'mine'"),
        ("nightly", {"CONFIG_DIR": "/not/there"}, "there is no folder '/not/there', which CONF"),
        ("nightly", {"PYTHON": "/not/there"}, "or set PYTHON"),
        ("nightly", {"PYTHON": "python3"}, "PYTHON is 'python3': it has to begin with /"),
        ("nightly", {"PYTHON": "/100%/python"}, "a unit takes no path with"),
        ("nightly", {"RUN_AS": "nobody-at-all"}, "there is no user 'nobody-at-all'; set RUN_AS"),
        ("nightly", {"PYTHON": shutil.which("false") or ""}, "the suite cannot be read"),
    ],
)
def test_what_would_not_run_is_refused_before_anything_is_written(
    suite: str, environment: dict[str, str], sentence: str, units: Path
) -> None:
    done = install(units, suite, **environment)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not units.exists()


def test_removing_takes_away_the_units_of_that_suite_alone(units: Path) -> None:
    install(units, "nightly")
    before = set(units.iterdir())
    install(units, "nightly_cpu")
    assert len(list(units.iterdir())) == 8
    assert install(units, "--remove", "nightly_cpu").returncode == 0
    assert set(units.iterdir()) == before
    again = install(units, "--remove", "nightly_cpu")
    assert again.returncode == 2
    assert again.stderr == f"install-systemd: no nights of 'nightly_cpu' are installed in {units}\n"


def test_installing_starts_the_timer_and_removing_stops_it(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    script = checkout / "jobs" / "schedules" / "install-systemd"
    text = script.read_text().replace("/etc/systemd", f"{tmp_path}/etc")
    script.write_text(text.replace("/run/systemd/system", str(tmp_path)))
    assert "/etc/systemd" not in script.read_text(), "this test would write to the machine's own"
    asked = tmp_path / "asked"
    says = f'echo "$@" >> {asked}; [ "$1" != is-active ] || {{ echo "$STATE"; exit 3; }}'
    stand_in(tmp_path / "bin" / "systemctl", says)
    environment = {"UNITS": "", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def ask(*words: str, **more: str) -> tuple[int, list[str]]:
        asked.write_text("")
        return install(
            tmp_path, *words, script=script, **environment, **more
        ).returncode, asked.read_text().splitlines()

    timer, resume = (
        "spec-decode-nightly@nightly.timer",
        "spec-decode-nightly-resume@nightly.service",
    )
    assert ask("nightly") == (
        0,
        [
            "daemon-reload",
            f"enable {resume}",
            f"enable --now {timer}",
            f"list-timers --no-pager {timer}",
        ],
    )
    night = "is-active spec-decode-nightly@nightly.service"
    assert ask("--remove", "nightly", STATE="activating") == (2, [night])
    assert ask("--remove", "nightly", STATE="inactive") == (
        0,
        [night, f"disable --now {timer} {resume}", "daemon-reload"],
    )


@pytest.mark.parametrize(
    ("state", "left"), [("running", set()), ("degraded", set()), ("stopping", {"running", "again"})]
)
def test_only_a_night_that_the_machine_goes_down_under_leaves_its_mark(
    state: str, left: set[str], units: Path, tmp_path: Path
) -> None:
    install(units, "nightly")
    states = tmp_path / "spec-decode" / "nightly"
    states.mkdir(parents=True)
    as_systemd(command(units, "nightly@nightly.service", "ExecStartPre"), tmp_path)
    (states / "again").touch()
    stop = command(units, "nightly@nightly.service", "ExecStopPost")
    as_systemd(stop, tmp_path, systemctl=f"echo {state}")
    assert {path.name for path in states.iterdir()} == left


def test_a_cut_night_is_started_again_at_boot_and_told_where_it_is_cut_again(
    units: Path, tmp_path: Path
) -> None:
    install(units, "nightly")
    (tmp_path / "spec-decode" / "nightly").mkdir(parents=True)
    boot = command(units, "nightly-resume@nightly.service")
    as_systemd(boot, tmp_path, systemctl=f'echo "$@" >> {tmp_path}/asked')
    as_systemd(boot, tmp_path, systemctl=f'echo "$@" >> {tmp_path}/asked')
    assert (tmp_path / "asked").read_text().splitlines() == [
        "start --no-block spec-decode-nightly@nightly.service",
        "start --no-block spec-decode-nightly-failed@nightly.service",
    ]
    assert command(units, "nightly-resume@nightly.service", "ConditionPathExists") == (
        command(units, "nightly@nightly.service", "ExecStartPre").removeprefix("touch ")
    )


def as_systemd(line: str, state: Path, systemctl: str = "exit 1") -> None:
    """Run a unit's command as systemd would, with another `systemctl`."""
    stand_in(state / "bin" / "systemctl", systemctl)
    text = line.replace("\\\n", " ").replace("$$", "$").replace("%i", "nightly")
    words = shlex.split(text.replace("%S", str(state)))
    done = run(*words, PATH=f"{state}/bin:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr


@needs_systemd
def test_the_timer_comes_every_night_and_makes_up_for_a_missed_one() -> None:
    timer = (SCHEDULES / "systemd" / "spec-decode-nightly@.timer").read_text()
    settings = dict(line.split("=", 1) for line in timer.splitlines() if "=" in line)
    assert settings["Persistent"] == "true"
    done = run("systemd-analyze", "calendar", "--iterations=2", settings["OnCalendar"])
    assert done.returncode == 0
    assert done.stdout.count("02:00:00") >= 2
