"""The UI verb: a real MLflow server on a real store, and what it says where it cannot serve."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pipeline import ui
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE, EXIT_OK
from pipeline.outputs import Outputs
from pipeline.tracking import Tracker
from tests.factories import cell_record, start_record

ROOT = Path(__file__).parent.parent
# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory whose default store holds one sweep."""
    folder = tmp_path_factory.mktemp("project")
    outputs = Outputs(folder / "outputs", "demo")
    outputs.write_start(start_record())
    tracker = Tracker(outputs, None, root=folder / "mlruns")
    tracker.begin(start_record())
    tracker.cell(cell_record())
    assert tracker.problem is None
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ui.HOST, 0))
        return int(probe.getsockname()[1])


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def served(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.ui", f"port={port}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A test run in the background ignores Ctrl-C, and would have its children do so.
        preexec_fn=heed_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return str(answer.read().decode())


def family_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    root = psutil.Process(process.pid)
    return [root, *root.children(recursive=True)]


def test_the_pages_are_served_on_loopback_until_ctrl_c_which_leaves_no_process(
    project: Path,
) -> None:
    port = free_port()
    with served(project, port) as process:
        assert process.stdout is not None
        greeting = [process.stdout.readline() for _ in range(2)]
        assert f"http://127.0.0.1:{port}" in greeting[0]
        assert f"demo: http://127.0.0.1:{port}/#/experiments/" in greeting[1]
        assert "<title>MLflow</title>" in get(f"http://127.0.0.1:{port}/")
        family = family_of(process)
        listening = [c for p in family for c in p.net_connections("tcp") if c.status == "LISTEN"]
        assert {c.laddr for c in listening} == {("127.0.0.1", port)}

        process.send_signal(signal.SIGINT)

        assert process.wait(30) == EXIT_OK
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive


def test_sigterm_while_the_server_starts_leaves_no_process(project: Path) -> None:
    with served(project, free_port()) as process:
        while len(family_of(process)) < 2:
            time.sleep(0.05)
        family = family_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive


def test_a_server_that_ends_by_itself_is_reported_with_its_last_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = ui.main(["uri=mssql://127.0.0.1:1/runs", f"port={free_port()}"])

    assert code == EXIT_NO_INFRASTRUCTURE
    assert capfd.readouterr().err == (
        "MLflow's server did not get ready"
        " (it said: ModuleNotFoundError: No module named 'pyodbc')\n"
    )


def test_a_file_that_is_no_database_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes.db"
    notes.write_text("this is not a database, whatever its name says")
    assert ui.main([f"uri=sqlite:///{notes}"]) == EXIT_BAD_CONFIG
    assert capsys.readouterr().err == f"{notes}: this is not a SQLite database\n"


def test_no_store_yet_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ui.main([]) == EXIT_BAD_CONFIG
    assert capsys.readouterr().err == (
        f"{tmp_path}/mlruns/mlflow.db: there is no MLflow store yet; run a sweep first, for example"
        " python -m pipeline +sweep=smoke\n"
    )
    assert not (tmp_path / "mlruns").exists()


def test_a_taken_port_names_another(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    with socket.socket() as other:
        other.bind((ui.HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        assert ui.main([f"port={port}"]) == EXIT_BAD_CONFIG
    error = capsys.readouterr().err
    assert error.startswith(f"127.0.0.1:{port}: another program listens there; choose another")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prot=1"], "'prot' is not an option, did you mean 'port'?; allowed: " + ui.USAGE),
        (["port="], "'port' needs exactly one value; allowed: " + ui.USAGE),
        (["port=1", "port=2"], "'port' needs exactly one value; allowed: " + ui.USAGE),
        (["serve"], "'serve' is not an option; allowed: " + ui.USAGE),
        (["uri=ftp://box/x"], "tracking.uri: 'ftp://box/x' is not a store"),
        (["uri=./mlruns"], "tracking.uri: './mlruns' is not a store"),
        (["uri=http://box:5000"], "http://box:5000: this is a server already"),
        (["port=nine"], "port: 'nine' is not a port; allowed: 1 to 65535"),
        (["port=70000"], "port: '70000' is not a port; allowed: 1 to 65535"),
        (["port=-1"], "port: '-1' is not a port; allowed: 1 to 65535"),
    ],
)
def test_bad_input_ends_in_one_sentence(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(project)
    assert ui.main(arguments) == EXIT_BAD_CONFIG
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert error.count("\n") == 1


def test_the_server_is_given_time_to_start_and_no_more(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(ui, "_START_S", 0.1)
    began = time.monotonic()
    assert ui.main([f"port={free_port()}"]) == EXIT_NO_INFRASTRUCTURE
    assert time.monotonic() - began < 15
    assert "did not get ready" in capfd.readouterr().err
