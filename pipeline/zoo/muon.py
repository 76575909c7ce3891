"""Muon whose products are computed in `PRODUCTS`."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from pipeline.zoo.precision import PRODUCTS


class Muon(torch.optim.Muon):
    """PyTorch's own Muon, which multiplies in bf16 on every processor, without that.

    A step takes fifteen times as long where the processor has no bf16. The learning rate is that of
    AdamW (`adjust_lr_fn="match_rms_adamw"`), the momentum Nesterov's; both are PyTorch's formulas.
    """

    def __init__(self, params: list[torch.nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(params, lr, weight_decay, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every matrix that has a gradient; `closure` is for a processor with bf16 alone."""
        if torch.bfloat16 == PRODUCTS:
            loss: float | None = super().step(closure)
            return loss
        assert closure is None, "nobody here evaluates a model within a step"
        for group in self.param_groups:
            for matrix in (p for p in group["params"] if p.grad is not None):
                self._update(matrix, group)
        return None

    def _update(self, matrix: Tensor, group: dict[str, Any]) -> None:
        assert matrix.grad is not None
        lr, momentum = group["lr"], group["momentum"]
        state = self.state[matrix]
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(matrix.grad))
        buffer.lerp_(matrix.grad, 1 - momentum)
        towards = matrix.grad.lerp(buffer, momentum)
        update = orthogonalised(towards, group["ns_coefficients"], group["ns_steps"], group["eps"])
        matrix.mul_(1 - lr * group["weight_decay"])
        matrix.add_(update, alpha=-lr * 0.2 * sqrt(max(matrix.shape)))


def orthogonalised(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """[M, N] → a matrix with its singular vectors and singular values near one, by the quintic
    Newton-Schulz iteration of Jordan 2024 (kellerjordan.github.io/posts/muon), in fp32."""
    a, b, c = coefficients
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if matrix.shape[0] > matrix.shape[1] else x
