"""Checkpoints that only the nodes have, and what nodes may say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import elsewhere
from pipeline.elsewhere import CheckpointsDifferError, identify_for
from pipeline.execution import scheduler
from pipeline.sources import CheckpointReferenceError, identity
from tests.grids import model, sweep

THERE = "/models/only-on-the-nodes"


class Nodes:
    """Answers as nodes would, without any; `says` is by node."""

    def __init__(self, says: dict[str, str]) -> None:
        self.says = says

    def everywhere(self, function: Callable[[str], str], reference: str) -> dict[str, str]:
        assert function is elsewhere._look
        assert reference == THERE
        return self.says


def asked(monkeypatch: pytest.MonkeyPatch, says: dict[str, str], address: str | None) -> str:
    @contextmanager
    def cluster(*target: object) -> Iterator[Nodes]:
        yield Nodes(says)

    monkeypatch.setattr(scheduler, "cluster", cluster)
    config = sweep([model(checkpoint=THERE)], ray={"address": address})
    return identify_for(config)(THERE, None)


def test_nodes_that_hold_the_same_agree_and_one_without_it_has_no_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    says = {"spark0": "", "spark1": "sha256:1", "spark2": "sha256:1"}
    assert asked(monkeypatch, says, "10.0.0.1:6379") == "sha256:1"


def test_nodes_that_hold_something_else_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    says = {"spark1": "sha256:1", "spark2": "sha256:2"}
    with pytest.raises(CheckpointsDifferError, match=r"on spark1 than on spark2.*rsync"):
        asked(monkeypatch, says, "10.0.0.1:6379")


def test_a_folder_that_nobody_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointReferenceError, match="neither here nor on spark1"):
        asked(monkeypatch, {"spark1": ""}, "10.0.0.1:6379")


def test_without_a_cluster_a_missing_folder_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointReferenceError, match="not a checkpoint folder"):
        asked(monkeypatch, {}, None)


def test_a_node_says_what_its_folder_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert elsewhere._look(str(tmp_path)) == identity(str(tmp_path), None)
    assert elsewhere._look("/models/nowhere") == ""
