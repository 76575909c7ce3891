"""An INT4 checkpoint with the head in an extra file, and the FP8 checkpoint of the same model."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoints.folders import (
    EXTRA,
    SHARDS,
    Spec,
    config_of,
    head_of,
    write_config,
    write_index,
    write_weights,
)

FP8_FILE = "fp8-00001-of-00001.safetensors"
LAYER = "model.layers.0."
INT4: dict[str, dict[str, Spec]] = {
    SHARDS[0]: {
        f"{LAYER}self_attn.q_proj.weight": ("BF16", (4, 8)),
        f"{LAYER}input_layernorm.weight": ("BF16", (8,)),
        f"{LAYER}mlp.experts.0.up_proj.qweight": ("I32", (8, 8)),
        f"{LAYER}mlp.experts.0.up_proj.scales": ("BF16", (1, 8)),
    },
    SHARDS[1]: {
        f"{LAYER}mlp.shared_expert.up_proj.weight": ("BF16", (4, 4)),
        "model.embed_tokens.weight": ("BF16", (6, 4)),
    },
}
FP8: dict[str, Spec] = {
    f"{LAYER}self_attn.q_proj.weight": ("F8_E4M3", (4, 8)),
    f"{LAYER}self_attn.q_proj.weight_scale_inv": ("BF16", (1, 1)),
    f"{LAYER}input_layernorm.weight": ("BF16", (8,)),
    f"{LAYER}mlp.shared_expert.up_proj.weight": ("F8_E4M3", (4, 4)),
    f"{LAYER}mlp.shared_expert.up_proj.weight_scale_inv": ("F32", (1, 1)),
    f"{LAYER}mlp.experts.0.up_proj.weight": ("F8_E4M3", (8, 8)),
    f"{LAYER}mlp.experts.0.up_proj.weight_scale_inv": ("BF16", (1, 1)),
    "mtp.fc.weight": ("F8_E4M3", (2, 2)),
    "mtp.fc.weight_scale_inv": ("BF16", (1, 1)),
}


def pair(root: Path) -> tuple[Path, Path]:
    """Both folders. The INT4 index leaves the head out, as in the trap."""
    int4, fp8 = root / "int4", root / "fp8"
    int4.mkdir()
    fp8.mkdir()
    for number, (file, tensors) in enumerate(INT4.items()):
        write_weights(int4 / file, tensors, seed=number)
    write_index(int4, INT4)
    write_weights(int4 / EXTRA, head_of(2), seed=90)
    quantised = {"quant_method": "auto-round", "bits": 4, "block_name_to_quantize": "model.layers"}
    write_config(int4, config_of(2, quantization_config=quantised))
    (int4 / "tokenizer.json").write_text('{"kind": "a tokenizer"}')
    (int4 / ".hidden").write_text("not for others")
    write_weights(fp8 / FP8_FILE, FP8, seed=150)
    write_index(fp8, {FP8_FILE: FP8})
    write_config(fp8, config_of(2))
    return int4, fp8
