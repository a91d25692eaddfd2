"""Eq. 5 with F = f = id: an average of the inputs, whatever the coupling."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.fitting.fit import fit
from attnrate.models import CouplingTransformer, Transformer
from attnrate.targets import spectral_target


def test_its_output_is_the_inputs_averaged_by_its_attention() -> None:
    model = CouplingTransformer(2, 2, n=5, m_h=3, width=8, depth=2)
    x = torch.rand(7, 6, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(model(x), model.attention(x) @ x, atol=1e-6)
        assert torch.equal(model.pointwise(x[0]), x[0])


def test_training_leaves_the_values_alone_and_lowers_the_error() -> None:
    target = spectral_target(1.0, 2, length=8)
    untrained = fit(target, lambda: CouplingTransformer(1, 1, m_h=2), steps=1)
    trained = fit(target, lambda: CouplingTransformer(1, 1, m_h=2), steps=400)
    assert isinstance(trained.model, CouplingTransformer)
    weight = trained.model.W_V.weight
    assert torch.equal(weight, torch.eye(1, weight.shape[1]))
    assert trained.error < untrained.error / 5


def test_a_linear_readout_is_one_affine_map() -> None:
    model = Transformer(3, 2, m_v=4, readout="linear")
    assert isinstance(model.F_hat, torch.nn.Linear)
    assert tuple(model.F_hat.weight.shape) == (2, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CouplingTransformer(2, 1),
        lambda: CouplingTransformer(1, 1, m_h=0),
        lambda: CouplingTransformer(1, 1, width="wide"),
        lambda: Transformer(1, 1, readout="quadratic"),
    ],
)
def test_wrong_requests_are_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()
