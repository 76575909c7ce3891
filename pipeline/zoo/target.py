"""The zoo's target: SmolLM2-135M-Instruct as a bf16 checkpoint that any engine loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.zoo import packaged
from pipeline.zoo.errors import TamperedFileError
from pipeline.zoo.progress import Step
from pipeline.zoo.storage import sha256_of, weights_written
from pipeline.zoo.tokenizer import write_tokenizer

WEIGHTS_SHA256 = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
NEEDED_BYTES = 400_000_000

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 49152,
}
GENERATION = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "do_sample": False}


def write_target(folder: Path, step: Step) -> None:
    """Convert the packaged GGUF into `folder`.

    Raises:
        SourcePackageMissingError, TamperedFileError: no source, or not the known one.
    """
    from safetensors.torch import save_file

    reader = packaged.open_reader(packaged.locate())
    weights: dict[str, Any] = {}
    for name, tensor in packaged.tensors(reader):
        weights[name] = tensor
        step(0.9 * len(weights) / packaged.TENSORS)
    path = folder / "model.safetensors"
    with weights_written(path):
        save_file(weights, path, metadata={"format": "pt"})
    found = sha256_of(path)
    if found != WEIGHTS_SHA256:
        # The conversion is exact arithmetic: other bytes mean that a library rounds differently.
        raise TamperedFileError(
            path, WEIGHTS_SHA256, found, "report the versions of gguf and torch"
        )
    write_json(folder / "config.json", CONFIG)
    write_json(folder / "generation_config.json", GENERATION)
    write_tokenizer(reader, folder)
    step(1.0)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write indented JSON with a final newline."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
