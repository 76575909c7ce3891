"""The progress of a sweep while it runs: cells done, engine starts, time left.

On a terminal one line is redrawn once a second, which costs about a thousandth of a core; drawing
more often would be felt by a measurement on few cores. Elsewhere each event is a line of text.
"""

from __future__ import annotations

from types import TracebackType

from rich import progress as rich_progress
from rich.console import Console
from rich.text import Text

from pipeline.records import CellRecord
from pipeline.results import DECODE, duration, figure, outcome

_REDRAWS_PER_SECOND = 1
_BAR_WIDTH = 24


class Pace:
    """How far a sweep is, and from that how long it will still take."""

    def __init__(self, cells: int, engine_starts: int, expected_s: float | None) -> None:
        self.cells, self.engine_starts = cells, engine_starts
        self.done = self.not_ok = self.started = self.ready = 0
        self._expected_s = expected_s
        self._cell_s = self._start_s = 0.0
        self._nodes: set[str] = set()

    def starting(self, node: str) -> None:
        """An engine begins to start; what was lost with another makes more than were planned."""
        self.started += 1
        self.engine_starts = max(self.engine_starts, self.started)
        self._nodes.add(node)

    def is_ready(self, seconds: float) -> None:
        """An engine is ready, so many seconds after it began."""
        self.ready += 1
        self._start_s += seconds

    def cell(self, record: CellRecord) -> None:
        """A cell is recorded."""
        self.done += 1
        self.not_ok += record.status != "OK"
        self._cell_s += record.measured_s

    def left(self) -> str:
        """The time left, in words: the means so far, one engine at work on each node."""
        if self.done >= self.cells:
            return ""
        if not self.done or not self.ready:
            return f"about {duration(self._expected_s)} in all" if self._expected_s else ""
        cells = (self.cells - self.done) * self._cell_s / self.done
        starts = max(0, self.engine_starts - self.started) * self._start_s / self.ready
        return f"{duration((cells + starts) / max(1, len(self._nodes)))} left"


class Progress:
    """Shows a sweep's events as they come; a context manager.

    Args:
        console: where to draw; lines of plain text where it is not a terminal.
        cells: cells to be measured.
        engine_starts: engines to be started.
        expected_s: the planned time, shown until the first cell tells better.
    """

    def __init__(
        self, console: Console, cells: int, engine_starts: int, expected_s: float | None = None
    ) -> None:
        self._console = console
        self._pace = Pace(cells, engine_starts, expected_s)
        self._now = "starting Ray"
        self._doubts: set[tuple[str, str]] = set()
        self._bar = rich_progress.Progress(
            rich_progress.BarColumn(_BAR_WIDTH),
            _Line(self),
            console=console,
            refresh_per_second=_REDRAWS_PER_SECOND,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=cells)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def add(self, cells: int, engine_starts: int) -> None:
        """More is to be measured than was known at first."""
        self._pace.cells += cells
        self._pace.engine_starts += engine_starts
        self._bar.update(self._task, total=self._pace.cells)

    def starting(self, group: str, node: str) -> None:
        """An engine starts for a group of cells."""
        self._pace.starting(node)
        self._now = f"starting {group}"
        self._say(
            f"engine {self._pace.started}/{self._pace.engine_starts} starts: {group} on {node}"
        )

    def doubted(self, node: str, about: str, sentence: str) -> None:
        """What may spoil a node's figures, said once for each thing that it is about."""
        if (node, about) not in self._doubts:
            self._doubts.add((node, about))
            self._say(f"{node}: {sentence}", style="yellow")

    def ready(self, group: str, start_s: float) -> None:
        """The engine of a group is ready, so many seconds after it started."""
        self._pace.is_ready(start_s)
        self._now = group
        self._say(f"engine ready after {duration(start_s)}: {group}")

    def cell(self, record: CellRecord) -> None:
        """A cell is on disk, measured or failed."""
        pace = self._pace
        if record.role != "cell":
            self._say(f"{record.role} of {record.at.label}: {outcome(record)}")
            return
        pace.cell(record)
        self._bar.update(self._task, completed=pace.done)
        decode = record.metrics.get(DECODE)
        speed = f", {figure(decode.value)} tok/s" if decode else ""
        left = f", {pace.left()}" if pace.left() and not self._console.is_terminal else ""
        text = f"[{pace.done}/{pace.cells}] {record.at.label}: {outcome(record)}{speed}{left}"
        self._say(text, style=None if record.status == "OK" else "red")

    def lost(self, record: CellRecord) -> None:
        """A cell was lost to infrastructure and will be tried once more."""
        kind = record.failure.kind if record.failure is not None else "lost"
        self._say(f"{record.at.label}: {kind}, to be tried once more", style="yellow")

    def line(self) -> str:
        """The line that is redrawn: where the sweep is, and the time left."""
        pace = self._pace
        parts = [f"{pace.done}/{pace.cells} cells"]
        if pace.not_ok:
            parts.append(f"{pace.not_ok} not OK")
        parts += [f"{pace.started}/{pace.engine_starts} engines", self._now, pace.left()]
        return " · ".join(part for part in parts if part)

    def _say(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=True)


class _Line(rich_progress.ProgressColumn):
    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def render(self, task: rich_progress.Task) -> Text:
        return Text(self._progress.line(), overflow="ellipsis", no_wrap=True)
