"""What is kept of nights in MLflow, and in the folder where they wait for it; a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.history import Decision, History
from jobs.judge import judge
from jobs.keeping import Waiting, decision_entry, load, night_entry, unjudged_entry
from jobs.message import compose
from jobs.night import Night
from pipeline.tracking.ledger import Entry, Keeper
from tests.jobs.nights import SUITE, night
from tests.jobs.situations import RULE

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper("smoke", None, tmp_path / "mlruns")


def entry(one: Night) -> Entry:
    verdict = judge(History([]), one, RULE)
    return night_entry(one, verdict, compose(SUITE, verdict))


def test_a_night_that_is_pinned_is_found_however_many_came_after_it(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.keeping._NIGHTS", 3)
    few = RULE.model_copy(update={"nights": 3, "drift_nights": 3})
    nights = [night(number) for number in range(6)]
    for one in nights:
        keeper.write(entry(one))
    pin = Decision(
        action="pin", suite="demo", night=nights[0].id, reason="as it was", by="a", at=nights[5].at
    )
    assert len(load(keeper, "demo", nights[0].node_class, few).nights) == 3
    keeper.write(decision_entry(pin))
    history = load(keeper, "demo", nights[0].node_class, few)
    assert [one.id for one in history.nights] == [nights[i].id for i in (0, 3, 4, 5)]
    assert judge(history, night(6), few).compared == judge(History(nights), night(6), few).compared


def test_a_night_that_nobody_judged_is_in_the_history_and_no_baseline(keeper: Keeper) -> None:
    tonight = night(3)
    keeper.write(unjudged_entry(tonight))
    (kept,) = load(keeper, "demo", tonight.node_class, RULE).nights
    assert kept.cells == tonight.cells
    assert set(kept.called) == {cell.label for cell in tonight.cells}
    assert kept.undelivered


def test_a_damaged_file_that_waits_is_set_aside_by_name_and_the_others_are_taken(
    keeper: Keeper, tmp_path: Path
) -> None:
    waiting = Waiting(tmp_path / "waiting")
    for number in range(2):
        waiting.add(entry(night(number)))
    torn = min((tmp_path / "waiting").glob("*.json"))
    torn.write_text(torn.read_text()[:100])
    (problem,) = waiting.deliver(keeper)
    assert torn.name in problem
    assert torn.with_suffix(".damaged").is_file()
    assert [n.id for n in load(keeper, "demo", night(0).node_class, RULE).nights] == [night(1).id]
    assert waiting.deliver(keeper) == ()
