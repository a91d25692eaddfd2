"""Eq. 8: values by hand, rows that sum to one, equivariance, and what a target refuses."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    AttentionTarget,
    FunctionCoupling,
    PositionedInputs,
    Target,
    UniformInputs,
    form,
    identity,
    spectral_target,
)


def product(u, v):
    return (u * v).sum(-1)


def test_eq_8_by_hand():
    target = AttentionTarget(
        F=torch.exp, f=lambda x: x**2, rho=lambda u, v: (u[..., 0] - v[..., 0]) * 2, length=2
    )
    a, b = 0.3, 0.8
    x = torch.tensor([[[a], [b]]], dtype=torch.float64)
    # the factor e^{2u} cancels, so both rows weigh position s by e^{-2 x(s)}
    weights = np.exp([-2 * a, -2 * b]) / np.exp([-2 * a, -2 * b]).sum()
    np.testing.assert_allclose(target.logits(x)[0], [[0, 2 * (a - b)], [2 * (b - a), 0]])
    np.testing.assert_allclose(target.attention(x)[0], [weights, weights], rtol=1e-14)
    expected = weights @ [a**2, b**2]
    np.testing.assert_allclose(target.inner(x)[0, :, 0], [expected, expected], rtol=1e-14)
    np.testing.assert_allclose(target(x)[0, :, 0], np.exp([expected, expected]), rtol=1e-14)


@pytest.mark.parametrize(("alpha", "rank"), [(0.55, 2), (1, 6), (1.0, 70)])
def test_fig_1_target_is_eq_8_written_out_in_loops(alpha, rank):
    target = spectral_target(alpha, rank, length=5)
    x = target.sample(2, seed=1)
    for n, t in np.ndindex(2, 5):
        logits = []
        for s in range(5):
            u, v = x[n, t, 0].item(), x[n, s, 0].item()
            logits.append(
                math.fsum(
                    k**-alpha * 2 * math.sin(2 * math.pi * k * u) * math.sin(2 * math.pi * k * v)
                    for k in range(1, rank + 1)
                )
            )
        weights = [math.exp(z - max(logits)) for z in logits]
        y = sum(w * x[n, s, 0].item() for s, w in enumerate(weights)) / sum(weights)
        assert abs(target(x)[n, t, 0].item() - y) < 1e-11


def test_the_fig_1_target_has_the_paper_s_settings():
    target = spectral_target(1.0, 6)
    assert (target.length, target.d, target.out) == (16, 1, 1)
    assert target.inputs == UniformInputs()


def test_hard_max_gives_all_to_the_largest_and_shares_ties_equally():
    target = AttentionTarget(
        identity, identity, lambda u, v: v[..., 0] + 0 * u[..., 0], 4, normalise="hardmax"
    )
    x = torch.tensor([[0.1, 0.9, 0.9, 0.2], [0.5, 0.5, 0.5, 0.5], [0.0, 0.1, 0.2, 0.7]]).double()
    rows = target.attention(x[..., None])[:, 0]
    np.testing.assert_array_equal(rows, [[0, 0.5, 0.5, 0], [0.25] * 4, [0, 0, 0, 1]])


def test_softening_tends_to_hard_max():
    hard = AttentionTarget(identity, identity, product, 6, normalise="hardmax")
    x = hard.sample(20, seed=0)
    gaps = [(hard.softened(b).attention(x) - hard.attention(x)).abs().max() for b in (1, 1e2, 1e6)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6
    assert hard.softened(1).normalise == "softmax"


def test_softening_by_beta_raises_the_weights_to_the_power_beta():
    target = spectral_target(1, 3, length=4)
    x = target.sample(3, seed=5)
    powers = target.attention(x) ** 2.5
    expected = powers / powers.sum(-1, keepdim=True)
    np.testing.assert_allclose(target.softened(2.5).attention(x), expected, rtol=1e-10)


@pytest.mark.parametrize("normalise", ["softmax", "hardmax"])
@given(seed=st.integers(0, 2**31), n=st.integers(1, 4), length=st.integers(1, 6))
def test_attention_rows_are_weights_that_sum_to_one(normalise, seed, n, length):
    target = AttentionTarget(identity, identity, product, length, normalise=normalise)
    attention = target.attention(target.sample(n, seed))
    assert attention.shape == (n, length, length)
    assert (attention >= 0).all()
    np.testing.assert_allclose(attention.sum(-1), np.ones((n, length)), rtol=1e-14)


@given(seed=st.integers(0, 2**31), p=st.permutations(range(6)), hard=st.booleans())
def test_without_positions_a_target_is_equivariant(seed, p, hard):
    """App. A.1: H(x∘p) = H(x)∘p."""
    target = AttentionTarget(
        torch.sin,
        lambda x: x.square(),
        FunctionCoupling(lambda u, v: (u[..., 0] - v[..., 1]).cos(), d=2),
        6,
        normalise="hardmax" if hard else "softmax",
    )
    x = target.sample(3, seed)
    np.testing.assert_allclose(target(x[:, p]), target(x)[:, p], atol=1e-13)


@given(seed=st.integers(0, 2**63 - 1), n=st.integers(1, 5))
def test_a_seed_gives_the_same_numbers_in_every_dtype(seed, n):
    target = spectral_target(1, 2, length=3)
    x = target.sample(n, seed)
    assert x.shape == (n, 3, 1)
    assert torch.equal(x, target.sample(n, seed))
    assert torch.equal(x.float(), target.sample(n, seed, dtype=torch.float32))


def test_different_seeds_give_different_numbers():
    target = spectral_target(1, 2)
    assert not torch.equal(target.sample(2, 0), target.sample(2, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_of_x_is_kept(dtype):
    target = AttentionTarget(lambda y: y.double(), identity, product, 3)
    assert target(target.sample(2, 0, dtype)).dtype == dtype


def test_large_batches_are_cut_and_give_the_same(monkeypatch):
    target = spectral_target(1, 3, length=4)
    x = target.sample(11, seed=0)
    whole = target(x)
    monkeypatch.setattr(form, "_ENTRIES_AT_ONCE", 3 * target.entries_a_sequence())
    batches = []
    monkeypatch.setattr(
        form.AttentionTarget,
        "inner",
        lambda self, part: batches.append(len(part)) or self.attention(part) @ part,
    )
    np.testing.assert_allclose(target(x), whole, rtol=1e-14)
    assert batches == [3, 3, 3, 2]


def test_no_sequences_give_no_outputs():
    target = spectral_target(1, 3, length=4)
    assert target(torch.zeros(0, 4, 1)).shape == (0, 4, 1)


def test_outputs_can_be_differentiated():
    target = spectral_target(1, 3, length=4)
    x = target.sample(2, 0).requires_grad_()
    assert torch.autograd.gradcheck(target, (x,))


def test_out_is_what_F_returns():
    target = AttentionTarget(
        lambda y: torch.cat([y, y.sum(-1, keepdim=True)], -1),
        lambda x: x[..., :2],
        product,
        3,
        UniformInputs((0,) * 4, (1,) * 4),
    )
    assert (target.d, target.out) == (4, 3)
    assert target.inner(target.sample(2, 0)).shape == (2, 3, 2)


def test_without_inputs_the_law_has_the_coupling_s_dimension():
    target = AttentionTarget(identity, identity, FunctionCoupling(product, d=3), 2)
    assert target.inputs == UniformInputs((0.0,) * 3, (1.0,) * 3)


def test_positioned_inputs_make_a_target():
    target = AttentionTarget(identity, identity, product, 3, PositionedInputs.shifted(3))
    x = target.sample(4, 0)
    assert torch.equal(x.floor()[..., 0], torch.tensor([0.0, 2.0, 4.0]).double().expand(4, 3))


@given(st.lists(st.integers(0, 4), min_size=0, max_size=4))
def test_an_input_of_another_shape_is_told_with_both_shapes(shape):
    target = spectral_target(1, 2, length=5)
    if len(shape) == 3 and shape[1:] == [5, 1]:
        return
    for method in (target, target.logits, target.attention, target.inner):
        with pytest.raises(InputError, match=r"\(n, 5, 1\)") as caught:
            method(torch.zeros(shape))
        assert caught.value.value == tuple(shape)


def test_integers_are_no_input():
    with pytest.raises(InputError) as caught:
        spectral_target(1, 2, length=5)(torch.zeros(1, 5, 1, dtype=torch.int64))
    assert caught.value.value == torch.int64


def build(**changes):
    parts = {"F": identity, "f": identity, "rho": product, "length": 3}
    return AttentionTarget(**(parts | changes))


@pytest.mark.parametrize("bad", [0, -3, 2.0, math.nan, "3", None, True])
def test_length_is_a_whole_number_from_one(bad):
    with pytest.raises(InputError) as caught:
        build(length=bad)
    assert caught.value.value is bad
    with pytest.raises(InputError):
        spectral_target(1, 2, length=bad)


@pytest.mark.parametrize("part", ["F", "f", "rho"])
@pytest.mark.parametrize("bad", [None, 1.0, "identity"])
def test_the_parts_are_functions(part, bad):
    with pytest.raises(InputError) as caught:
        build(**{part: bad})
    assert caught.value.value is bad


@given(st.text(max_size=10).filter(lambda s: s not in ("softmax", "hardmax")))
def test_normalise_is_one_of_two_words(word):
    with pytest.raises(InputError, match="hardmax") as caught:
        build(normalise=word)
    assert caught.value.value == word


@pytest.mark.parametrize("part", ["F", "f"])
@pytest.mark.parametrize("function", [lambda x: x.sum(-1), lambda x: x[:, :1], lambda x: 3.0])
def test_a_part_that_does_not_act_on_the_last_axis_is_refused_when_built(part, function):
    with pytest.raises(InputError, match=f"{part} must act on the last axis"):
        build(**{part: function})


def test_a_coupling_of_the_wrong_shape_is_refused_when_built():
    with pytest.raises(InputError, match="shape of what it returned does not fit"):
        build(rho=lambda u, v: torch.zeros(5))


def test_a_coupling_without_a_value_is_refused_when_built():
    with pytest.raises(InputError, match="rho is not finite at u"):
        build(rho=lambda u, v: (u - v).sum(-1).log())


def test_a_coupling_and_inputs_of_two_dimensions_are_refused():
    with pytest.raises(InputError, match="dimension 2"):
        build(rho=FunctionCoupling(product, d=2), inputs=UniformInputs())


@pytest.mark.parametrize("inputs", [3, "uniform", (0.0, 1.0)])
def test_inputs_must_be_a_law(inputs):
    with pytest.raises(InputError):
        build(inputs=inputs)


def test_a_law_for_another_length_is_refused_when_built():
    with pytest.raises(InputError):
        build(inputs=PositionedInputs.shifted(4))


@given(st.integers(max_value=-1) | st.integers(2**63) | st.floats() | st.text() | st.none())
def test_a_seed_is_a_whole_number_from_zero(seed):
    with pytest.raises(InputError) as caught:
        spectral_target(1, 2).sample(1, seed)
    assert caught.value.value is seed


@given(st.integers(max_value=0) | st.floats() | st.text() | st.none() | st.booleans())
def test_the_number_of_samples_is_a_whole_number_from_one(n):
    with pytest.raises(InputError) as caught:
        spectral_target(1, 2).sample(n, 0)
    assert caught.value.value is n


@given(st.floats(max_value=0) | st.sampled_from([math.nan, math.inf, "1", None, True]))
def test_softening_needs_a_positive_number(beta):
    with pytest.raises(InputError) as caught:
        spectral_target(1, 2).softened(beta)
    assert caught.value.value is beta


def test_samples_are_floats():
    with pytest.raises(InputError):
        spectral_target(1, 2).sample(1, 0, dtype=torch.int64)


class Running(Target):
    length, inputs, out, name = 8, UniformInputs(), 1, "running maximum"

    def evaluate(self, x):
        return x.cummax(dim=1).values


def running(**parts):
    return type("Mine", (Running,), parts)()


@pytest.mark.parametrize("part", ["length", "inputs", "out"])
def test_what_a_target_of_ones_own_lacks_is_named_and_it_can_still_be_shown(part):
    given = {name: getattr(Running, name) for name in ("length", "inputs", "out") if name != part}
    target = type("Mine", (Target,), {**given, "evaluate": Running.evaluate})()
    assert repr(target) == f"Mine(without {part})"
    with pytest.raises(InputError, match=f"Mine must have .*'{part}' is missing.*UniformInputs"):
        target.sample(2, seed=0)
    with pytest.raises(InputError, match=f"Mine must have .*'{part}' is missing"):
        target(torch.zeros((2, 8, 1)))


def test_a_target_without_a_name_is_a_target():
    parts = {"length": 8, "inputs": UniformInputs(), "out": 1, "evaluate": Running.evaluate}
    target = type("Mine", (Target,), parts)()
    assert target(target.sample(2, seed=0)).shape == (2, 8, 1)
    assert repr(target) == "Mine(length=8, d=1, out=1, UniformInputs)"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"length": "8"}, "Mine.length must be a whole number"),
        ({"out": 0}, "Mine.out must be a whole number"),
        ({"inputs": lambda n: n}, "Mine.inputs must be a law of the inputs"),
    ],
)
def test_parts_of_a_wrong_kind_are_named(parts, words):
    with pytest.raises(InputError, match=words):
        running(**parts).sample(2, seed=0)


@pytest.mark.parametrize(
    ("evaluate", "got"),
    [
        (lambda self, x: x.sum(1), r"\(2, 1\)"),
        (lambda self, x: x[..., 0], r"\(2, 8\)"),
        (lambda self, x: x.mean(1, keepdim=True), r"\(2, 1, 1\)"),
        (lambda self, x: x.expand(-1, -1, 3), r"\(2, 8, 3\). Set out = 3"),
    ],
)
def test_values_of_another_shape_are_refused_not_broadcast(evaluate, got):
    target = running(evaluate=evaluate)
    words = rf"Mine.evaluate must return the shape \(n, length, out\) = \(2, 8, 1\): got {got}"
    with pytest.raises(InputError, match=words):
        target(target.sample(2, seed=0))


def test_values_that_are_no_tensor_are_refused():
    target = running(evaluate=lambda self, x: x.numpy())
    with pytest.raises(
        InputError, match=r"Mine.evaluate must return a torch tensor: got 'ndarray'"
    ):
        target(target.sample(2, seed=0))


def test_values_come_in_the_type_of_the_inputs():
    target = running(evaluate=lambda self, x: x.argsort(dim=1))
    assert target(target.sample(2, seed=0, dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("name", ["F", "f"])
def test_a_function_that_fails_on_tensors_is_named(name):
    given = {"F": identity, "f": identity, name: math.sin}
    with pytest.raises(
        InputError, match=rf"{name} fails on a tensor of shape .*: got 'sin'.*torch"
    ):
        AttentionTarget(rho=product, length=4, **given)
