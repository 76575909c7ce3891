from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pipeline.zoo.acceptance import Counts
from pipeline.zoo.arguments import EvaluateArguments
from pipeline.zoo.drafters import AUX_LAYERS
from pipeline.zoo.enginecount import Asked
from pipeline.zoo.evaluate import Comparison, compare, greedy_states, lines
from pipeline.zoo.heads import Mtp
from pipeline.zoo.lm import HIDDEN, Target

PROMPT = (1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28)


def test_sides_that_differ_by_more_than_the_tolerance_do_not_agree() -> None:
    offline = {"code": Counts(100, (50, 20)), "chat": Counts(100, (30, 10))}
    near = {"code": Counts(110, (54, 22)), "chat": Counts(90, (28, 9))}
    far = {"code": Counts(100, (40, 10)), "chat": Counts(100, (30, 10))}

    assert Comparison("mtp", offline, near).agrees()
    assert not Comparison("mtp", offline, far).agrees()
    assert Comparison("mtp", offline, far).gap() == pytest.approx(0.05)
    assert Comparison("mtp", offline, None).agrees()


def test_the_table_sums_structured_kinds_and_all() -> None:
    counts = {"code": Counts(10, (5,)), "json": Counts(10, (7,)), "chat": Counts(20, (2,))}

    table = lines(Comparison("eagle3", counts, None))

    assert [line.split()[2] for line in table] == ["code", "json", "chat", "code+json+math", "all"]
    assert table[3].split()[-1] == "0.600"
    assert table[4].split()[-1] == "0.350"


class Recorder:
    """An engine that counts nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Path, dict[str, Any]]] = []

    def run(
        self,
        checkpoint: Path,
        speculative: dict[str, Any],
        prompts: Sequence[Asked],
        max_tokens: int,
    ) -> dict[str, Counts]:
        self.asked.append((checkpoint, speculative))
        return {"code": Counts(10, (1,) * int(speculative["num_speculative_tokens"]))}


def test_the_engine_is_given_the_twin_for_mtp(tmp_path: Path, target_folder: Path) -> None:
    target = Target.load(target_folder)
    asked = [Asked("code", PROMPT), Asked("chat", PROMPT[:9])]
    states = greedy_states(target, asked, 10, tmp_path / "states")
    head = Mtp(target.embedding, torch.ones(HIDDEN * len(AUX_LAYERS)))
    tensors = {name: t.detach().contiguous() for name, t in head.export().items()}
    save_file(tensors, tmp_path / "mtp.safetensors")
    engine = Recorder()
    folders = (target_folder, tmp_path / "twin")

    found = compare(
        "mtp", tmp_path / "mtp.safetensors", target, states, asked, 2, 10, engine, folders
    )

    assert engine.asked == [(folders[1], {"method": "mtp", "num_speculative_tokens": 2})]
    assert set(found.offline) <= {"code", "chat"}
    assert all(len(counts.accepted) == 2 for counts in found.offline.values())


def test_arguments_have_sensible_defaults() -> None:
    assert EvaluateArguments().methods == "mtp,eagle3,dflash"
    assert (EvaluateArguments().heads / "..").resolve().name == "zoo"
