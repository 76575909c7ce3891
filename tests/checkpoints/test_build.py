"""build-hybrid: which bytes end up where, resuming, memory, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.checkpoints import shards
from pipeline.checkpoints.__main__ import main
from pipeline.checkpoints.header import read_header, render_header
from pipeline.checkpoints.inspect import mtp_state
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE, EXIT_OK
from tests.checkpoints.folders import (
    EXTRA,
    SHARDS,
    Spec,
    contents,
    head_of,
    index_of,
    size_of,
    write_index,
    write_weights,
)
from tests.checkpoints.pairs import FP8, FP8_FILE, INT4, LAYER, pair

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


def build(int4: Path, fp8: Path, out: Path, *more: str) -> int:
    return main(["build-hybrid", f"int4={int4}", f"fp8={fp8}", f"out={out}", *more])


def tensor(path: Path, name: str) -> tuple[str, bytes]:
    """A tensor's dtype and bytes, straight from the file."""
    header = read_header(path)
    found = header.tensors[name]
    begin = header.data_start + found.begin
    return found.dtype, path.read_bytes()[begin : begin + found.size]


def test_every_tensor_has_the_bytes_of_its_source(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    out = tmp_path / "out"

    assert build(int4, fp8, out) == EXIT_OK

    for file, tensors in INT4.items():
        scales = {f"{n.removesuffix('.weight')}.weight_scale_inv" for n in tensors} & set(FP8)
        assert set(read_header(out / file).tensors) == {*tensors, *scales}
        for name in (*tensors, *scales):
            source = fp8 / FP8_FILE if name in FP8 else int4 / file
            assert tensor(out / file, name) == tensor(source, name)
    assert tensor(out / SHARDS[0], f"{LAYER}self_attn.q_proj.weight")[0] == "F8_E4M3"
    assert tensor(out / SHARDS[0], f"{LAYER}mlp.experts.0.up_proj.qweight")[0] == "I32"


def test_the_head_is_taken_over_and_in_the_index(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    out = tmp_path / "out"
    build(int4, fp8, out)

    assert (out / EXTRA).read_bytes() == (int4 / EXTRA).read_bytes()
    weight_map = index_of(out)["weight_map"]
    assert {n for n, f in weight_map.items() if f == EXTRA} == set(head_of(2))
    sizes = [read_header(out / f).tensors[str(n)].size for n, f in weight_map.items()]  # type: ignore[operator]
    assert index_of(out)["metadata"]["total_size"] == sum(sizes)
    state = mtp_state(out)
    assert state.sound
    assert state.excluded
    assert main(["register-mtp", str(out), "--check"]) == EXIT_OK


def test_configuration_and_tokenizer_come_from_int4(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    out = tmp_path / "out"
    build(int4, fp8, out)

    config = json.loads((out / "config.json").read_text())
    info = config.pop("_hybrid_quant_info")
    assert config == json.loads((int4 / "config.json").read_text())
    assert (info["dense_tensors_from_fp8"], info["scales_from_fp8"]) == (3, 2)
    assert (out / "tokenizer.json").read_bytes() == (int4 / "tokenizer.json").read_bytes()
    assert not (out / ".hidden").exists()


def test_a_second_build_verifies_and_changes_no_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    out = tmp_path / "out"
    build(int4, fp8, out)
    first = contents(out)
    times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    capsys.readouterr()

    assert build(int4, fp8, out) == EXIT_OK

    assert contents(out) == first
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == times
    assert "0 shards written, 2 verified and kept" in capsys.readouterr().out


def test_a_damaged_shard_is_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    out = tmp_path / "out"
    build(int4, fp8, out)
    first = contents(out)
    (out / SHARDS[1]).write_bytes(bytes(first[SHARDS[1]])[:-1] + b"?")  # type: ignore[arg-type]

    assert build(int4, fp8, out) == EXIT_OK

    assert contents(out) == first
    assert "1 shards written, 1 verified and kept" in capsys.readouterr().out


def test_a_shard_that_reads_back_differently_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    monkeypatch.setattr(shards, "digest_of", lambda path: "0" * 64)

    assert build(int4, fp8, tmp_path / "out") == EXIT_NO_INFRASTRUCTURE

    assert "read back differ" in capsys.readouterr().err
    assert not (tmp_path / "out" / SHARDS[0]).exists()


def test_a_rehearsal_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    int4, fp8 = pair(tmp_path)

    assert build(int4, fp8, tmp_path / "out", "--dry-run") == EXIT_OK

    assert not (tmp_path / "out").exists()
    assert "3 dense tensors from FP8, 2 scales" in capsys.readouterr().out


def test_checkpoints_without_a_head_are_built_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    (int4 / EXTRA).unlink()

    assert build(int4, fp8, tmp_path / "out") == EXIT_OK
    assert "there is no MTP head" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({f"{LAYER}self_attn.q_proj.weight": ("F8_E4M3", (8, 4))}, "its shape is"),
        ({f"{LAYER}self_attn.q_proj.weight_scale_inv": None}, "is nowhere"),
        (dict.fromkeys(FP8), "no dense tensor"),
    ],
    ids=["shape", "scale", "names"],
)
def test_checkpoints_that_do_not_go_together(
    tmp_path: Path, change: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    tensors = {n: s for n, s in {**FP8, **change}.items() if s} or {"other": ("F32", (1,))}
    write_weights(fp8 / FP8_FILE, tensors)  # type: ignore[arg-type]
    write_index(fp8, {FP8_FILE: tensors})

    assert build(int4, fp8, tmp_path / "out") == EXIT_BAD_CONFIG
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_origin_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, fp8 = pair(tmp_path)
    sources = contents(int4), contents(fp8)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")

    for out in (int4, fp8, tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        assert build(int4, fp8, out) == EXIT_BAD_CONFIG
    assert (contents(int4), contents(fp8)) == sources
    assert contents(tmp_path / "mine") == {"thesis.txt": b"words"}
    build(int4, fp8, tmp_path / "out")
    write_weights(fp8 / FP8_FILE, FP8, seed=3)
    capsys.readouterr()
    assert build(int4, fp8, tmp_path / "out") == EXIT_BAD_CONFIG
    assert "built from other files" in capsys.readouterr().err


def test_a_truncated_source_is_found_before_anything_is_written(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    (fp8 / FP8_FILE).write_bytes((fp8 / FP8_FILE).read_bytes()[:-1])

    assert build(int4, fp8, tmp_path / "out") == EXIT_BAD_CONFIG
    assert not (tmp_path / "out").exists()


def test_peak_memory_is_far_below_one_shard(tmp_path: Path) -> None:
    int4, fp8 = pair(tmp_path)
    shard: dict[str, Spec] = {"big.qweight": ("I32", (16, MIB)), **INT4[SHARDS[0]]}
    write_big(int4 / SHARDS[0], shard)
    write_index(int4, {SHARDS[0]: shard, SHARDS[1]: INT4[SHARDS[1]]})
    script = (
        "import resource, sys\n"
        "from pipeline.checkpoints.__main__ import main\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "code = main(sys.argv[1:])\n"
        "print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    arguments = ("build-hybrid", f"int4={int4}", f"fp8={fp8}", f"out={tmp_path / 'out'}")

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    code, grown_kib = done.stdout.split()[-2:]
    assert code == "0"
    # 64 MiB in the shard; two chunks of 8 MiB may be alive at once.
    assert int(grown_kib) < 32 * 1024


def write_big(path: Path, tensors: dict[str, Spec]) -> None:
    """A file whose data is a hole, which takes no room."""
    layout = {n: (d, s, size_of([(d, s)])) for n, (d, s) in tensors.items()}
    head = render_header(layout, {"format": "pt"})
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + size_of(tensors.values()))


def test_a_checkpoint_without_any_fp8_is_not_taken_for_the_fp8_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    int4, _ = pair(tmp_path)
    assert build(int4, int4, tmp_path / "out") == EXIT_BAD_CONFIG
    assert "none of the tensors to be taken from it is FP8" in capsys.readouterr().err
