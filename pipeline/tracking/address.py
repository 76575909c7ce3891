"""Where MLflow's store is: the default one, and what an address may be. Imports no MLflow."""

from __future__ import annotations

import socket
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
        scheme = urlsplit(uri).scheme
        super().__init__(
            f"'{shown(uri)}' is not a store that runs can be kept in{nearest(scheme, _SCHEMES)}",
            where="tracking.uri",
            allowed="sqlite:///FILE, http(s)://HOST:PORT, or a postgresql, mysql or mssql address",
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
    if _scheme(uri) not in _SCHEMES or not (uri.startswith(_SQLITE) or urlsplit(uri).hostname):
        raise StoreUriError(uri)
    return uri


def shown(uri: str) -> str:
    """An address without the user and password that it may carry."""
    place = urlsplit(uri).netloc
    return uri.replace(place, place.rpartition("@")[2], 1) if "@" in place else uri


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


def _scheme(uri: str) -> str:
    # Without the driver of `postgresql+psycopg2`.
    return urlsplit(uri).scheme.partition("+")[0]
