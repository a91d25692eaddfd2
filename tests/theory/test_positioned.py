"""Compiled models with positions are exact in every order; relabelled models are twins."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import RelativeTransformer, Transformer
from attnrate.targets import GaussianInputs, LinearTarget, linear_target
from attnrate.theory.positioned import compile_linear, relabelled, reordered

ENCODINGS = ("learned", "sinusoidal", "shift")


def off(model, target, x):
    with torch.no_grad():
        return float((model(x) - target(x)).abs().max())


@given(
    st.sampled_from(ENCODINGS),
    st.integers(2, 12).flatmap(lambda n: st.permutations(range(n))),
    st.integers(0, 99),
)
@settings(max_examples=12, deadline=None)
def test_every_order_of_a_linear_target_has_a_model_made_from_that_of_another(kind, p, seed):
    target = linear_target({"uniform": seed}, len(p))
    M = target.matrix + np.eye(len(p))
    target = LinearTarget(M)
    x = target.sample(20, seed)
    model = compile_linear(target, kind)
    rounding = 1e-13 * np.linalg.cond(M) * M.sum(1).max() * (1e3 if kind == "sinusoidal" else 1)
    assert off(model, target, x) <= rounding
    permuted, other = target.permuted(p), reordered(model, p)
    z = x[:, list(p)]
    assert off(other, permuted, z) <= rounding
    assert off(compile_linear(permuted, kind), permuted, z) <= rounding
    # H~(x∘p) = H(x), the statement of Prop. 6.2
    torch.testing.assert_close(other(z), model(x), rtol=0, atol=rounding)


@pytest.mark.parametrize("kind", ENCODINGS)
def test_the_model_has_the_stated_size_and_the_position_that_it_names(kind):
    model = compile_linear(linear_target("exponential", 8), kind)
    assert (model.n, model.m_h, model.m_v) == (9, 8, 9)
    assert max(model.f_hat[0].out_features, model.F_hat[0].out_features) == 15
    assert type(model.position).__name__.lower().startswith({"shift": "interval"}.get(kind, kind))


def test_the_attention_is_the_matrix_with_its_rows_divided_by_their_sums():
    target = linear_target("exponential", 6)
    model, x = compile_linear(target, "shift"), target.sample(3, 0)
    expected = torch.tensor(target.matrix / target.matrix.sum(1, keepdims=True)).expand(3, 6, 6)
    torch.testing.assert_close(model.attention(x).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "law", "words"),
    [
        ([[1.0, -0.1], [0.0, 1.0]], None, "attention weights are positive"),
        ([[1.0, 1.0], [1.0, 1.0]], None, "condition number"),
        ([[1.0, 0.0], [0.0, 0.0]], None, "condition number"),
        ([[1.0, 0.0], [0.0, 1.0]], GaussianInputs(), r"uniform on \[0, 1\]"),
    ],
)
def test_targets_that_have_no_such_model_are_refused(matrix, law, words):
    with pytest.raises(InputError, match=words):
        compile_linear(LinearTarget(matrix, law), "learned")


def transformer(position, layers=1, length=7):
    torch.manual_seed(0)
    sizes = {"n": 6, "m_h": 4, "m_v": 5, "width": 9, "depth": 2}
    model = Transformer(1, 2, **sizes, position=position, length=length, layers=layers).double()
    with torch.no_grad():
        model.W_Q.weight.mul_(5.0)
    return model


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("position", ["learned", "shift"])
@given(p=st.permutations(range(7)))
@settings(max_examples=4, deadline=None)
def test_a_relabelled_model_is_the_model_in_the_other_order(position, layers, p):
    model, x = transformer(position, layers), torch.rand(4, 7, 1).double()
    with torch.no_grad():
        y, other = model(x), relabelled(model, p)
        torch.testing.assert_close(other(x[:, p]), y[:, p], rtol=0, atol=1e-11)
        assert torch.equal(model(x), y)  # the original is left as it was


def test_other_encodings_cannot_be_relabelled():
    for position in ("none", "sinusoidal"):
        with pytest.raises(InputError, match="only learned positions, the shift"):
            relabelled(transformer(position), range(7))
    with pytest.raises(InputError):
        relabelled(transformer("learned"), [0, 0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("relative", ["rotary", "alibi"])
def test_relative_positions_can_be_relabelled_for_reversed_time_only(relative):
    torch.manual_seed(0)
    model = RelativeTransformer(1, 2, n=6, m_h=4, m_v=5, width=9, relative=relative).double()
    x = torch.rand(4, 5, 1).double()
    with torch.no_grad():
        model.W_Q.weight.mul_(5.0)
        y = model(x)
        twin = relabelled(model, range(4, -1, -1))
        torch.testing.assert_close(twin(x.flip(1)), y.flip(1), rtol=0, atol=1e-12)
        assert torch.equal(relabelled(model, range(5))(x), y)
        # it is no twin by itself where past and future are told apart
        gap = float((model(x.flip(1)) - y.flip(1)).abs().max())
        assert (gap < 1e-12) == (relative == "alibi")
    with pytest.raises(InputError, match="reversal of time only"):
        relabelled(model, [1, 0, 2, 3, 4])


def test_only_the_identity_and_the_reversal_keep_distances_a_function_of_distances():
    def kept(p):
        pairs = {(t - s, p[t] - p[s]) for t in range(5) for s in range(5)}
        return len(pairs) == len({before for before, _ in pairs})

    assert [p for p in permutations(range(5)) if kept(p)] == [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0)]
