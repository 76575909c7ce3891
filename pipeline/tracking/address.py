"""Where MLflow's store is: the default one, and what an address may be. Imports no MLflow."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import InputError, nearest

_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SCHEMES = ("sqlite", *_PORTS)
_SQLITE = "sqlite:///"
_CONNECT_S = 5.0


class StoreUriError(InputError):
    """A tracking address of a kind that is not a store."""

    def __init__(self, uri: str) -> None:
        scheme = uri.partition(":")[0]
        super().__init__(
            f"'{uri}' is not a store that runs can be kept in{nearest(scheme, _SCHEMES)}",
            where="tracking.uri",
            allowed="sqlite:///FILE, http(s)://HOST:PORT, or a postgresql, mysql or mssql address",
            remedy="special characters of a user or password are written as %XX, / as %2F",
        )


def default_root() -> Path:
    """The folder of the default store: `mlruns` in the working directory."""
    return Path.cwd() / "mlruns"


def store_uri(uri: str | None, root: Path | None = None) -> str:
    """The address given, or that of the SQLite file under `root` (`./mlruns` by default).

    Raises:
        StoreUriError: the address is of no kind that MLflow keeps runs in.
    """
    if uri is None:
        return f"{_SQLITE}{(root or default_root()).absolute() / 'mlflow.db'}"
    if uri.startswith(_SQLITE) or (_scheme(uri) in _SCHEMES and _has_place(uri)):
        return uri
    raise StoreUriError(uri)


def sqlite_file(uri: str) -> Path | None:
    """The file behind a SQLite address, None for every other kind."""
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


def is_server(uri: str) -> bool:
    """Whether an MLflow server stands at the address, rather than a database."""
    return _scheme(uri) in ("http", "https")


def probe(uri: str) -> None:
    """Find out within seconds whether a store can be there, where MLflow would retry for minutes.

    Raises:
        OSError: nothing listens at the address, or the folder of the file cannot be made.
    """
    file = sqlite_file(uri)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
        return
    parts = urlsplit(uri)
    if parts.hostname is not None:
        port = parts.port or _PORTS[_scheme(uri)]
        socket.create_connection((parts.hostname, port), timeout=_CONNECT_S).close()


def _has_place(uri: str) -> bool:
    """Whether an address has a host, and a port that is one."""
    with suppress(ValueError):
        parts = urlsplit(uri)
        # In the path of a database an @ is what a password with a / leaves.
        whole = is_server(uri) or "@" not in parts.path
        return whole and bool(parts.hostname) and (parts.port or 1) > 0
    return False


def _scheme(uri: str) -> str:
    # Without the driver of `postgresql+psycopg2`.
    return uri.partition(":")[0].partition("+")[0].lower()
