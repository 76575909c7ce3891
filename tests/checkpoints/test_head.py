"""What configurations promise, and which layers quantisers leave out."""

from __future__ import annotations

import pytest

from pipeline.checkpoints.exclusion import quantised_modules
from pipeline.checkpoints.head import promise
from pipeline.checkpoints.header import Tensor
from tests.checkpoints.folders import head_of

MATRIX = Tensor(dtype="BF16", shape=(2, 2), begin=0, end=8)
VECTOR = Tensor(dtype="BF16", shape=(4,), begin=0, end=8)
HEAD = {
    "mtp.fc.weight": MATRIX,
    "mtp.norm.weight": VECTOR,
    "mtp.layers.0.mlp.experts.0.up_proj.weight": MATRIX,
}
ALL = ["mtp.fc", "mtp.layers.0.mlp.experts.0.up_proj"]


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        ({"text_config": {"mtp_num_hidden_layers": 1, "num_experts": 256}}, 785),
        ({"mtp_num_hidden_layers": 1, "num_experts": 2}, 23),
        # The projection and the three outer norms are there once, whatever the number of layers.
        ({"mtp_num_hidden_layers": 2, "num_experts": 2}, 42),
        ({"num_nextn_predict_layers": 1, "n_routed_experts": 2}, 23),
        ({"mtp_num_hidden_layers": 1}, 15),
        ({"mtp_num_hidden_layers": 0, "num_experts": 256}, None),
        ({"mtp_num_hidden_layers": True, "num_experts": "many"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_tensors_by_configuration(config: dict[str, object] | None, tensors: int | None) -> None:
    assert promise(config, "mtp.").tensors == tensors


def test_fused_experts_are_two_tensors() -> None:
    fused = ["mtp.layers.0.mlp.experts.gate_up_proj", "mtp.layers.0.mlp.experts.down_proj"]
    config = {"mtp_num_hidden_layers": 1, "num_experts": 256}
    assert promise(config, "mtp.", fused).tensors == 19


def test_another_layout_is_not_counted() -> None:
    config = {"num_nextn_predict_layers": 1}
    assert promise(config, "model.mtp_layers.") == promise(config, "model.layers.61.")


def test_the_real_layout_has_what_the_configuration_promises() -> None:
    assert len(head_of(256)) == 785


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ({}, ALL),
        ({"modules_to_not_convert": ["mtp"]}, []),
        ({"modules_to_not_convert": ["lm_head"]}, ALL),
        ({"ignored_layers": ["mtp.fc"]}, ALL[1:]),
        ({"ignore": ["re:mtp.*"]}, []),
        ({"ignore": ["re:("]}, ALL),
        ({"exclude_modules": ["mtp*"]}, []),
        ({"exclude_modules": [None, 3]}, ALL),
        ({"dynamic": {"-:.*mtp.*": {}}}, []),
        ({"dynamic": {"+:.*mtp.*": {"bits": 8}}}, ALL),
        ({"block_name_to_quantize": "model.language_model.layers"}, []),
        ({"block_name_to_quantize": ["model.layers", "mtp.layers"]}, ALL[1:]),
        ({"extra_config": {"mtp.fc": {"bits": 16}}}, ALL[1:]),
        ({"extra_config": {".*mtp.*": {"bits": 16, "data_type": "fp"}}}, []),
        ({"extra_config": {".*mtp.*": {"bits": 16}, "mtp.fc": {"bits": 4}}}, ALL[:1]),
        ({"extra_config": {".*mtp.*": None}}, ALL),
    ],
)
def test_what_a_quantiser_would_take(rules: dict[str, object], left: list[str]) -> None:
    assert quantised_modules(rules, HEAD) == left
