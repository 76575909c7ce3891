import os
from pathlib import Path

import pytest

from pipeline import sources, zoo
from pipeline.sources import CheckpointReferenceError, identity, resolve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, so that no digest is remembered from elsewhere."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(sources, "cache_folder", lambda: folder)
    return folder


def checkpoint(folder: Path, weights: bytes = b"1234") -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return str(folder)


# --- the hub


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        pytest.param("abc", "Maker/model-1.5@abc", id="pinned"),
        pytest.param(None, "Maker/model-1.5@unpinned", id="not pinned, and it says so"),
    ],
)
def test_a_checkpoint_on_a_hub_is_its_name_at_its_revision(
    revision: str | None, expected: str
) -> None:
    assert identity("Maker/model-1.5", revision) == expected
    assert resolve("Maker/model-1.5") == "Maker/model-1.5"


@pytest.mark.parametrize(
    "reference", ["", "model", "a/b/c", "/", "a b/c", "-a/b", "a/", "zoo", "http://a/b"]
)
def test_a_reference_of_no_known_form_is_told_what_forms_there_are(reference: str) -> None:
    with pytest.raises(CheckpointReferenceError, match="allowed: ") as caught:
        identity(reference, None)
    assert caught.value.exit_code == 2
    with pytest.raises(CheckpointReferenceError, match="allowed: "):
        resolve(reference)


# --- the zoo


def test_a_zoo_checkpoint_is_its_name_and_digest_and_is_made_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(zoo, "names", lambda: ("tiny",))
    monkeypatch.setattr(zoo, "digest_of", lambda name: f"digest-of-{name}")
    monkeypatch.setattr(zoo, "materialise", lambda name: tmp_path / name)
    assert identity("zoo:tiny", None) == "zoo:tiny@sha256:digest-of-tiny"
    assert resolve("zoo:tiny") == str(tmp_path / "tiny")


def test_an_unknown_zoo_name_is_told_its_nearest_neighbour() -> None:
    known = zoo.names()[0]
    with pytest.raises(CheckpointReferenceError, match=f"did you mean '{known}'"):
        identity(f"zoo:{known[:-1]}", None)


# --- folders


def test_a_folder_is_its_content_wherever_it_lies(tmp_path: Path) -> None:
    here, there = checkpoint(tmp_path / "here"), checkpoint(tmp_path / "far" / "there")
    assert identity(here, None) == identity(there, None)
    assert identity(here, None).startswith("sha256:")


def test_an_edited_weight_makes_another_checkpoint(tmp_path: Path) -> None:
    folder = Path(checkpoint(tmp_path / "m"))
    before = identity(str(folder), None)
    (folder / "model.safetensors").write_bytes(b"1235")
    assert identity(str(folder), None) != before


def test_a_file_more_makes_another_checkpoint_and_a_hidden_one_does_not(tmp_path: Path) -> None:
    folder = Path(checkpoint(tmp_path / "m"))
    before = identity(str(folder), None)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").write_text("x")
    assert identity(str(folder), None) == before
    (folder / "tokenizer.json").write_text("{}")
    assert identity(str(folder), None) != before


def test_a_renamed_file_makes_another_checkpoint(tmp_path: Path) -> None:
    folder = Path(checkpoint(tmp_path / "m"))
    before = identity(str(folder), None)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert identity(str(folder), None) != before


def test_a_file_is_hashed_once_as_long_as_it_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(checkpoint(tmp_path / "m"))
    first = identity(str(folder), None)
    hashed: list[Path] = []

    def remember(path: Path) -> str:
        hashed.append(path)
        return "new"

    monkeypatch.setattr(sources, "file_digest", remember)
    assert identity(str(folder), None) == first
    assert hashed == []
    later = (folder / "config.json").stat().st_mtime + 5
    os.utime(folder / "config.json", (later, later))
    identity(str(folder), None)
    assert [path.name for path in hashed] == ["config.json"]


@pytest.mark.parametrize("memory", ["", "{", "[]", "5"])
def test_a_broken_memory_of_digests_is_made_anew(tmp_path: Path, cache: Path, memory: str) -> None:
    folder = checkpoint(tmp_path / "m")
    first = identity(folder, None)
    (cache / "digests.json").write_text(memory)
    assert identity(folder, None) == first
    assert "config.json" in (cache / "digests.json").read_text()


@pytest.mark.parametrize("missing", ["nothing is there", "it holds no config.json", "it is a file"])
def test_a_folder_that_is_no_checkpoint_is_told_what_one_holds(
    tmp_path: Path, missing: str
) -> None:
    path = tmp_path / "m"
    if missing == "it is a file":
        path.write_text("x")
    elif missing == "it holds no config.json":
        path.mkdir()
    with pytest.raises(
        CheckpointReferenceError, match=r"allowed: a folder that holds config\.json"
    ):
        identity(str(path), None)


def test_paths_may_start_at_home_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = checkpoint(tmp_path / "m")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for reference in ("~/m", "./m", expected):
        assert resolve(reference) == expected
        assert identity(reference, None) == identity(expected, None)
