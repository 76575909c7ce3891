"""Progress on standard error: a bar in a terminal, nothing in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

Step = Callable[[float], None]
"""Told the finished share (0 to 1) as the work goes on."""


@contextmanager
def bar(title: str) -> Iterator[Step]:
    """A bar that the yielded function moves; silent where standard error is no terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)
