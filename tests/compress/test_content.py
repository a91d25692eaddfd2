"""Closed forms of cuts against what numerical optimisation finds on small problems, in float64."""

from itertools import pairwise

import pytest
import torch
from held_calls import call_of, draw, held_of
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.compress.content import Factors, balanced, content
from attnrate.compress.moments import OBJECTIVES, Moments, Objective
from attnrate.errors import InputError


def cost(factors: Factors, moments: Moments, objective: Objective) -> torch.Tensor:
    """The value Σ_t δ_tᵀ M δ_t of an objective for each query head."""
    left = factors.projection() - torch.eye(factors.X.shape[1], dtype=factors.X.dtype)
    moved = left.mT @ moments.query @ left
    return (moved * moments.metric(objective)).sum((-1, -2))


def optimised(moments, objective, start):
    """What L-BFGS makes of X and Y, from a place beside them."""
    parts = [
        (each + 0.3 * each.norm() / each.numel() ** 0.5 * draw(number, *each.shape).double())
        .detach()
        .requires_grad_()
        for number, each in enumerate((start.X, start.Y))
    ]
    search = torch.optim.LBFGS(parts, max_iter=500, line_search_fn="strong_wolfe")
    unit = cost(start, moments, objective).sum()

    def close():
        search.zero_grad()
        value = cost(Factors(*parts), moments, objective).sum() / unit
        value.backward()
        return value

    search.step(close)
    return float(cost(Factors(*parts), moments, objective).sum().detach())


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("size", [1, 3])
def test_no_optimisation_beats_the_closed_form_of_heads_with_keys_of_their_own(objective, size):
    moments = Moments.of(held_of(call_of(groups=4, bias=True)))
    found = content(moments, objective, size)
    ours = float(cost(found, moments, objective).sum())
    assert ours <= optimised(moments, objective, found) * (1 + 1e-6)


@pytest.mark.parametrize("objective", ["logits", "gauge"])
def test_no_optimisation_beats_it_where_query_heads_share_a_key_head(objective):
    moments = Moments.of(held_of(call_of(heads=6, groups=2)))
    found = content(moments, objective, 2)
    ours = float(cost(found, moments, objective).sum())
    assert ours <= optimised(moments, objective, found) * (1 + 1e-6)


@pytest.mark.parametrize("objective", ["felt", "output"])
def test_shared_keys_with_metrics_of_their_own_have_the_best_queries_for_them(objective):
    moments = Moments.of(held_of(call_of(heads=6, groups=2)))
    found = content(moments, objective, 2)
    ours = cost(found, moments, objective)
    for seed in range(10):
        near = Factors(found.X + 0.01 * draw(seed, *found.X.shape).double(), found.Y)
        assert (cost(near, moments, objective) >= ours * (1 - 1e-9)).all()


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    groups=st.sampled_from([1, 2, 4]),
    objective=st.sampled_from(OBJECTIVES),
)
def test_the_cost_falls_with_the_size_and_ends_at_nothing(seed, groups, objective):
    moments = Moments.of(held_of(call_of(seed, groups=groups)))
    costs = [
        float(cost(content(moments, objective, r), moments, objective).sum()) for r in range(1, 7)
    ]
    slack = 1e-9 * costs[0]
    if groups == 4 or objective in ("logits", "gauge"):
        assert all(two <= one + slack for one, two in pairwise(costs))
    assert abs(costs[-1]) <= slack


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 6))
def test_balancing_changes_no_logit(seed, size):
    moments = Moments.of(held_of(call_of(seed)))
    X, Y = draw(seed, 4, 6, size).double(), draw(seed + 1, 2, 6, size).double()
    found = balanced(Factors(X, Y), moments)
    torch.testing.assert_close(found.projection(), Factors(X, Y).projection())
    query = torch.einsum("hmr,hmn,hnr->hr", found.X, moments.query, found.X) / moments.queries
    key = torch.einsum("gmr,gmn,gnr->gr", found.Y, moments.gauge, found.Y) / moments.keys
    torch.testing.assert_close(query.reshape(2, 2, size).mean(1), key)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_keys_without_some_directions_are_cut_without_loss_and_stay_finite(objective):
    call = call_of(groups=4)
    call.key[..., 2:] = 0
    moments = Moments.of(held_of(call))
    for size in (2, 4):
        found = content(moments, objective, size)
        assert torch.isfinite(found.X).all()
        assert torch.isfinite(found.Y).all()
        whole = call.query.double() @ call.key.double().mT
        cut = call.query.double() @ found.projection() @ call.key.double().mT
        torch.testing.assert_close(cut, whole, rtol=1e-5, atol=1e-5)


def test_a_cut_of_the_logits_is_the_truncated_singular_decomposition_of_all_of_them():
    call = call_of(inputs=1, groups=4)
    P = content(Moments.of(held_of(call)), "logits", 2).projection()
    for head in range(4):
        Q, K = call.query[0, head].double(), call.key[0, head].double()
        U, S, V = torch.linalg.svd(Q @ K.T)
        torch.testing.assert_close(
            Q @ P[head] @ K.T, (U[:, :2] * S[:2]) @ V[:2], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("size", [0, 7, -1])
def test_a_size_that_heads_do_not_have_is_refused(size):
    with pytest.raises(InputError, match="cannot be cut to that size"):
        content(Moments.of(held_of(call_of())), "logits", size)
