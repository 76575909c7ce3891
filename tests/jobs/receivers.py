"""Servers that stand for a service, and messages sent to whoever is named."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jobs.channels import tell
from jobs.suite import Channel, WebhookChannel
from tests.jobs.test_message import told

HOOK = WebhookChannel(kind="webhook", shape="plain", url_env="HOOK_URL", timeout_s=1.0)
SECRET = "a-secret-in-the-path"


def blank(body: Any) -> bool:
    """Whether a text that the services want has nothing in it."""
    if isinstance(body, dict):
        return any(blank(value) for value in body.values())
    if isinstance(body, list):
        return any(blank(value) for value in body)
    return isinstance(body, str) and not body.strip()


class Receiver:
    """A web server that answers as it is told to, the last answer for ever.

    Like the services it refuses a message with an empty text in it.
    """

    def __init__(self, *answers: int, header: tuple[str, str] | None = None) -> None:
        self.bodies: list[Any] = []
        self.answers = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.bodies.append(json.loads(self.rfile.read(length)))
                answers = outer.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(400 if blank(outer.bodies[-1]) else answer)
                if header is not None:
                    self.send_header(*header)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def sent(*to: Channel) -> tuple[tuple[str, ...], list[float]]:
    """What went wrong, and the pauses that were made."""
    pauses: list[float] = []
    return tell(to, *told("slower"), sleep=pauses.append), pauses


@contextmanager
def trickling(beginning: bytes) -> Iterator[int]:
    """The port of a server whose answer begins and never ends, a byte at a time."""
    stop = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(beginning)
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        stop.set()
        thread.join()
