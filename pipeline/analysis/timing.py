"""Where the wall time of a run went: starting engines, generating, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.records import TimeSplit

Interval = tuple[float, float]


def split(wall: Interval, starts: Sequence[Interval], generation: Sequence[Interval]) -> TimeSplit:
    """Split the seconds of `wall` into engine starts, generation and the rest.

    Args:
        wall: begin and end of the run, wall-clock seconds.
        starts: when engines were starting, on any node, in any order.
        generation: when cells were being measured, on any node, in any order.

    Work on several nodes at once counts once. Where one node generates while another starts, the
    time is generation's: it is what the run is for. What lies outside `wall` is left out.
    """
    generating = _covered(wall, generation)
    return TimeSplit(
        wall_s=wall[1] - wall[0],
        engine_start_s=_covered(wall, [*starts, *generation]) - generating,
        generation_s=generating,
    )


def _covered(wall: Interval, intervals: Iterable[Interval]) -> float:
    """Seconds of `wall` that at least one interval covers."""
    total, reached = 0.0, wall[0]
    for begin, end in sorted(intervals):
        end = min(end, wall[1])
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
