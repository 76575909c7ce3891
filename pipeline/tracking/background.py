"""A tracker told in a thread of its own: a sweep waits for no store, dead or merely slow."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from pipeline.tracking import Tracker, TrackingError

Telling = Callable[[Tracker], object]


class Background:
    """Tells a tracker what it is given, in order, without letting anyone wait.

    One telling that takes longer than `patience_s` ends it, and so does the end of the sweep when
    much is left: the rest is for a replay.
    """

    def __init__(self, tracker: Tracker, patience_s: float = 60.0) -> None:
        self._tracker, self._patience_s = tracker, patience_s
        self._tellings: queue.SimpleQueue[Telling | None] = queue.SimpleQueue()
        self._began: float | None = None
        self._given_up = ""
        # A daemon, since a store that never answers must not keep the process.
        self._thread = threading.Thread(target=self._tell_all, daemon=True)

    def tell(self, telling: Telling) -> None:
        """Have the tracker told something, soon."""
        if self._tracker.enabled and not self._is_stuck():
            self._tellings.put(telling)
            if self._thread.ident is None:
                self._thread.start()

    def settle(self, limit_s: float = 120.0) -> TrackingError | None:
        """Wait until all is told, though never longer than `limit_s`; what went wrong."""
        deadline = time.monotonic() + limit_s
        if self._thread.ident is not None:
            self._tellings.put(None)
            while self._thread.is_alive() and not self._is_stuck():
                self._thread.join(0.1)
                if time.monotonic() > deadline:
                    self._given_up = f"too slow to take all of them in {limit_s:.0f} s"
        if self._given_up:
            return self._tracker.failed(TimeoutError(self._given_up))
        return self._tracker.problem

    def _is_stuck(self) -> bool:
        began = self._began
        if began is not None and time.monotonic() - began > self._patience_s:
            self._given_up = f"no answer for {self._patience_s:.0f} s"
        return bool(self._given_up)

    def _tell_all(self) -> None:
        while not self._given_up and (telling := self._tellings.get()) is not None:
            self._began = time.monotonic()
            telling(self._tracker)
            self._began = None
