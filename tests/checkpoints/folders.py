"""Checkpoints of a few real bytes, in the layouts that publishers use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import pytest

from pipeline.checkpoints.__main__ import main

INDEX = "model.safetensors.index.json"
BACKUP = f"{INDEX}.before-mtp"
EXTRA = "model_extra_tensors.safetensors"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
BYTES = {"BF16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1}

Spec = tuple[str, tuple[int, ...]]


def head_of(experts: int = 256) -> dict[str, Spec]:
    """The names of Qwen3.5's MTP head; the shapes are tiny, a vector stays a vector."""
    layer = "mtp.layers.0."
    vectors = [
        *("mtp.norm", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden"),
        *(layer + n for n in ("input_layernorm", "post_attention_layernorm")),
        *(layer + n for n in ("self_attn.q_norm", "self_attn.k_norm")),
    ]
    gated = ("gate_proj", "up_proj", "down_proj")
    matrices = [
        "mtp.fc",
        *(layer + f"self_attn.{n}_proj" for n in "qkvo"),
        *(layer + n for n in ("mlp.gate", "mlp.shared_expert_gate")),
        *(layer + f"mlp.shared_expert.{n}" for n in gated),
        *(layer + f"mlp.experts.{e}.{n}" for e in range(experts) for n in gated),
    ]
    return {
        **{f"{name}.weight": ("BF16", (2,)) for name in vectors},
        **{f"{name}.weight": ("BF16", (2, 2)) for name in matrices},
    }


def body() -> dict[str, dict[str, Spec]]:
    """Two shards of a target, by file."""
    return {
        SHARDS[0]: {"model.embed_tokens.weight": ("BF16", (4, 2)), "a.weight": ("F32", (3,))},
        SHARDS[1]: {"lm_head.weight": ("BF16", (4, 2))},
    }


def write_weights(path: Path, tensors: Mapping[str, Spec], seed: int = 0) -> Path:
    """A safetensors file whose bytes tell its tensors apart; written by hand, not by the tool."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for number, (name, (dtype, shape)) in enumerate(tensors.items()):
        size = prod(shape) * BYTES[dtype]
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + size],
        }
        data += bytes((seed + number + at) % 256 for at in range(size))
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def size_of(tensors: Iterable[Spec]) -> int:
    return sum(prod(shape) * BYTES[dtype] for dtype, shape in tensors)


def write_index(folder: Path, files: Mapping[str, Iterable[str]], **more: object) -> Path:
    path = folder / INDEX
    weight_map = {name: file for file, names in files.items() for name in names}
    metadata = {"total_size": 0, "made_by": "someone", **more}
    path.write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}), encoding="utf-8")
    return path


def config_of(experts: int = 256, **more: object) -> dict[str, object]:
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "text_config": {"mtp_num_hidden_layers": 1, "num_experts": experts},
        **more,
    }


def write_config(folder: Path, config: Mapping[str, object]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def trap(folder: Path, experts: int = 256, extra: str | None = EXTRA) -> Path:
    """The checkpoint of the trap: two shards, an index without the head, the head beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (file, tensors) in enumerate(body().items()):
        write_weights(folder / file, tensors, seed=number)
    total = size_of(spec for tensors in body().values() for spec in tensors.values())
    write_index(folder, body(), total_size=total)
    write_config(folder, config_of(experts))
    if extra:
        write_weights(folder / extra, head_of(experts), seed=7)
    return folder


def hub_cache(root: Path, experts: int = 256) -> tuple[Path, Path]:
    """A snapshot of links and the blob store they lead to."""
    repository = root / "models--Someone--Model-INT4"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    trap(blobs, experts)
    for number, name in enumerate(sorted(path.name for path in blobs.iterdir())):
        (blobs / name).rename(blobs / f"blob{number}")
        (snapshot / name).symlink_to(f"../../blobs/blob{number}")
    return snapshot, blobs


def contents(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder: bytes of files, texts of links."""
    return {
        path.name: f"-> {path.readlink()}" if path.is_symlink() else path.read_bytes()
        for path in folder.iterdir()
    }


def index_of(folder: Path) -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = json.loads((folder / INDEX).read_bytes())
    return loaded


HEAD = head_of(2)


def register(folder: Path, *more: str) -> int:
    return main(["register-mtp", str(folder), *more])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Everything that was printed."""
    captured = capsys.readouterr()
    return captured.out + captured.err
