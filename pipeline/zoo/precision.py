"""The type that products are computed in: the engine's bf16 where this processor multiplies it.

Elsewhere (x86 without AVX-512) PyTorch takes seven times as long for a product of bf16 matrices as
for one of fp32, and rounds more often than the engine does.
"""

from __future__ import annotations

import torch

PRODUCTS: torch.dtype = (
    torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
)


def products() -> torch.autocast:
    """A context in which linear layers with fp32 weights compute in `PRODUCTS`."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=torch.bfloat16 == PRODUCTS)
