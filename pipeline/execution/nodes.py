"""What a node is called in records: its own name, or the one the scheduler gave its worker."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Mapping

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


def names(own: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """What the nodes that are alive are called; of several of one name each has its id added.

    A node keeps its name while it lives, since under another one it would be taken for lost.

    Args:
        own: by the node's id, what it calls itself.
        known: by the node's id, what it was called so far.
    """
    shared = Counter(own.values())
    return {
        node: known.get(node) or (name if shared[name] == 1 else f"{name}-{node[:6]}")
        for node, name in own.items()
    }
