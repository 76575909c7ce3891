"""From a shipped head to a checkpoint that the engine loads.

A head is shipped without what the target already holds: the rows of a reduced `lm_head` are rows
    of the target's embedding, named by `d2t`, and the MTP twin is the whole target with the head
    beside it. Both are put together in the cache.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.zoo.progress import Step
from pipeline.zoo.storage import verify_file, weights_written
from pipeline.zoo.target import CONFIG, write_json

WEIGHTS = Path(__file__).parent / "weights"
LAYOUT = "3"
"""Version of the assembled layout; part of every drafter's digest."""
AUX_LAYERS = (2, 15, 27, 30)
"""Decoder layers whose incoming residual stream the EAGLE3 and DFlash heads read (30: the last
output)."""
MASK_TOKEN = 4
"""A reserved token that never occurs in text; DFlash's masked slots carry it."""
BLOCK = 8
"""Slots of a DFlash block: the last accepted token and up to seven drafted ones."""
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


@dataclass(frozen=True)
class Head:
    """A trained head of the package.

    Attributes:
        method: vLLM's name of the method, also the suffix of the checkpoint's name.
        sha256: of the shipped file.
        needed_bytes: room for the assembled checkpoint.
    """

    method: str
    sha256: str
    needed_bytes: int

    @property
    def path(self) -> Path:
        """The shipped file."""
        return WEIGHTS / f"{self.method}.safetensors"

    def verify(self) -> None:
        """Read the shipped file.

        Raises:
            TamperedFileError: it is missing or altered.
        """
        verify_file(self.path, self.sha256, "reinstall spec-decode-pipeline")


HEADS: tuple[Head, ...] = (
    Head("mtp", "c1086b11f7df6035337efe954f6d8d8d92d68abf656a9e9d1e520c1d38abddc2", 400_000_000),
    Head("eagle3", "8413d8e935aa08ec4806cf5b43eb3acd2486507e78528d820d06404791bc33cf", 60_000_000),
    Head("dflash", "732c84982307d5400fb9c4f50ca506f1be47c941c5ff051fa50efb326941c423", 60_000_000),
)


def assemble(head: Head, folder: Path, target_folder: Path, step: Step) -> None:
    """Write the checkpoint of a shipped head into `folder`.

    Raises:
        TamperedFileError: the shipped file is missing or altered.
    """
    head.verify()
    write_drafter(head.method, head.path, folder, target_folder)
    step(1.0)


def write_drafter(method: str, weights: Path, folder: Path, target_folder: Path) -> None:
    """Assemble any head's weights (shipped, or just trained) into `folder`.

    Args:
        method: mtp, eagle3 or dflash.
        weights: safetensors file as written by the training.
        folder: where the checkpoint goes.
        target_folder: the converted target.
    """
    from safetensors.torch import load_file, save_file

    tensors = load_file(weights)
    base = load_file(target_folder / "model.safetensors")
    embedding = base["model.embed_tokens.weight"]
    if method == "mtp":
        tensors = _with_target(tensors, base)
    else:
        tensors["lm_head.weight"] = embedding[target_ids(tensors["d2t"])].contiguous()
    if method == "dflash":
        _write_mask(tensors.pop("mask_embedding"), folder)
    path = folder / "model.safetensors"
    with weights_written(path):
        save_file(tensors, path, metadata={"format": "pt"})
    write_json(folder / "config.json", drafter_config(method, tensors))
    if method == "mtp":
        shutil.copy(target_folder / "generation_config.json", folder)
    for name in TOKENIZER_FILES:
        shutil.copy(target_folder / name, folder)


def drafter_config(method: str, tensors: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter, with sizes taken from its tensors."""
    if method == "mtp":
        return {
            **CONFIG,
            "architectures": ["MiMoForCausalLM"],
            # vLLM reads the layout from the architecture; `mimo` itself is no registered type. Of
            # `qwen2`, transformers would split text in Qwen2's way, whatever tokenizer.json says.
            "model_type": "llama",
            "num_nextn_predict_layers": 1,
            "attention_bias": True,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
        }
    common = {
        **CONFIG,
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "target_hidden_size": CONFIG["hidden_size"],
        "draft_vocab_size": int(tensors["d2t"].shape[0]),
    }
    if method == "eagle3":
        return {
            **common,
            "architectures": ["LlamaForCausalLMEagle3"],
            "eagle_aux_hidden_state_layer_ids": list(AUX_LAYERS),
            "num_aux_hidden_states": len(AUX_LAYERS),
        }
    layers = block_layers(tensors)
    return {
        **common,
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": layers,
        "layer_types": ["full_attention"] * layers,
        "block_size": BLOCK,
        "dflash_config": {
            "mask_token_id": MASK_TOKEN,
            "target_layer_ids": [layer - 1 for layer in AUX_LAYERS],
        },
    }


def block_layers(tensors: Iterable[str]) -> int:
    """Layers of a DFlash head, from the names of its tensors."""
    return 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))


def target_ids(d2t: Any) -> Any:
    """Target ids of the reduced vocabulary: i + d2t[i]."""
    import torch

    return torch.arange(d2t.shape[0]) + d2t


def _with_target(head: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The target in Qwen2's layout (zero biases, untied head) and the MTP layer beside it."""
    import torch

    merged = {**base, **{f"model.mtp_layers.0.{name}": head[name] for name in head}}
    merged["lm_head.weight"] = base["model.embed_tokens.weight"].clone()
    for name in base:
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            rows = base[name].shape[0]
            merged[name.replace(".weight", ".bias")] = torch.zeros(rows, dtype=torch.bfloat16)
    return merged


def _write_mask(embedding: Any, folder: Path) -> None:
    import torch

    content = {"mask_token_id": MASK_TOKEN, "embedding": embedding}
    torch.save(content, folder / "mask_embedding.pt")
