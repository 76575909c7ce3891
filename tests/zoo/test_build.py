"""A tiny build, killed half way: what was done is kept, and the same command finishes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline.zoo import build
from pipeline.zoo.corpus import read_round
from pipeline.zoo.evaluate import load_head
from pipeline.zoo.hidden import open_states
from pipeline.zoo.overlap import Overlap, bundled_texts


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, cache: Path, target_folder: Path) -> Path:
    """The work folder of a build that was killed after its text and then run to its end."""
    work = tmp_path_factory.mktemp("build") / "work"
    out = work.parent / "heads"
    words = [sys.executable, "-m", "pipeline.zoo", "build", "budget=0.05"]
    words += [f"work={work}", f"out={out}", "seed=3"]
    environment = {**os.environ, "SPEC_DECODE_PIPELINE_CACHE": str(cache)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    while not (work / "round-0000.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    (work / "written").write_text(str((work / "round-0000.jsonl").stat().st_mtime_ns))
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(method in done.stdout for method in ("eagle3", "mtp", "dflash"))
    return work


def test_text_written_before_the_kill_is_kept(work: Path) -> None:
    first = work / "round-0000.jsonl"

    assert str(first.stat().st_mtime_ns) == (work / "written").read_text()


def test_a_round_is_as_large_as_the_machine_is_fast(tmp_path: Path) -> None:
    assert build.round_size(tmp_path, 0.0, 480.0) == 64
    assert build.round_size(tmp_path, 0.0, 1.2) == 8
    row = '{"text": "a"}\n'
    (tmp_path / "round-0000.jsonl").write_text(60 * row)

    assert build.round_size(tmp_path, 30.0, 480.0) == 240  # 2 prompts a second for two minutes
    assert build.round_size(tmp_path, 300.0, 480.0) == 24
    assert build.round_size(tmp_path, 30.0, 40.0) == 20  # the time that is left
    assert build.round_size(tmp_path, 0.5, 480.0) == 512


def test_every_head_is_trained_and_copied_out(work: Path) -> None:
    for method in ("eagle3", "mtp", "dflash"):
        tensors = load_file(work.parent / "heads" / f"{method}.safetensors")

        assert all(t.dtype == torch.bfloat16 for name, t in tensors.items() if name != "d2t")
        assert ("d2t" in tensors) == (method != "mtp")
        assert torch.load(work / f"{method}.pt", weights_only=True)["step"] >= 1


def test_a_written_head_can_be_read_back(work: Path, target_folder: Path) -> None:
    embedding = build.load_target(target_folder)["model.embed_tokens.weight"]

    head, vocabulary = load_head("eagle3", work / "eagle3.safetensors", embedding)

    assert len(vocabulary.sorted_ids) == build.DRAFT_VOCABULARY
    assert all(torch.isfinite(parameter).all() for parameter in head.parameters())


def test_the_states_belong_to_the_texts(work: Path) -> None:
    samples = read_round(work / "round-0000.jsonl")
    states = open_states(work / "round-0000.jsonl")

    assert len(states) == len(samples)
    for i, sample in enumerate(samples):
        text = states.tokens[states.starts[i] : states.starts[i + 1]]
        assert tuple(text) == sample.prompt + sample.answer
        assert states.kinds[i] == sample.kind


def test_no_sample_shares_a_run_of_words_with_a_bundled_prompt(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = read_round(work / "round-0000.jsonl")
    overlap = Overlap(bundled_texts())
    part = build.read_parts(work)[0]
    assert not any(overlap.shared(samples[i].text) for i in part.training + part.held_out)

    monkeypatch.setattr(build, "bundled_texts", lambda: [samples[1].text])

    assert 1 not in build.read_parts(work)[0].training


def test_held_out_samples_are_not_trained_on(work: Path) -> None:
    part = build.read_parts(work)[0]

    assert part.held_out
    assert not set(part.held_out) & set(part.training)


def test_the_draft_vocabulary_begins_with_the_frequent_tokens(work: Path) -> None:
    parts = build.read_parts(work)

    ids = build.draft_ids("eagle3", parts, 49_152)

    assert len(set(ids.tolist())) == build.DRAFT_VOCABULARY
    assert len(build.draft_ids("mtp", parts, 49_152)) == 49_152
