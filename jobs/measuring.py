"""Having a suite's sweep measured: once, within the budget, and again where that is in doubt."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from jobs import folders
from jobs.budget import leave_out, only, unmatched
from jobs.night import LeftOut, Measured
from jobs.reading import Planned, measured
from jobs.suite import NIGHTS, Suite
from pipeline import console
from pipeline.config import read_command_line
from pipeline.errors import InputError, PipelineError
from pipeline.estimate import Estimate, estimate
from pipeline.execution.host import detect_platform
from pipeline.outputs import Outputs, RecordError
from pipeline.plan import Coordinates, Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, StartRecord
from pipeline.results import duration
from pipeline.spec import SweepConfig
from pipeline.sweep import run

# Of the budget, what is kept for what has to be measured again.
_RESERVE = 0.2


class NotASweepError(InputError):
    """A suite whose command does not run a sweep."""

    def __init__(self, suite: str) -> None:
        super().__init__(
            "its command only shows something",
            where=f"suite {suite}: command",
            allowed="what `python -m pipeline` takes to run a sweep, +sweep=NAME first",
        )


class NoRoomError(InputError):
    """A budget in which no cell of the suite fits; `shortest_s` and `all_s` are what would."""

    def __init__(self, suite: Suite, shortest_s: float, all_s: float) -> None:
        super().__init__(
            f"the budget of {suite.budget_hours:g} h has room for no cell",
            where=f"suite {suite.name}: budget_hours",
            allowed=f"{_hours(shortest_s)} or more for the shortest cell, {_hours(all_s)} for all",
            remedy="the same command with dry_run=true shows the estimate",
        )


class SearchError(InputError):
    """A suite whose sweep does not measure the same cells every night."""

    def __init__(self, suite: str, sweep: str) -> None:
        super().__init__(
            f"sweep {sweep} searches for the best K, so that each night measures other cells",
            where=f"suite {suite}: command",
            allowed="a sweep that measures all of its grid",
            remedy="add sweep.search=grid, and the K to watch with sweep.axes.k",
        )


class OwnPlaceError(InputError):
    """A folder that was given for what has one."""

    def __init__(self, suite: str) -> None:
        super().__init__(
            f"a night is kept in {NIGHTS / suite}, where the next ones look for it",
            where=f"suite {suite}: output_dir",
            remedy="leave output_dir out, or start the night in another working directory",
        )


class Measuring:
    """One night's measurements, in a folder of their own.

    Args:
        extra: further settings for the sweep, which win over the suite's.
        shown: whether they ask what the night would be, and nothing is measured.
    """

    def __init__(
        self, suite: Suite, extra: Sequence[str], now: datetime, *, shown: bool = False
    ) -> None:
        self._suite, self._shown = suite, shown
        self._began = time.monotonic()
        self.root = NIGHTS / suite.name
        self.id = folders.unfinished(self.root, now) or now.strftime(folders.ID)
        self._command = (*suite.command, *extra)
        if any(word.lstrip("+").startswith("output_dir=") for word in self._command):
            raise OwnPlaceError(suite.name)
        self._rounds, self._first = 0, list[str]()
        self.left_out: tuple[LeftOut, ...] = ()
        self.fewer_starts: tuple[LeftOut, ...] = ()
        self._planned: Planned | None = None
        self.config = self._config(self.folder / folders.FIRST)
        # Of a night that was cut, the hours that its earlier starts took are gone.
        self._began -= folders.taken_s(self.folder, self.config.name)

    @property
    def folder(self) -> Path:
        """The night's folder."""
        return self.root / self.id

    @property
    def outputs(self) -> Outputs:
        """The records of the first round."""
        return _outputs(self.config)

    @property
    def starts(self) -> tuple[StartRecord, ...]:
        """Every start of the sweep in this night, in whatever round, the oldest first."""
        every = folders.rounds(self.folder, self.config.name, console.warn_set_aside)
        found = (start for outputs in every for start in outputs.starts())
        return tuple(sorted(found, key=lambda start: start.started_at))

    @property
    def began_at(self) -> str:
        """When the night began, ISO 8601."""
        return folders.began(self.id).isoformat()

    def show(self) -> tuple[str, ...]:
        """Print the night's plan; returns sentences on its hours and on what they leave out."""
        run(self.config, self._command, skip=self._taken_in)
        assert self._planned is not None, "the sweep asks what to skip"
        _, plan, prompts = self._planned
        left_out = self._too_much(plan, prompts, self._budget_s, self._suite.starts)
        expected = self._estimate(plan.without(_fingerprints(plan, left_out)), prompts)
        starts = self._suite.starts
        each = f", {starts} starts of each engine" if starts > 1 else ""
        return (
            f"night {self.id}: about {duration(starts * expected.total_s)} of"
            f" {duration(self._budget_s)}{each} ({expected.basis}); {_RESERVE:.0%}"
            f" of {self._suite.budget_hours:g} h are kept for what is measured again",
            *(f"left out: {one.label}: {one.reason}" for one in left_out),
        )

    def first(self) -> tuple[Measured, ...]:
        """Measure the suite, or what is missing of it.

        Raises:
            PipelineError: the sweep could not be run.
        """
        run(self.config, self._command, skip=self._beyond_the_budget)
        assert self._planned is not None, "the sweep asks what to skip"
        found = measured(self.outputs, self._planned)
        self._first = [one.fingerprint for one in found]
        return found

    def more(self) -> tuple[Measured, ...]:
        """Measure the suite by the further starts that it asks for, as far as that can be done.

        A night whose first round is measured is judged, so what stands in their way is only told.
        """
        found: list[Measured] = []
        for number in range(2, self._suite.starts + 1):
            which = f"start {number} of {self._suite.starts} of each engine"
            try:
                measured_now, late = self._round(f"start-{number}", self._first, self._budget_s)
            except PipelineError as error:
                console.warn(f"{which}: {error}")
                self._lack(which, [LeftOut(at=at, reason=str(error)) for at in self._places])
                break
            found += measured_now
            self._lack(which, late)
        return tuple(found)

    @property
    def _places(self) -> list[Coordinates]:
        assert self._planned is not None, "there is a first round"
        return [c.at for c in self._planned.plan.cells if c.fingerprint in set(self._first)]

    def _lack(self, which: str, late: Iterable[LeftOut]) -> None:
        """Note the cells that a further start does not measure, each with the first reason."""
        known = {one.at for one in self.fewer_starts}
        new = [one for one in late if one.at not in known]
        self.fewer_starts += tuple(LeftOut(at=o.at, reason=f"{which}: {o.reason}") for o in new)

    def again(self, fingerprints: Collection[str]) -> tuple[Measured, ...]:
        """Measure some cells once more, by engines started anew, as many as there is time for.

        Raises:
            PipelineError: the sweep could not be run.
        """
        self._rounds += 1
        whole = self._suite.budget_hours * 3600
        found, late = self._round(f"again-{self._rounds}", fingerprints, whole)
        if late:
            console.warn(f"measuring again: no time for {', '.join(one.label for one in late)}")
        return found

    def _round(
        self, name: str, fingerprints: Collection[str], budget_s: float
    ) -> tuple[tuple[Measured, ...], tuple[LeftOut, ...]]:
        """Measure some cells of the plan; returns them, and those there is no time for."""
        assert self._planned is not None, "there is a first round"
        plan, prompts = self._planned.plan, self._planned.prompts
        config = self._config(self.folder / name)
        outputs = _outputs(config)
        others = frozenset(c.fingerprint for c in plan.cells) - frozenset(fingerprints)
        wanted = plan.without(others)
        # What a night that was cut has measured of the round costs nothing any more.
        due = wanted.without(folders.measured_in(outputs))
        late = self._too_much(due, prompts, budget_s - (time.monotonic() - self._began))
        if len(late) == len(wanted.cells):
            return (), late
        skipped = others | _fingerprints(wanted, late)
        run(config, self._command, skip=lambda plan, prompts: skipped)
        return measured(outputs, self._planned._replace(plan=plan.without(skipped))), late

    def close(self) -> None:
        """Mark the night as judged, so that the next start is a night of its own."""
        (self.folder / folders.DONE).touch()

    def _config(self, folder: Path) -> SweepConfig:
        command = [*self._command, f"output_dir={folder}"]
        config = read_command_line(command, detect_platform)
        if config is None or config.dry_run != self._shown:
            raise NotASweepError(self._suite.name)
        if config.search != "grid":
            raise SearchError(self._suite.name, config.name)
        return config

    @property
    def _budget_s(self) -> float:
        """What may be taken before anything is measured again."""
        return self._suite.budget_hours * 3600 * (1 - _RESERVE)

    def _taken_in(self, plan: Plan, prompts: Mapping[str, PromptSet]) -> frozenset[str]:
        """Keep the plan, of which nothing is to be skipped yet."""
        self._planned = Planned(self.config, plan, prompts)
        for pattern in unmatched(plan, self._suite.priority):
            console.warn(f"suite {self._suite.name}: priority: '{pattern}' matches no cell tonight")
        return frozenset()

    def _beyond_the_budget(self, plan: Plan, prompts: Mapping[str, PromptSet]) -> frozenset[str]:
        self._taken_in(plan, prompts)
        starts, there = self._suite.starts, folders.measured_in(self.outputs)
        late = self._too_much(plan, prompts, self._budget_s, starts)
        # A night that was cut keeps what it has, whatever its estimate has become.
        self.left_out = tuple(o for o in late if not _fingerprints(plan, [o]) <= there)
        if self.left_out and len(self.left_out) == len(plan.cells):
            each = [self._seconds(only(plan, {c.fingerprint}), prompts) for c in plan.cells]
            whole = self._seconds(plan, prompts)
            raise NoRoomError(self._suite, starts * min(each), starts * whole)
        return _fingerprints(plan, self.left_out)

    def _too_much(
        self, plan: Plan, prompts: Mapping[str, PromptSet], budget_s: float, starts: int = 1
    ) -> tuple[LeftOut, ...]:
        """The cells of a plan that there is no time for, measured by so many starts."""
        return leave_out(
            plan, lambda part: starts * self._seconds(part, prompts), budget_s, self._suite.priority
        )

    def _seconds(self, plan: Plan, prompts: Mapping[str, PromptSet]) -> float:
        return self._estimate(plan, prompts).total_s

    def _estimate(self, plan: Plan, prompts: Mapping[str, PromptSet]) -> Estimate:
        """How long a plan takes, by what the last nights took."""
        assert self._planned is not None, "a plan is made first"
        baselines = self._planned.plan.baselines
        repeats, assume = self.config.measure.repeats, self.config.platform.assume
        return estimate(plan, baselines, prompts, repeats, assume, self._history())

    def _history(self) -> list[CellRecord]:
        """The records of this suite's newest nights that are on disk."""
        found: list[CellRecord] = []
        nights = [night / folders.FIRST for night in folders.nights(self.root)]
        for folder in [one for one in nights if one.is_dir()][-3:]:
            with suppress(RecordError):
                found += Outputs(folder, self.config.name).cells()
        return found


def _fingerprints(plan: Plan, left_out: Sequence[LeftOut]) -> frozenset[str]:
    places = {one.at for one in left_out}
    return frozenset(cell.fingerprint for cell in plan.cells if cell.at in places)


def _outputs(config: SweepConfig) -> Outputs:
    return Outputs(Path(config.output_dir), config.name, console.warn_set_aside)


def _hours(measured_s: float) -> str:
    """The budget that holds a first round, rounded up."""
    return f"{math.ceil(measured_s / 36 / (1 - _RESERVE)) / 100:g} h"
