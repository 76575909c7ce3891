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
        ({"rule": {"nights": 2}}, "suite mine: rule: nothing would ever be compared"),
        ({"rule": {"screen": 0.999}}, "rule: what is called would not be measured again first"),
        ({"rule": {"drift_nights": 9}}, "rule: a drift would never be looked for in 9 nights"),
    ],
)
def test_a_mistake_is_told_with_its_key(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_suite("mine", [written(tmp_path, **changes)])
    assert told in str(caught.value)


def test_a_suite_that_is_not_there_is_told_with_its_neighbours() -> None:
    with pytest.raises(InputError, match="there is no suite called 'nihgtly', did you mean"):
        load_suite("nihgtly")


@pytest.mark.parametrize("text", ["{", "- a\n- b\n", "\xff", "? [a, b]\n: c\n", "1: 2\n"])
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


SECRET = "https://hooks.slack.com/services/T0/B0/SECRET"
HOOK = {"kind": "webhook", "shape": "slack"}
MAIL = {"kind": "mail", "host": "mail", "sender": "a@b", "to": ["c@d"]}


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        (HOOK | {"url_env": SECRET}, "the name of an environment variable"),
        (HOOK | {"url_env": [SECRET]}, "the name of an environment variable"),
        (HOOK | {"url_env": {"url": "SECRET"}}, "the name of an environment variable"),
        (MAIL | {"user_env": "me", "password_env": "my SECRET"}, "name of an environment variable"),
        (MAIL | {"user_env": "ME", "password_env": "my SECRET"}, "password_env: it must be"),
        (HOOK | {"url_env": "URL", "shape": SECRET}, "an address does not belong here"),
        (SECRET, "an address does not belong here"),
        ({"kind": SECRET}, "an address does not belong here"),
        ({"kind": "console", SECRET: 1}, "an address does not belong here"),
    ],
)
def test_what_may_be_a_secret_is_not_repeated(channel: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_suite("mine", [written(tmp_path, tell=[channel])])
    assert "SECRET" not in str(caught.value)
    assert told in str(caught.value)
    assert "suite mine: tell" in str(caught.value)


def test_a_file_that_is_not_yaml_is_told_by_its_line_and_not_repeated(tmp_path: Path) -> None:
    (written(tmp_path) / "suite" / "mine.yaml").write_text(f"name: mine\ntell: [{{url: {SECRET}\n")
    with pytest.raises(
        InputError, match=r"mine\.yaml, line 3: the file is not valid YAML"
    ) as caught:
        load_suite("mine", [tmp_path])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "name: mine\nbudget_hours: 1\nbudget_hours: 2\n",
        "rule: {effects: {speed: 0.1, length: 0.1, speed: 0.2}}\n",
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, tmp_path: Path) -> None:
    (written(tmp_path) / "suite" / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"the key '(budget_hours|speed)' stands twice"):
        load_suite("mine", [tmp_path])


@pytest.mark.parametrize("name", ["../sweep/smoke", "..", "a/b", "my suite", "."])
def test_a_name_that_leads_elsewhere_is_no_suite(name: str) -> None:
    with pytest.raises(InputError, match="allowed: letters, digits, dots, dashes and underscores"):
        load_suite(name)
