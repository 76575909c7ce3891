"""Tokenizer files of the target, rebuilt from the vocabulary inside the GGUF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CONTROL = 3
"""GGUF token type of control tokens (`<|im_start|>` and friends)."""


def write_tokenizer(reader: Any, folder: Path) -> None:
    """Write tokenizer.json, its configuration with the chat template, and the special tokens."""
    tokens: list[str] = reader.get_field("tokenizer.ggml.tokens").contents()
    types: list[int] = reader.get_field("tokenizer.ggml.token_type").contents()
    merges: list[str] = reader.get_field("tokenizer.ggml.merges").contents()
    special = [i for i, kind in enumerate(types) if kind == _CONTROL]
    _byte_level_bpe(tokens, merges, special).save(str(folder / "tokenizer.json"))
    template = reader.get_field("tokenizer.chat_template").contents()
    names = {"bos_token": 1, "eos_token": 2, "unk_token": 0, "pad_token": 2}
    named = {key: tokens[i] for key, i in names.items()}
    config = {
        "added_tokens_decoder": {str(i): _added(tokens[i]) for i in special},
        "add_prefix_space": False,
        "additional_special_tokens": [tokens[1], tokens[2]],
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 8192,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
    }
    _write(folder / "tokenizer_config.json", config)
    _write(folder / "special_tokens_map.json", named)
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _byte_level_bpe(tokens: list[str], merges: list[str], special: list[int]) -> Any:
    """Byte-level BPE that splits numbers into digits, as SmolLM2 was trained with."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: i for i, token in enumerate(tokens)}
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(tokens[i], special=True, normalized=False) for i in special]
    )
    return tokenizer


def _added(content: str) -> dict[str, object]:
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"content": content, **flags, "special": True}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
