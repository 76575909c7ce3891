"""A look at what tonight would be: what it shows, and that nobody is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import nightly
from jobs.preview import asked
from tests.jobs.receivers import Receiver
from tests.jobs.test_nightly import suite_in


def test_a_dry_run_shows_the_plan_the_hours_and_what_they_leave_out_and_tells_nobody(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook: Receiver,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    channel = {"kind": "webhook", "shape": "plain", "url_env": "HOOK_URL"}
    arguments = suite_in(tmp_path / "conf", tell=[channel, {"kind": "file", "folder": "last"}])
    assert nightly.main([*arguments, "dry_run=true"]) == 0
    out = capsys.readouterr().out
    assert "smoke on" in out
    assert "of 48 min 00 s (assuming" in out
    assert "20% of 1 h are kept for what is measured again" in out
    assert "left out: " not in out
    assert "starts of each engine" not in out
    suite_in(tmp_path / "conf", tell=[channel], starts=3)
    assert nightly.main([*arguments, "dry_run=true"]) == 0
    assert "of 48 min 00 s, 3 starts of each engine (assuming" in capsys.readouterr().out
    suite_in(tmp_path / "conf", tell=[channel], budget_hours=0.0001)
    assert nightly.main([*arguments, "dry_run=true"]) == 0
    assert "left out: smollm2-135m/none/chat/c1: takes about" in capsys.readouterr().out
    assert hook.bodies == []
    assert not (tmp_path / "outputs").exists()
    assert not (tmp_path / "last").exists()


def test_a_mistake_in_a_dry_run_is_told_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = suite_in(tmp_path / "conf", tell=[{"kind": "file", "folder": "last"}])
    assert nightly.main([*arguments, "dry_run=true", "method=ngarm"]) == 2
    assert "did you mean 'ngram'?" in capsys.readouterr().err
    assert not (tmp_path / "last").exists()


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        ((), False),
        (("dry_run=true",), True),
        (("++dry_run=yes",), True),
        (("dry_run=true", "dry_run=False"), False),
        (("--cfg=job",), True),
        (("dry_runs=true",), False),
    ],
)
def test_what_asks_for_a_look_is_told_from_a_night(extra: tuple[str, ...], shown: bool) -> None:
    assert asked(extra) == shown
