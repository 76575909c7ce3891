from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from pipeline.zoo import catalogue, drafters
from pipeline.zoo.block import DEPTH
from pipeline.zoo.errors import TamperedFileError
from pipeline.zoo.lm import HIDDEN
from pipeline.zoo.storage import sha256_of
from pipeline.zoo.train import CLASSES

IDS = torch.tensor([0, 1, 2, 17, 300, 48_000])


@pytest.fixture(scope="module")
def embedding(target_folder: Path) -> torch.Tensor:
    weights = load_file(target_folder / "model.safetensors")
    tensor: torch.Tensor = weights["model.embed_tokens.weight"]
    return tensor


def assembled(method: str, embedding: torch.Tensor, folder: Path, target_folder: Path) -> Path:
    """A checkpoint of an untrained head."""
    width = HIDDEN * len(drafters.AUX_LAYERS)
    exported = CLASSES[method](embedding, torch.ones(width)).export()
    tensors = {name: t.detach().to(torch.bfloat16).contiguous() for name, t in exported.items()}
    if method != "mtp":
        tensors["d2t"] = IDS - torch.arange(len(IDS))
    save_file(tensors, folder / "head.safetensors")
    out = folder / "checkpoint"
    out.mkdir()
    drafters.write_drafter(method, folder / "head.safetensors", out, target_folder)
    return out


@pytest.mark.parametrize("method", ["eagle3", "dflash"])
def test_a_reduced_language_model_head_is_rows_of_the_targets_embedding(
    method: str, embedding: torch.Tensor, tmp_path: Path, target_folder: Path
) -> None:
    folder = assembled(method, embedding, tmp_path, target_folder)

    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())

    assert torch.equal(tensors["lm_head.weight"], embedding[IDS])
    assert config["draft_vocab_size"] == len(IDS)
    assert config["num_hidden_layers"] == {"eagle3": 1, "dflash": DEPTH}[method]
    assert not any("embed_tokens" in name for name in tensors)


def test_eagle3_and_dflash_read_the_same_layers_in_their_own_numbering(
    embedding: torch.Tensor, tmp_path: Path, target_folder: Path
) -> None:
    for method in ("eagle3", "dflash"):
        (tmp_path / method).mkdir()
    eagle3 = assembled("eagle3", embedding, tmp_path / "eagle3", target_folder)
    dflash = assembled("dflash", embedding, tmp_path / "dflash", target_folder)

    read = json.loads((eagle3 / "config.json").read_text())["eagle_aux_hidden_state_layer_ids"]
    config = json.loads((dflash / "config.json").read_text())["dflash_config"]

    assert [layer + 1 for layer in config["target_layer_ids"]] == read
    mask = torch.load(dflash / "mask_embedding.pt", weights_only=True)
    assert mask["mask_token_id"] == config["mask_token_id"]
    assert mask["embedding"].shape == (HIDDEN,)


def test_eagle3_asks_the_engine_for_no_norm_that_was_not_trained(
    embedding: torch.Tensor, tmp_path: Path, target_folder: Path
) -> None:
    folder = assembled("eagle3", embedding, tmp_path, target_folder)

    config = json.loads((folder / "config.json").read_text())

    # Each of these adds weights of one that no loader misses, or feeds back another state.
    assert not {"fc_norm", "norm_before_fc", "norm_output", "norm_before_residual"} & set(config)


def test_the_mtp_twin_is_the_target_with_a_layer_beside_it(
    embedding: torch.Tensor, tmp_path: Path, target_folder: Path
) -> None:
    folder = assembled("mtp", embedding, tmp_path, target_folder)

    target = load_file(target_folder / "model.safetensors")
    twin = load_file(folder / "model.safetensors")
    added = set(twin) - set(target)
    biases = {name for name in added if name.endswith(".bias") and "mtp" not in name}

    assert all(torch.equal(twin[name], target[name]) for name in target)
    assert all(not twin[name].any() for name in biases)
    assert len(biases) == 3 * 30
    assert torch.equal(twin["lm_head.weight"], embedding)
    assert {name for name in added - biases if not name.startswith("model.mtp_layers.0.")} == {
        "lm_head.weight"
    }
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["MiMoForCausalLM"]
    assert (folder / "tokenizer.json").exists()


@pytest.mark.parametrize("method", ["mtp", "eagle3", "dflash"])
def test_a_drafter_reads_text_as_the_target_does(
    method: str, embedding: torch.Tensor, tmp_path: Path, target_folder: Path
) -> None:
    folder = assembled(method, embedding, tmp_path, target_folder)
    # Blank lines, digits and contractions are where the families of tokenizers differ.
    text = 'Read this.\n\n"Hello", she said:\n\n  we\'ll pay 1234 for 5.'

    ours, theirs = (AutoTokenizer.from_pretrained(f) for f in (folder, target_folder))

    assert ours.encode(text) == theirs.encode(text)


def test_all_heads_together_are_small_enough_to_ship() -> None:
    assert sum(head.path.stat().st_size for head in drafters.HEADS) <= 40_000_000


@pytest.mark.parametrize("head", drafters.HEADS, ids=lambda head: head.method)
def test_a_shipped_head_is_the_one_its_digest_names_and_has_a_card(head: drafters.Head) -> None:
    assert sha256_of(head.path) == head.sha256
    card = head.path.with_suffix(".md").read_text(encoding="utf-8")
    for said in ("Apache-2.0", "seed", "acceptance", head.sha256[:12]):
        assert said in card


def test_a_tampered_head_is_refused_in_one_sentence(
    tmp_path: Path, target_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafters, "WEIGHTS", tmp_path)
    (tmp_path / "eagle3.safetensors").write_bytes(b"something else")
    head = drafters.Head("eagle3", "0" * 64, 0)

    with pytest.raises(TamperedFileError, match=r"eagle3\.safetensors.*damaged or altered"):
        drafters.assemble(head, tmp_path, target_folder, lambda _: None)


@pytest.mark.parametrize("head", drafters.HEADS, ids=lambda head: head.method)
def test_every_shipped_head_materialises(
    head: drafters.Head, cache: Path, target_folder: Path
) -> None:
    name = f"{catalogue.TARGET}-{head.method}"

    folder = catalogue.materialise(name, cache_dir=cache, progress=lambda _: None)

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in folder.iterdir()
    }
