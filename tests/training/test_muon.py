"""Muon: what it applies is orthogonal up to its own constants, and of AdamW's size."""

import torch

from attnrate.training.muon import Muon, orthogonal


def test_singular_values_come_near_one_and_vectors_stay() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(3, 6, 10, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    for found, left, right in zip(orthogonal(matrices), u, v, strict=True):
        inner = left.T @ found @ right.T
        values = inner.diagonal()
        assert torch.allclose(inner, values.diag(), atol=1e-10)
        assert 0.6 < values.min() < values.max() < 1.3


def test_tall_matrices_are_treated_as_wide_ones() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(2, 9, 4, dtype=torch.float64)
    torch.testing.assert_close(orthogonal(matrices), orthogonal(matrices.mT).mT)


def test_a_step_has_the_size_of_one_of_adamw() -> None:
    weight = torch.nn.Parameter(torch.zeros(64, 64))
    weight.grad = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    Muon([weight], lr=1.0).step()
    # Liu et al.: the root mean square of an entry is 0.2
    assert 0.15 < weight.detach().pow(2).mean().sqrt() < 0.25


def test_no_step_without_a_gradient_and_decay_shrinks() -> None:
    still, moved = torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(2, 3))
    moved.grad = torch.zeros(2, 3)
    Muon([still, moved], lr=0.1, weight_decay=0.5).step()
    assert torch.equal(still.detach(), torch.ones(2, 3))
    assert torch.allclose(moved.detach(), torch.full((2, 3), 0.95))
