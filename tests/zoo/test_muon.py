import pytest
import torch

from pipeline.zoo import muon
from pipeline.zoo.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32)])
def test_without_bf16_a_step_is_that_of_pytorch_within_its_rounding(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muon, "PRODUCTS", torch.float32)
    torch.manual_seed(0)
    begin = torch.randn(shape)
    ours, theirs = (torch.nn.Parameter(begin.clone()) for _ in range(2))
    optimizers = (
        Muon([ours], 0.1, 0.1),
        torch.optim.Muon([theirs], 0.1, 0.1, adjust_lr_fn="match_rms_adamw"),
    )
    for _ in range(3):
        gradient = torch.randn(shape)
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    moved = theirs - begin
    assert (ours - theirs).norm() < 0.02 * moved.norm()
    assert optimizers[0].state_dict()["state"].keys() == optimizers[1].state_dict()["state"].keys()


def test_singular_values_come_near_one() -> None:
    made = orthogonalised(torch.randn(24, 12), (3.4445, -4.7750, 2.0315), 5, 1e-7)
    values = torch.linalg.svdvals(made)
    assert float(values.min()) > 0.4
    assert float(values.max()) < 1.6
