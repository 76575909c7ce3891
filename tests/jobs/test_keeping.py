"""What is kept of nights in MLflow, and in the folder where they wait for it; a real store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from jobs.history import Decision, History
from jobs.judge import judge
from jobs.keeping import Waiting, decision_entry, everything, load, night_entry, unjudged_entry
from jobs.message import compose
from jobs.night import Night
from pipeline.tracking.ledger import Entry, Keeper, LedgerError
from tests.jobs.nights import SUITE, night
from tests.jobs.situations import RULE

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one store for all tests, since making its tables takes seconds."""
    return tmp_path_factory.mktemp("mlruns")


@pytest.fixture
def keeper(root: Path, request: pytest.FixtureRequest) -> Keeper:
    """An experiment of the test's own."""
    return Keeper(re.sub(r"\W+", "-", request.node.name), None, root)


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
    assert torn.with_name(f"{torn.name}.damaged").is_file()
    assert "it is not a WaitingDocument" in problem
    assert [n.id for n in load(keeper, "demo", night(0).node_class, RULE).nights] == [night(1).id]
    assert waiting.deliver(keeper) == ()


def test_a_file_of_another_version_waits_for_that_version_and_the_others_are_taken(
    keeper: Keeper, tmp_path: Path
) -> None:
    waiting = Waiting(tmp_path / "waiting")
    for number in range(2):
        waiting.add(entry(night(number)))
    newer = min((tmp_path / "waiting").glob("*.json"))
    newer.write_text(json.dumps(json.loads(newer.read_text()) | {"colour": "red"}))
    (problem,) = waiting.deliver(keeper)
    assert f"{newer}: another version wrote it (it holds 'colour'" in problem
    assert list((tmp_path / "waiting").iterdir()) == [newer]
    assert [n.id for n in load(keeper, "demo", night(0).node_class, RULE).nights] == [night(1).id]


# --- documents in MLflow that are no longer what they were

DAMAGE: dict[str, tuple[Callable[[str], str | None], str]] = {
    "torn": (lambda text: text[: len(text) // 2], "Invalid JSON"),
    "empty": (lambda text: "", "Invalid JSON"),
    "binary": (lambda text: "\x00\x81", "Invalid JSON"),
    "of something else": (lambda text: '{"a": 1}', "it holds 'a', which is not known here"),
    "a list": (lambda text: "[]", "it is not a"),
    "newer": (
        lambda text: json.dumps(json.loads(text) | {"schema_version": 2}),
        "another version wrote it (schema 2, this one reads 1)",
    ),
    "gone": (lambda text: None, "the file is gone"),
}


def damage(keeper: Keeper, role: str, name: str, key: str, how: Callable[[str], str | None]) -> str:
    """Damage a file in the store; returns its run."""
    (found,) = (d for d in keeper.read(role, {"key": key}, name, 9))
    path = Path(found.where.removeprefix("file://"))
    changed = how(path.read_text())
    path.unlink() if changed is None else path.write_bytes(changed.encode("latin-1"))
    return found.run_id


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_night_that_is_damaged_is_named_and_the_history_goes_on_without_it(
    kind: str, keeper: Keeper, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        keeper.write(entry(night(number)))
    how, told = DAMAGE[kind]
    run = damage(keeper, "night", "night.json", f"demo/{night(1).id}", how)
    for history in (
        load(keeper, "demo", night(0).node_class, RULE),
        everything(keeper, "demo"),
    ):
        assert [one.id for one in history.nights] == [night(0).id, night(2).id]
    *_, err = capsys.readouterr().err.splitlines()
    assert err.startswith(f"night demo/{night(1).id}: file:///")
    assert "night.json: " in err
    assert told in err
    assert run in err


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_decision_that_is_damaged_is_named_and_the_others_stand(
    kind: str, keeper: Keeper, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper.write(entry(night(0)))
    first = Decision(
        action="pin", suite="demo", night=night(0).id, reason="so", by="a", at=night(1).at
    )
    second = first.model_copy(update={"at": night(2).at})
    for one in (first, second):
        keeper.write(decision_entry(one))
    how, told = DAMAGE[kind]
    run = damage(keeper, "baseline", "decision.json", f"demo/{first.at}", how)
    history = load(keeper, "demo", night(0).node_class, RULE)
    assert history.decisions == (second,)
    assert len(history.nights) == 1
    (err,) = capsys.readouterr().err.splitlines()
    assert err.startswith(f"baseline demo/{first.at}: file:///")
    assert told in err
    assert run in err


def test_a_pinned_night_that_is_damaged_is_named_once(
    keeper: Keeper, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper.write(entry(night(0)))
    keeper.write(
        decision_entry(
            Decision(
                action="pin", suite="demo", night=night(0).id, reason="so", by="a", at=night(1).at
            )
        )
    )
    damage(keeper, "night", "night.json", f"demo/{night(0).id}", lambda text: "")
    assert load(keeper, "demo", night(0).node_class, RULE).nights == ()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_night_that_may_not_be_read_is_not_taken_for_a_lost_one(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def forbidden(*_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied", "/store/night.json")

    keeper.write(entry(night(0)))
    monkeypatch.setattr(MlflowClient, "download_artifacts", forbidden)
    with pytest.raises(LedgerError, match=r"Permission denied: '/store/night\.json'"):
        everything(keeper, "demo")
