"""Eq. 5 behind a layer: the identity changes nothing, a filter undoes mixing, sizes and errors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import Transformer
from attnrate.models.build import build_model
from attnrate.models.hybrid import CausalFilter, Hybrid
from attnrate.targets import convolve, spectral_target

SIZES = {"n": 4, "m_h": 2, "m_v": 4, "width": 8, "depth": 1}
LAYERS = ("convolution", "linear_rnn", "gru")


@pytest.mark.parametrize("position", ["none", "learned"])
def test_the_identity_filter_gives_the_plain_transformer_exactly(position):
    hybrid = Hybrid(2, 1, **SIZES, position=position, length=6).double()
    plain = Transformer(2, 1, **SIZES, position=position, length=6).double()
    plain.load_state_dict(hybrid.transformer.state_dict())
    hybrid.hold_filter(torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]))
    x = torch.rand(3, 6, 2, dtype=torch.float64)
    assert torch.equal(hybrid(x), plain(x))


@given(
    st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=7),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_a_filter_is_the_convolution_by_definition(theta, length, d):
    layer = CausalFilter(d, d, len(theta)).double()
    with torch.no_grad():
        layer.K.copy_(torch.tensor(theta).double()[:, None, None] * torch.eye(d))
    x = torch.rand(2, length, d, dtype=torch.float64)
    assert torch.allclose(layer(x), convolve(theta[:length], x), atol=1e-12)


def test_a_hybrid_sees_mixed_tokens_as_the_transformer_sees_their_mixture():
    theta = [0.5, -0.25, 0.125]
    hybrid = Hybrid(1, 1, taps=3, **SIZES).double()
    hybrid.hold_filter(torch.tensor(theta))
    x = torch.rand(2, 5, 1, dtype=torch.float64)
    assert torch.allclose(hybrid(x), hybrid.transformer(convolve(theta, x)))
    trained = [name for name, one in hybrid.named_parameters() if one.requires_grad]
    assert trained
    assert not any(name.startswith("front") for name in trained)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_is_made_from_settings_and_learns(layer):
    target = spectral_target(1.0, 2, length=5).mixed([0.5, 0.5])
    model = build_model(
        {"kind": "hybrid", "layer": layer, "features": 3, "position": "learned", **SIZES}, target
    )
    out = model(target.sample(2, seed=0))
    assert out.shape == (2, 5, 1)
    out.sum().backward()
    assert all(one.grad is not None for one in model.front.parameters())


@pytest.mark.parametrize("layer", LAYERS)
def test_the_layer_reads_the_past_alone(layer):
    front = Hybrid(1, 1, layer, features=3, **SIZES).front
    x = torch.rand(1, 6, 1)
    changed = x.clone()
    changed[:, 4] += 1.0
    off = (front(x) - front(changed)).abs().amax((0, 2))
    assert (off[:4] == 0).all()
    assert (off[4:] > 0).all()


def test_what_cannot_be_held_at_a_filter_says_so():
    with pytest.raises(InputError, match="only a convolution"):
        Hybrid(1, 1, "gru", **SIZES).hold_filter(torch.ones(5))
    with pytest.raises(InputError, match="features are d"):
        Hybrid(1, 1, features=2, **SIZES).hold_filter(torch.ones(5))
    with pytest.raises(InputError, match="5 entries"):
        Hybrid(1, 1, **SIZES).hold_filter(torch.ones(4))
    with pytest.raises(InputError, match="layer"):
        Hybrid(1, 1, "lstm", **SIZES)
    with pytest.raises(InputError, match="taps"):
        Hybrid(1, 1, taps=0, **SIZES)
