"""Progress on standard error: a bar in a terminal, nothing in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 60.0
Tell = Callable[[str, float], None]
"""Told what is being done and the finished share (0 to 1)."""
Step = Callable[[float], None]
"""Told the finished share (0 to 1) as the work goes on."""


@contextmanager
def bar(title: str) -> Iterator[Step]:
    """A bar that the yielded function moves; silent where standard error is no terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)


@contextmanager
def timed_bar(title: str, seconds: float) -> Iterator[Tell]:
    """A bar with what is being done and the time left; a line a minute without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_writer(console, seconds)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)


def _line_writer(console: Console, seconds: float) -> Tell:
    last = [float("-inf")]

    def tell(what: str, share: float) -> None:
        now = time.monotonic()
        if now - last[0] >= LINE_EVERY_S:
            last[0] = now
            left = (1 - share) * seconds / 60
            console.print(f"{share:4.0%} {what}, about {left:.1f} min left", highlight=False)

    return tell
