"""The executed propositions: each verdict, the numbers behind it, and that each check can fail."""

import pickle
from math import e, exp, sqrt

import numpy as np
import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.transformer import Transformer
from attnrate.targets import AttentionTarget, PositionedInputs, linear_target
from attnrate.theory.invariants import check_B_1_1, check_B_1_2, check_B_1_3
from attnrate.theory.propositions import (
    Check,
    check_6_1,
    check_6_2,
    check_6_3,
    check_equivariance,
    check_propositions,
)
from attnrate.theory.recurrent import rnn_complexity
from attnrate.theory.represent import represent


@pytest.fixture(scope="module")
def checks():
    return {check.name: check for check in check_propositions(seed=0)}


def test_the_verdicts(checks):
    assert {name: check.verdict for name, check in checks.items()} == {
        "Equivariance (App. A.1)": "holds",
        "Prop. 6.1": "holds when corrected",
        "Prop. 6.2": "holds when corrected",
        "Prop. 6.3": "holds when corrected",
        "Prop. B.1 (1)": "holds when corrected",
        "Prop. B.1 (2)": "holds",
        "Prop. B.1 (3)": "does not hold",
    }


def test_the_verdicts_do_not_hang_on_the_seed(checks):
    for seed in (1, 2):
        assert [c.verdict for c in check_propositions(seed)] == [c.verdict for c in checks.values()]


def test_a_check_prints_its_statement_what_was_run_and_what_was_found(checks):
    for name, check in checks.items():
        shown = " ".join(str(check).split())
        assert shown.startswith(f"{name}: {check.verdict} (")
        for part in (check.statement, check.tested, check.detail):
            assert " ".join(part.split()) in shown
        assert max(map(len, str(check).splitlines())) <= 100


def test_only_does_not_hold_means_that_it_does_not():
    verdicts = ("holds", "holds when corrected", "does not hold")
    holds = [Check("", "", "", verdict, 0.0, "").holds for verdict in verdicts]
    assert holds == [True, True, False]


# Equivariance


def test_a_model_that_knows_positions_is_not_equivariant():
    scale = torch.arange(1.0, 9.0, dtype=torch.float64)[:, None]
    assert not check_equivariance(lambda x: scale * x).holds
    assert check_equivariance(lambda x: x - x.mean(1, keepdim=True)).holds


def test_a_causal_mask_breaks_equivariance():
    model = Transformer(2, 1, n=4, m_h=2, m_v=3, width=8, depth=1).double()

    def masked(x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = model.logits(x).masked_fill(future, -torch.inf).softmax(-1)
        return model.F_hat(weights @ model.W_V(model.f_hat(x)))

    assert check_equivariance(model).holds
    assert not check_equivariance(masked).holds


def test_targets_of_eq_8_are_equivariant_even_those_of_theorem_a_3():
    spoken = represent(lambda x: x.cumsum(1), PositionedInputs.shifted(8))
    shift = 2.0 * torch.arange(8, dtype=torch.float64)[:, None]

    def on_encoded(x):
        return spoken(x + shift)

    assert not check_equivariance(on_encoded, d=1).holds
    x = spoken.sample(5, seed=0)
    p = [3, 1, 0, 2, 7, 6, 5, 4]
    assert (spoken(x[:, p]) - spoken(x)[:, p]).abs().max() < 1e-13


def test_the_check_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    check_equivariance(permutations=1, models=1)
    assert torch.equal(torch.rand(3), expected)


# Prop. 6.1


def test_with_a_kernel_that_never_vanishes_prop_6_1_holds_as_printed():
    check = check_6_1("exponential")
    assert check.verdict == "holds"


def test_a_kernel_that_starts_late_keeps_the_permuted_target_causal_but_no_convolution():
    H = linear_target([0.0, 0.0, 1.0, 0.5, 0.25, 0.125], 6)
    altered = H.permuted([1, 0, 2, 3, 4, 5])  # p(0) = 1 > 0, max(j - p(j)) = 1
    assert altered.floor("causal") == 0.0
    assert altered.floor("time-invariant") > 1e-3


def test_the_zero_kernel_refutes_prop_6_1():
    assert not check_6_1(np.zeros(12)).holds


# Prop. 6.2


def test_a_query_that_counts_by_its_value_refutes_the_permuted_pieces():
    check = check_6_2(lambda u, v: torch.sin(u * v)[..., 0])
    assert check.verdict == "does not hold"
    assert check.value > 1e-3


def test_intervals_of_different_lengths_change_the_singular_values():
    uneven = ((0.0, 0.5), (2.0, 3.0), (4.0, 6.0), (7.0, 7.2))
    check = check_6_2(intervals=uneven)
    assert check.verdict == "does not hold"


def test_the_identity_permutes_nothing():
    check = check_6_2(lambda u, v: torch.sin(u * v)[..., 0], p=(0, 1, 2, 3))
    assert check.value < 1e-14


def test_permuted_pieces_have_another_lipschitz_constant(checks):
    assert "constant 0.5, as 0, 1, 0.5 they have 1," in checks["Prop. 6.2"].correction


# Prop. 6.3


@pytest.mark.parametrize("gamma", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("delay", [1, 4])
def test_a_pure_delay_multiplies_c_rnn_by_an_exponential(gamma, delay):
    late = rnn_complexity(lambda s: np.where(s >= delay, np.exp(-(s - delay) / gamma), 0.0))
    assert late.value == pytest.approx((1 + gamma) * exp(delay / (1 + gamma)), rel=1e-9)
    assert late.value > 1 + gamma


def test_a_pure_delay_attains_the_corrected_bound(checks):
    assert checks["Prop. 6.3"].value == pytest.approx(1.0, abs=1e-9)


def test_a_kernel_above_its_envelope_refutes_the_corrected_bound():
    assert not check_6_3([(2.0, lambda s: 3 * np.exp(-s / 2.0))]).holds
    assert check_6_3([(2.0, lambda s: np.exp(-s / 2.0))]).holds


def test_a_kernel_whose_bound_is_too_slow_is_not_counted_and_without_others_nothing_holds():
    cut = [(4.0, lambda s: np.where(s < 20, np.exp(-s / 4.0), 0.0))]
    check = check_6_3(cut)
    assert not check.holds
    assert rnn_complexity(cut[0][1]).value == pytest.approx(exp(19 * 3 / 4), rel=1e-12)


# Prop. B.1


def test_two_representations_on_encoded_inputs_refute_part_1():
    law = PositionedInputs.shifted(2)
    pair = tuple(represent(lambda x: x.cumsum(1), law, c) for c in (0.5, 2.0))
    check = check_B_1_1(pair)
    assert check.verdict == "does not hold"
    assert check.value > 1e-2


def test_a_scaled_pair_on_free_inputs_agrees_in_part_1():
    def rho(u, v):
        return (u * v)[..., 0]

    one = AttentionTarget(lambda y: y, lambda x: x**2, rho, 4)
    two = AttentionTarget(lambda y: y / e, lambda x: e * x**2, rho, 4)
    assert check_B_1_1((one, two)).holds


def test_targets_that_differ_say_nothing_about_part_1():
    def rho(u, v):
        return (u * v)[..., 0]

    one = AttentionTarget(lambda y: y, lambda x: x, rho, 4)
    two = AttentionTarget(lambda y: y + 0.25, lambda x: x, rho, 4)
    with pytest.raises(InputError, match="differ") as caught:
        check_B_1_1((one, two))
    assert caught.value.value == pytest.approx(0.25)


@pytest.mark.parametrize("pointwise", [torch.relu, torch.zeros_like, lambda x: x**0])
def test_without_injectivity_part_2_fails(pointwise):
    assert not check_B_1_2(pointwise).holds


def test_part_3_holds_for_a_gauge_that_leaves_the_keys_alone():
    check = check_B_1_3(lambda v: 0.7 + 0 * v)
    assert check.verdict == "holds"
    assert check.value == 0.0


def test_part_3_by_hand():
    # tokens 1 and -1 seen from 1: ρ1 = uv chooses 1; ρ2 = uv - ψ(v), ψ(±1) = ±3 sin 5, also has to
    # weigh ψ(-1) - ψ(1) = -6 sin 5 = 5.75 > 0, hence still 1; seen from -1, uv chooses -1, ρ2 the 1
    v = torch.tensor([1.0, -1.0], dtype=torch.float64)
    rho2 = -v - 3 * torch.sin(5 * v)
    assert int((-v).argmax()) == 1
    assert int(rho2.argmax()) == 0
    f2 = torch.exp(3 * torch.sin(5 * v))[:, None] * torch.stack([v, torch.ones_like(v)], dim=1)
    y, z = rho2.softmax(0) @ f2
    assert float(y / z) == pytest.approx(float((-v).softmax(0) @ v), rel=1e-14)


# Bad input


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "many", None, True, sqrt(2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: check_equivariance(permutations=n),
        lambda n: check_equivariance(models=n),
        lambda n: check_equivariance(d=n),
        lambda n: check_6_1(trials=n),
        lambda n: check_6_1(length=n),
        lambda n: check_6_2(samples=n),
        lambda n: check_6_3(filters=n),
        lambda n: check_6_3(filter_length=n),
        lambda n: check_B_1_1(samples=n),
        lambda n: check_B_1_2(samples=n),
        lambda n: check_B_1_3(samples=n),
    ],
)
def test_sizes_must_be_whole_numbers(call, wrong):
    with pytest.raises(InputError) as caught:
        call(wrong)
    assert caught.value.value is wrong


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(InputError, match="at least one pair"):
        check_6_3([])
    with pytest.raises(InputError, match="repeats") as caught:
        check_6_2(p=(0, 1, 1, 2))
    assert caught.value.value == 1
    with pytest.raises(InputError, match="not disjoint"):
        check_6_2(intervals=((0.0, 1.0), (0.5, 2.0)), p=(1, 0))
    with pytest.raises(InputError, match="not equal in float64"):
        check_B_1_3(lambda v: 400 * torch.sin(5 * v))


def test_checks_show_where_they_are_and_print_as_their_text(on_a_terminal, monkeypatch):
    monkeypatch.setattr("attnrate.theory.propositions.QUIET", 0.0)
    found = []
    shown = on_a_terminal(lambda: found.extend(check_propositions()))
    assert "checking statements of the paper" in shown
    for check in found:
        assert repr(check) == str(check)
        assert pickle.loads(pickle.dumps(check)) == check  # noqa: S301 - our own, just made
