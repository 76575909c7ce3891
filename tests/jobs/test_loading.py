"""Suites as files: ours all read, and each mistake is a sentence with the key."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.loading import load_suite
from jobs.measuring import Measuring
from pipeline.config import read_command_line
from pipeline.errors import InputError
from pipeline.folders import CONF

NAMES = sorted(path.stem for path in (CONF / "suite").glob("*.yaml"))
GOOD: dict[str, Any] = {
    "name": "mine",
    "command": ["+sweep=smoke"],
    "budget_hours": 1,
    "tell": [{"kind": "console"}],
}


def written(folder: Path, **changes: Any) -> Path:
    (folder / "suite").mkdir(exist_ok=True)
    (folder / "suite" / "mine.yaml").write_text(yaml.safe_dump({**GOOD, **changes}))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_that_is_shipped_reads_and_composes_its_sweep(name: str) -> None:
    suite = load_suite(name)
    config = read_command_line(suite.command, lambda: "cpu")
    assert config is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_begins_with_the_command_that_runs_it(name: str) -> None:
    first = (CONF / "suite" / f"{name}.yaml").read_text().splitlines()[0]
    assert first == f"# python -m jobs.nightly suite={name}"


def test_a_suite_of_ones_own_is_found_in_ones_own_folder(tmp_path: Path) -> None:
    suite = load_suite("mine", [written(tmp_path, rule={"nights": 7})])
    assert suite.rule.nights == 7
    assert suite.rule.confidence == 0.99


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"budget": 3}, "suite mine: there is no key 'budget', did you mean 'budget_hours'?"),
        ({"budget_hours": 0}, "suite mine: budget_hours: the value is 0; allowed: greater than 0"),
        ({"tell": []}, "suite mine: tell: the value is []; allowed: at least one item"),
        ({"tell": [{"kind": "pigeon"}]}, "there is no kind 'pigeon'"),
        ({"name": "other"}, "suite mine: its name is 'other'; allowed: mine"),
        (
            {"tell": [{"kind": "webhook", "shape": "slack", "url_env": "https://secret"}]},
            "url_env",
        ),
    ],
)
def test_a_mistake_is_told_with_its_key(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_suite("mine", [written(tmp_path, **changes)])
    assert told in str(caught.value)


def test_a_suite_that_is_not_there_is_told_with_its_neighbours() -> None:
    with pytest.raises(InputError, match="there is no suite called 'nihgtly', did you mean"):
        load_suite("nihgtly")


@pytest.mark.parametrize("text", ["{", "- a\n- b\n", "\xff"])
def test_a_file_that_is_no_suite_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "mine.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError):
        load_suite("mine", [tmp_path])


def test_a_suite_whose_command_only_shows_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = load_suite("mine", [written(tmp_path, command=["+sweep=smoke", "dry_run=true"])])
    with pytest.raises(InputError, match="its command only shows something"):
        Measuring(suite, [], datetime.now(UTC))
