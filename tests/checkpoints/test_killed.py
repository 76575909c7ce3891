"""`kill -9` before every line of the writing code: what is left, and where the next run gets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.checkpoints.__main__ import main
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK
from tests.checkpoints.folders import EXTRA, INDEX, contents, head_of, hub_cache, index_of, trap
from tests.checkpoints.pairs import pair

ROOT = Path(__file__).parents[2]
NOTE = ".register-mtp.json"
# Fewer and the kill is not where the writes are: the trace has gone blind.
FEWEST_LINES = 30


def kill_everywhere(
    template: Path, work: Path, *arguments: str, links: str = "links"
) -> list[Path]:
    """The folders that the killed runs left; the last one is that of the run that got through."""
    work.mkdir()
    where = (str(template), str(work), links)
    command = [sys.executable, "-m", "tests.checkpoints.killed", *where, *arguments]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    folders = sorted(work.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > FEWEST_LINES
    return folders


def without_note(folder: Path) -> dict[str, bytes | str]:
    return {name: content for name, content in contents(folder).items() if name != NOTE}


def undone(folder: Path) -> dict[str, bytes | str]:
    """What undoing makes of a copy of this folder."""
    copy = folder.with_name(f"{folder.name}-undone")
    shutil.copytree(folder, copy, symlinks=True)
    assert main(["register-mtp", str(copy), "--undo"]) in (EXIT_OK, EXIT_BAD_CONFIG)
    left = contents(copy)
    shutil.rmtree(copy)
    return left


def layout(kind: str, root: Path) -> Path:
    if kind == "hub_cache":
        return hub_cache(root, 2)[0].parents[1]
    folder = trap(root / "model", 2)
    if kind == "single_file":
        (folder / INDEX).unlink()
        for shard in folder.glob("model-*"):
            shard.unlink()
        shutil.copy(folder / EXTRA, folder / "model.safetensors")
        raw = (folder / "model.safetensors").read_bytes().replace(b'"mtp.', b'"abc.')
        (folder / "model.safetensors").write_bytes(raw)
    return folder


@pytest.mark.parametrize("kind", ["folder", "hub_cache", "single_file"])
def test_killed_while_registering(tmp_path: Path, kind: str) -> None:
    template = layout(kind, tmp_path)
    inside = "snapshots/" + "0" * 40 if kind == "hub_cache" else "."
    original = contents(template / inside)
    runs = kill_everywhere(template, tmp_path / "work", "register-mtp", f"{{}}/{inside}")
    finished = contents(runs[-1] / inside)

    for run in runs:
        folder = run / inside
        left = contents(folder)
        assert left.get(INDEX) in (original.get(INDEX), finished[INDEX])
        assert {n: left[n] for n in original if n != INDEX} == {
            n: original[n] for n in original if n != INDEX
        }
        if kind == "hub_cache":
            assert contents(run / "blobs") == contents(template / "blobs")
        else:
            assert undone(folder) == original
        assert main(["register-mtp", str(folder)]) == EXIT_OK
        assert contents(folder) == finished
        assert main(["register-mtp", str(folder), "--undo"]) == EXIT_OK
        assert contents(folder) == original


@pytest.mark.parametrize("links", ["links", "no-links"])
def test_killed_while_bringing_the_head(tmp_path: Path, links: str) -> None:
    source, template = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2, None)
    there, original = contents(source), contents(template)
    runs = kill_everywhere(
        template, tmp_path / "work", "register-mtp", "{}", f"source={source}", links=links
    )
    finished = without_note(runs[-1])

    for folder in runs:
        assert contents(folder)[INDEX] in (original[INDEX], finished[INDEX])
        assert undone(folder) == original
        assert main(["register-mtp", str(folder), f"source={source}"]) == EXIT_OK
        assert without_note(folder) == finished
        assert main(["register-mtp", str(folder), "--undo"]) == EXIT_OK
        assert contents(folder) == original
    assert contents(source) == there


def test_killed_while_undoing(tmp_path: Path) -> None:
    source, template = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2, None)
    original = contents(template)
    main(["register-mtp", str(template), f"source={source}"])

    for folder in kill_everywhere(template, tmp_path / "work", "register-mtp", "{}", "--undo"):
        main(["register-mtp", str(folder), "--undo"])
        assert contents(folder) == original


def test_killed_while_building_a_hybrid(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    sources = contents(int4), contents(fp8)
    (tmp_path / "empty").mkdir()
    arguments = ("build-hybrid", f"int4={int4}", f"fp8={fp8}", "out={}")
    runs = kill_everywhere(tmp_path / "empty", tmp_path / "work", *arguments)
    finished = contents(runs[-1])

    for folder in runs:
        names = {path.name for path in folder.iterdir()}
        if INDEX in names:
            assert set(head_of(2)) <= set(index_of(folder)["weight_map"])
        if "config.json" in names:
            assert names >= set(finished)
        assert main([argument.replace("{}", str(folder)) for argument in arguments]) == EXIT_OK
        assert contents(folder) == finished
    assert (contents(int4), contents(fp8)) == sources
    assert "_hybrid_quant_info" in json.loads(bytes(finished["config.json"]))  # type: ignore[arg-type]
