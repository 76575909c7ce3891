"""What a node is called in records: its own name, or the one the scheduler gave its worker."""

from __future__ import annotations

import os
import re
import socket

_GIVEN = "SPEC_DECODE_PIPELINE_NODE"


def node_name() -> str:
    """This node's name, safe as a part of a file name."""
    return safe(os.environ.get(_GIVEN) or socket.gethostname())


def call_this_node(name: str) -> None:
    """Give this process, and what it starts, the name that the scheduler knows the node by."""
    os.environ[_GIVEN] = name


def safe(name: str) -> str:
    """A name that can stand in a file name."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)
