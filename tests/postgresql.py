"""A PostgreSQL server of a test's own, from the system's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

_BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
USER = "postgres"


def why_not() -> str:
    """Why there is no server here, or nothing."""
    if not _BIN:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() != 0:
        return "starting PostgreSQL as its own user needs root"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"there is no user {USER}"
    return ""


class PostgreSql:
    """A server on loopback; it keeps its data over a restart."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
        shutil.chown(self.folder, USER)
        self.port = _free_port()
        self._as_user("initdb", "-D", "data", "-A", "trust", "-N")
        self.start()
        self._as_user("createdb", "-h", "127.0.0.1", "-p", str(self.port), "mlflow")

    @property
    def uri(self) -> str:
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/mlflow"

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._as_user(
            "pg_ctl", "-D", "data", "-w", "-t", "120", "-l", "log", "-o", options, "start"
        )

    def stop(self) -> None:
        """As a crash would: clients are cut off."""
        self._as_user("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _as_user(self, program: str, *arguments: str) -> None:
        command = ["runuser", "-u", USER, "--", str(_BIN[-1] / program), *arguments]
        subprocess.run(
            command,
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=180,
        )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
