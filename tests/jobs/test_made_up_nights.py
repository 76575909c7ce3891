"""Whole nights whose cells are made up, with all that follows from them for real."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

import pytest

from jobs import nightly
from jobs.keeping import Waiting, everything
from jobs.night import Measured, Night
from jobs.suite import NIGHTS
from pipeline.config import read_command_line
from pipeline.errors import InfrastructureError, PipelineError
from pipeline.execution.host import detect_platform
from pipeline.tracking.ledger import Keeper
from tests.factories import start_record
from tests.jobs.nights import night
from tests.jobs.receivers import Receiver
from tests.jobs.test_nightly import suite_in

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


CHANNEL = {"kind": "webhook", "shape": "plain", "url_env": "HOOK_URL", "tries": 1}


class MadeUp:
    """A night whose measurements are stated, with all that follows from them for real."""

    def __init__(self, tonight: Night, again: PipelineError | None = None) -> None:
        self.id, self.began_at, self.left_out = tonight.id, tonight.at, ()
        self.root = NIGHTS / "mine"
        self.config = read_command_line(["+sweep=smoke"], detect_platform)
        self.starts, self.fewer_starts = (start_record(),), ()
        self.closed = False
        self._cells, self._more, self._trouble = tonight.cells, tonight.more, again

    def first(self) -> tuple[Measured, ...]:
        return self._cells

    def more(self) -> tuple[Measured, ...]:
        return self._more

    def again(self, fingerprints: Collection[str]) -> tuple[Measured, ...]:
        if self._trouble is not None:
            raise self._trouble
        return tuple(c for c in self._cells if c.fingerprint in fingerprints)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def run_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, MadeUp]]:
    monkeypatch.chdir(tmp_path)

    def one(tonight: Night, *extra: str, again: PipelineError | None = None) -> tuple[int, MadeUp]:
        made = MadeUp(tonight, again)
        monkeypatch.setattr(nightly, "Measuring", lambda *_: made)
        arguments = suite_in(tmp_path / "conf", tell=[CHANNEL])
        if extra:
            made.config = read_command_line(["+sweep=smoke", *extra], detect_platform)
        return nightly.main([*arguments, *extra]), made

    return one


def slower(number: int) -> Night:
    return night(number, {"ngram": 1.12})


def test_a_regression_whose_message_was_lost_is_told_the_next_night(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver
) -> None:
    for number in range(4):
        run_night(night(number))
    hook.bodies.clear()
    hook.answers[:] = [500]
    assert run_night(slower(4))[0] == 4
    (kept,) = (n for n in everything(Keeper("smoke", None), "mine").nights if n.id == slower(4).id)
    assert (kept.told, kept.undelivered) == (False, True)
    hook.answers[:] = [200]
    hook.bodies.clear()
    assert run_night(slower(5))[0] == 4
    assert "## Regressions" in hook.bodies[0]["markdown"]
    assert f"reason=WHY --config-dir {Path.cwd() / 'conf'}`" in hook.bodies[0]["markdown"]
    assert run_night(slower(6))[0] == 4
    assert len(hook.bodies) == 1


def test_a_night_that_ends_while_people_are_told_is_kept(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(nightly, "_told", stopped)
    code, made = run_night(night(0))
    assert code == 130
    assert made.closed
    waiting = Waiting(made.root / "waiting")
    keeper = Keeper("smoke", None)
    waiting.deliver(keeper)
    (kept,) = everything(keeper, "mine").nights
    assert kept.undelivered


def test_a_night_without_its_history_is_kept_and_judged_when_it_is_started_again(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver
) -> None:
    code, made = run_night(night(0), "tracking.uri=http://127.0.0.1:9")
    assert code == 5
    assert not made.closed
    assert "could not be judged" in hook.bodies[0]["markdown"]
    assert list((made.root / "waiting").glob("*.json"))
    assert run_night(night(0))[1].closed
    (kept,) = everything(Keeper("smoke", None), "mine").nights
    assert kept.called == ()


def test_a_doubt_that_could_not_be_measured_again_is_told_and_ends_with_5(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver
) -> None:
    for number in range(4):
        run_night(night(number))
    hook.bodies.clear()
    busy = InfrastructureError("another sweep measures here")
    assert run_night(slower(4), again=busy)[0] == 5
    assert "## Not confirmed" in hook.bodies[0]["markdown"]


@pytest.mark.parametrize("content", ["", '{"schema_version": 2}'])
def test_a_history_with_a_damaged_night_judges_the_next_one(
    content: str,
    run_night: Callable[..., tuple[int, MadeUp]],
    hook: Receiver,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(5):
        run_night(night(number))
    damaged, *_ = Path("mlruns").rglob("night.json")
    damaged.write_text(content)
    capsys.readouterr()
    assert run_night(night(5))[0] == 0
    assert str(damaged) in capsys.readouterr().err


def test_a_night_whose_judging_crashes_is_kept_all_the_same(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashed(*_: object) -> NoReturn:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(nightly, "judge", crashed)
        with pytest.raises(ZeroDivisionError):
            run_night(night(0))
    (kept,) = everything(Keeper("smoke", None), "mine").nights
    assert kept.cells == night(0).cells
    assert kept.undelivered


def test_a_password_that_cannot_be_read_is_told_to_nobody(
    tmp_path: Path,
    hook: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = suite_in(tmp_path / "conf", tell=[CHANNEL])
    assert nightly.main([*arguments, "tracking.uri=postgresql://me:SEC!RET@host/db"]) == 2
    kept = (NIGHTS / "mine" / "failed.json").read_text()
    assert "SEC" not in hook.bodies[0]["markdown"] + kept + capsys.readouterr().err
    assert "tracking.uri=…" in hook.bodies[0]["markdown"]


def test_the_command_to_accept_names_the_store_of_the_night_and_no_password(
    run_night: Callable[..., tuple[int, MadeUp]], hook: Receiver
) -> None:
    store = f"tracking.uri=sqlite:///{Path.cwd() / 'other.db'}"
    for number in range(5):
        run_night(night(number) if number < 4 else slower(number), store)
    (told,) = [b["markdown"] for b in hook.bodies if "To accept this" in b["markdown"]]
    assert f"--config-dir {Path.cwd() / 'conf'} {store}`" in told
    secret = "tracking.uri=postgresql://me:SECRET@host/db"
    assert nightly._places([secret]) == ["tracking.uri=postgresql://host/db"]
