"""`python -m pipeline.ui [port=5000] [uri=...]`: MLflow's own pages on the store that sweeps fill.

Bound to loopback, since the pages have no password. The server is a process of its own session and
is ended with all its children when this command ends; MLflow itself is not imported here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import FrameType
from typing import IO

from pipeline.errors import EXIT_OK, InfrastructureError, InputError, PipelineError
from pipeline.passwords import without_password
from pipeline.tracking.address import default_root, is_server, sqlite_file, store_uri
from pipeline.verbs import helped, options

USAGE = "python -m pipeline.ui [port=5000] [uri=...]"
HOST = "127.0.0.1"
_PORT = 5000
_START_S = 120.0
_STOP_S = 10.0
_POLL_S = 0.5
_SQLITE_HEADER = b"SQLite format 3\0"
_ANSWER_S = 5.0
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # Background jobs serve parts of MLflow that are not used here, by more processes.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
_HINT = """\
To compare methods on one kind of prompt: open a sweep, search
  tags.status = 'OK' and params.dataset = 'echo'
expand the start, tick its cells and press Compare, or choose the chart view. speed/decode_tok_s is
the median over prompts, accept/joint the acceptance by draft position. Ctrl-C ends this.
"""


class NoStoreError(InputError):
    """There is nothing to show yet."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            "there is no MLflow store yet",
            where=str(file),
            remedy="run a sweep first, for example python -m pipeline +sweep=smoke",
        )


class PortTakenError(InputError):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            "another program listens there",
            where=f"{HOST}:{port}",
            remedy=f"choose another, for example port={port + 1 if port < 65535 else _PORT}",
        )


class ServerDiedError(InfrastructureError):
    """MLflow's server ended by itself or did not get ready."""

    def __init__(self, problem: str, log: IO[bytes]) -> None:
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
        last = f" (it said: {said[-1]})" if said else ""
        super().__init__(f"MLflow's server {problem}{last}")


def main(argv: Sequence[str]) -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code."""
    if helped(argv, USAGE):
        return EXIT_OK
    try:
        uri, port = _parse(argv)
        signal.signal(signal.SIGTERM, _terminated)
        with _server(uri, port) as process:
            sys.stdout.write(_greeting(uri, port))
            sys.stdout.flush()
            process.wait()
        return EXIT_OK
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_OK


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _parse(argv: Sequence[str]) -> tuple[str, int]:
    words, given = options(argv, ("port", "uri"), USAGE)
    if words:
        raise InputError(f"'{words[0]}' is not an option", allowed=USAGE)
    uri = store_uri(given.get("uri"))
    if is_server(uri):
        raise InputError("this is a server already", where=uri, remedy="open it in a browser")
    file = sqlite_file(uri)
    # MLflow would make an empty store there, and show nothing without saying why.
    if file is not None:
        _check_sqlite(file)
    return uri, _free_port(given.get("port", str(_PORT)))


def _check_sqlite(file: Path) -> None:
    if not file.is_file() or not file.stat().st_size:
        raise NoStoreError(file)
    with file.open("rb") as store:
        if store.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER:
            raise InputError("this is not a SQLite database", where=str(file))


def _free_port(text: str) -> int:
    port = int(text) if text.isdecimal() else 0
    if not 0 < port < 65536:
        raise InputError(f"'{text}' is not a port", where="port", allowed="1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error
    return port


@contextmanager
def _server(uri: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """MLflow's server, ready to answer; gone with its whole session afterwards."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            _command(uri, port),
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if not _gets_ready(process, port):
                raise ServerDiedError("did not get ready", log)
            yield process
            raise ServerDiedError(f"ended with code {process.returncode}", log)
        finally:
            _end(process)


def _command(uri: str, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri),
        *("--host", HOST, "--port", str(port)),
        # One reader needs no more, and each worker holds some 300 MiB.
        *("--workers", "1", "--uvicorn-opts", "--log-level warning"),
        # Else an experiment made in the pages would leave its files in the working directory.
        *("--artifacts-destination", str(default_root() / "artifacts")),
    ]


def _gets_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        if _answers(port):
            return True
        time.sleep(_POLL_S)
    return False


def _answers(port: int) -> bool:
    with suppress(OSError, HTTPException):
        return _get(port, "/health").strip() == b"OK"
    return False


def _greeting(uri: str, port: int) -> str:
    """Where the pages are. A sweep's own address, since MLflow starts with its pages for chats."""
    path = "/api/2.0/mlflow/experiments/search?max_results=20&order_by=last_update_time%20DESC"
    found = json.loads(_get(port, path)).get("experiments", [])
    sweeps = (
        f"  {e['name']}: http://{HOST}:{port}/#/experiments/{e['experiment_id']}/runs\n"
        for e in found
        if e["name"] != "Default"
    )
    return f"{without_password(uri)} is at http://{HOST}:{port}\n{''.join(sweeps)}{_HINT}"


def _get(port: int, path: str) -> bytes:
    # Without urllib, which would look for this machine behind a proxy named in the environment.
    with closing(HTTPConnection(HOST, port, timeout=_ANSWER_S)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session's processes: politely, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
