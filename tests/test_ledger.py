"""Documents in a real MLflow: written, replaced, found again, and what if there is no store."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NoReturn

import pytest

from pipeline.tracking.ledger import Entry, Keeper, LedgerError

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one store for all tests, since making its tables takes seconds."""
    return tmp_path_factory.mktemp("mlruns")


def entry(number: int, text: str = "", **tags: str) -> Entry:
    return Entry(
        role="night",
        key=f"demo/{number}",
        at=f"2026-11-{number:02d}T02:00:00+00:00",
        title=f"night {number}",
        tags={"suite": "demo", **tags},
        texts={"night.json": text or f"text {number}", "message.html": "<p>"},
    )


def texts(keeper: Keeper, role: str = "night", newest: int = 9, **tags: str) -> list[str]:
    read = keeper.read(role, tags, "night.json", newest)
    return [document.content.decode() for document in read if document.content is not None]


def test_documents_are_read_back_the_newest_first_and_no_more_than_asked_for(root: Path) -> None:
    keeper = Keeper("order", None, root)
    for number in (2, 3, 1):
        keeper.write(entry(number))
    again = Keeper("order", None, root)
    assert texts(again, suite="demo", newest=2) == ["text 3", "text 2"]


def test_a_document_that_is_written_again_takes_its_own_place(root: Path) -> None:
    keeper = Keeper("again", None, root)
    keeper.write(entry(1))
    keeper.write(entry(1, "better"))
    assert texts(keeper) == ["better"]


def test_a_document_that_was_made_twice_is_one_again_once_it_is_written_again(root: Path) -> None:
    from mlflow import MlflowClient

    keeper, client = Keeper("twice", None, root), MlflowClient(f"sqlite:///{root}/mlflow.db")
    keeper.write(entry(1))
    experiment = client.get_experiment_by_name("twice").experiment_id
    (run,) = client.search_runs([experiment])
    client.create_run(experiment, start_time=run.info.start_time, tags=run.data.tags)
    keeper.write(entry(1, "better"))
    (left,) = client.search_runs([experiment])
    assert left.info.run_id == run.info.run_id
    assert texts(keeper) == ["better"]


def test_documents_are_told_apart_by_role_and_tags(root: Path) -> None:
    keeper = Keeper("apart", None, root)
    keeper.write(entry(1, node_class="cpu"))
    keeper.write(entry(2, node_class="spark"))
    keeper.write(entry(3).model_copy(update={"role": "baseline"}))
    assert texts(keeper, node_class="spark") == ["text 2"]
    assert texts(keeper, role="baseline", suite="demo") == ["text 3"]


def test_experiments_keep_their_documents_to_themselves(root: Path) -> None:
    Keeper("mine", None, root).write(entry(1))
    assert texts(Keeper("yours", None, root)) == []


def test_a_file_that_is_gone_leaves_a_document_without_it(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keeper = Keeper("less", None, root)
    keeper.write(entry(1))
    keeper.write(entry(2))
    (lost,) = [d for d in keeper.read("night", {}, "night.json", 9) if d.key == "demo/1"]
    path = Path(lost.where.removeprefix("file://"))
    path.unlink()
    assert texts(keeper) == ["text 2"]
    assert keeper.read("night", {}, "night.json", 9)[1] == lost._replace(content=None)
    path.parent.joinpath("message.html").unlink()
    path.parent.rmdir()
    assert texts(keeper) == ["text 2"]
    assert "Downloading" not in capfd.readouterr().err


def test_a_file_that_the_store_has_and_does_not_give_is_one_sentence_that_names_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def refused(*_: object) -> NoReturn:
        raise MlflowException("The following failures occurred:\n##### File night.json #####\n\nno")

    keeper = Keeper("refused", None, root)
    keeper.write(entry(1))
    monkeypatch.setattr(MlflowClient, "download_artifacts", refused)
    with pytest.raises(LedgerError, match=r"failures occurred: ##### File night\.json"):
        keeper.read("night", {}, "night.json", 9)


def test_a_store_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    keeper = Keeper("gone", f"http://127.0.0.1:{port}", tmp_path)
    with pytest.raises(LedgerError, match="MLflow cannot be used"):
        keeper.read("night", {}, "night.json", 1)


def test_a_file_that_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("not a database at all, and long enough to be read as one")
    with pytest.raises(LedgerError, match="MLflow cannot be used"):
        Keeper("broken", None, tmp_path).write(entry(1))
