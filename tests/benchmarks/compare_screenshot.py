"""A picture of MLflow's comparison of a sweep's cells, to be looked at by a person.

    python tests/benchmarks/compare_screenshot.py SWEEP DATASET PNG [uri=...]

Needs Chromium and its driver on the PATH (Debian: apt-get install chromium chromium-driver). Run it
where `mlruns/` lies, or name the store. It drives the browser by the WebDriver protocol itself,
since nothing else here would need a client for it.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

HOST = "127.0.0.1"
CHROMIUM = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--window-size=1900,2300"),
)
DRAWN_S = 12.0


def main(argv: Sequence[str]) -> int:
    """Write the picture; the exit code is 2 where the arguments do not fit."""
    if len(argv) not in (3, 4):
        sys.stderr.write(__doc__ or "")
        return 2
    sweep, dataset, png = argv[:3]
    port = free_port()
    with ui(port, argv[3:]), browser() as page:
        # MLflow opens its assistant over a third of the page for who has not closed it before.
        page.show(f"http://{HOST}:{port}/")
        page.run("localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false')")
        page.run("localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')")
        page.run("location.reload()")
        page.show(f"http://{HOST}:{port}/#/compare-runs?{query(port, sweep, dataset)}")
        time.sleep(DRAWN_S)
        Path(png).write_bytes(page.picture())
    return 0


def query(port: int, sweep: str, dataset: str) -> str:
    """The comparison's address, less its host: the OK cells of one dataset."""
    api = "/api/2.0/mlflow"
    named = f"{api}/experiments/get-by-name?{urlencode({'experiment_name': sweep})}"
    experiment = call(port, "GET", named)["experiment"]["experiment_id"]
    wanted = f"tags.status = 'OK' and params.dataset = '{dataset}'"
    body = {
        "experiment_ids": [experiment],
        "filter": wanted,
        "order_by": ["params.method", "params.k"],
    }
    found = call(port, "POST", f"{api}/runs/search", body)["runs"]
    runs = [run["info"]["run_id"] for run in found]
    return urlencode({"runs": json.dumps(runs), "experiments": json.dumps([experiment])})


class Page:
    """One browser window, driven through its WebDriver."""

    def __init__(self, port: int) -> None:
        self._port = port
        options = {"args": [*CHROMIUM, f"--user-data-dir={tempfile.mkdtemp()}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = call(port, "POST", "/session", wanted)["value"]["sessionId"]

    def show(self, url: str) -> None:
        self._do("POST", "/url", {"url": url})

    def run(self, script: str) -> None:
        self._do("POST", "/execute/sync", {"script": script, "args": []})

    def picture(self) -> bytes:
        return base64.b64decode(self._do("GET", "/screenshot")["value"])

    def devtools(self, command: str, **params: object) -> Any:
        """A command of the browser's own protocol, for what WebDriver has no words for."""
        body = {"cmd": command, "params": params}
        return self._do("POST", "/goog/cdp/execute", body)["value"]

    def close(self) -> None:
        self._do("DELETE", "")

    def _do(self, method: str, path: str, body: object = None) -> Any:
        return call(self._port, method, f"/session/{self._session}{path}", body)


@contextmanager
def browser() -> Iterator[Page]:
    port = free_port()
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        await_listener(port)
        page = Page(port)
        try:
            yield page
        finally:
            page.close()
    finally:
        driver.terminate()
        driver.wait()


@contextmanager
def ui(port: int, more: Sequence[str]) -> Iterator[None]:
    command = [sys.executable, "-m", "pipeline.ui", f"port={port}", *more]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        await_listener(port)
        yield
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def await_listener(port: int, deadline_s: float = 120.0) -> None:
    end = time.monotonic() + deadline_s
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def call(port: int, method: str, path: str, body: object = None) -> Any:
    """One JSON request to this machine."""
    text = None if body is None else json.dumps(body)
    with closing(HTTPConnection(HOST, port, timeout=120)) as connection:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {content}")
    return content


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
