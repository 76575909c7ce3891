"""Having a suite's sweep measured: once, within the budget, and again where that is in doubt."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
from pipeline.plan import Plan
from pipeline.prompts import PromptSet
from pipeline.records import CellRecord, StartRecord
from pipeline.results import duration
from pipeline.spec import SweepConfig
from pipeline.sweep import run

# A night that ended before it was judged goes on within this time; later it would be two nights.
RESUME_H = 12
_DONE, _ID = "judged", "%Y%m%dT%H%M%S"
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
        self.id = _unfinished(self.root, now) or now.strftime(_ID)
        self._command = (*suite.command, *extra)
        if any(word.lstrip("+").startswith("output_dir=") for word in self._command):
            raise OwnPlaceError(suite.name)
        self._rounds, self._first = 0, list[str]()
        self.left_out: tuple[LeftOut, ...] = ()
        self._planned: Planned | None = None
        self.config = self._config(self.root / self.id / "first")

    @property
    def folder(self) -> Path:
        """The night's folder."""
        return self.root / self.id

    @property
    def outputs(self) -> Outputs:
        """The records of the first round."""
        return _outputs(self.config)

    @property
    def start(self) -> StartRecord:
        """The start that measured last."""
        return self.outputs.starts()[-1]

    @property
    def began_at(self) -> str:
        """When the night began, ISO 8601."""
        return datetime.strptime(self.id, _ID).replace(tzinfo=UTC).isoformat()

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
        # A search for the best K does without some cells of the plan.
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
                found += self._round(f"start-{number}", self._first, self._budget_s, which)
            except PipelineError as error:
                console.warn(f"{which}: {error}")
                break
        return tuple(found)

    def again(self, fingerprints: Collection[str]) -> tuple[Measured, ...]:
        """Measure some cells once more, by engines started anew, as many as there is time for.

        Raises:
            PipelineError: the sweep could not be run.
        """
        self._rounds += 1
        whole = self._suite.budget_hours * 3600
        return self._round(f"again-{self._rounds}", fingerprints, whole, "measuring again")

    def _round(
        self, name: str, fingerprints: Collection[str], budget_s: float, what: str
    ) -> tuple[Measured, ...]:
        assert self._planned is not None, "there is a first round"
        plan, prompts = self._planned.plan, self._planned.prompts
        others = frozenset(c.fingerprint for c in plan.cells) - frozenset(fingerprints)
        wanted = plan.without(others)
        late = self._too_much(wanted, prompts, budget_s - (time.monotonic() - self._began))
        if late:
            console.warn(f"{what}: no time for {', '.join(one.label for one in late)}")
        if len(late) == len(wanted.cells):
            return ()
        skipped = others | _fingerprints(wanted, late)
        config = self._config(self.folder / name)
        run(config, self._command, skip=lambda plan, prompts: skipped)
        return measured(_outputs(config), self._planned._replace(plan=plan.without(skipped)))

    def close(self) -> None:
        """Mark the night as judged, so that the next start is a night of its own."""
        (self.folder / _DONE).touch()

    def _config(self, folder: Path) -> SweepConfig:
        command = [*self._command, f"output_dir={folder}"]
        config = read_command_line(command, detect_platform)
        if config is None or config.dry_run != self._shown:
            raise NotASweepError(self._suite.name)
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
        starts = self._suite.starts
        self.left_out = self._too_much(plan, prompts, self._budget_s, starts)
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
        rounds = [first for night in _nights(self.root) if (first := night / "first").is_dir()]
        for folder in rounds[-3:]:
            with suppress(RecordError):
                found += Outputs(folder, self.config.name).cells()
        return found


def _fingerprints(plan: Plan, left_out: Sequence[LeftOut]) -> frozenset[str]:
    places = {one.at for one in left_out}
    return frozenset(cell.fingerprint for cell in plan.cells if cell.at in places)


def _outputs(config: SweepConfig) -> Outputs:
    return Outputs(Path(config.output_dir), config.name, console.warn_set_aside)


def _unfinished(root: Path, now: datetime) -> str | None:
    """The newest night, where it began lately and was not judged."""
    nights = _nights(root)
    if not nights or (nights[-1] / _DONE).exists():
        return None
    began = datetime.strptime(nights[-1].name, _ID).replace(tzinfo=UTC)
    return nights[-1].name if now - began < timedelta(hours=RESUME_H) else None


def _nights(root: Path) -> list[Path]:
    """The folders of a suite's nights, the oldest first; what people put beside them is theirs."""
    return sorted(path for path in root.glob("*T*") if path.is_dir() and _is_night(path.name))


def _is_night(name: str) -> bool:
    # Written again, since dates are also read where digits are missing.
    with suppress(ValueError):
        return datetime.strptime(name, _ID).strftime(_ID) == name
    return False


def _hours(measured_s: float) -> str:
    """The budget that holds a first round, rounded up."""
    return f"{math.ceil(measured_s / 36 / (1 - _RESERVE)) / 100:g} h"
