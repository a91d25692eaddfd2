"""Cuts of rotary heads: sums over features formed by hand, brute force, and a tiny Llama."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rotary_tiny import BATCH, numbers, tiny_llama

from attnrate.compress.rotary import PairCut, cut_pairs, eliminate, refitted, share_felt, with_pairs
from attnrate.compress.rotary_moments import felt, gather
from attnrate.compress.rotary_values import cut_values
from attnrate.errors import InputError
from attnrate.spectra.capture import Call
from attnrate.spectra.estimate import Gram
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
SEEDS = st.integers(0, 2**31)
FEW = settings(max_examples=25)


def some_call(seed: int, heads: int = 4, groups: int = 2, m: int = 6, T: int = 9) -> Call:
    query, key, value = (
        numbers(2, h, T, size, seed=seed + i)
        for i, (h, size) in enumerate(((heads, m), (groups, m), (groups, 5)))
    )
    return Call(query=query, key=key, value=value, scale=0.4, causal=True)


def by_hand(call: Call) -> tuple[Tensor, Tensor]:
    """Attention weights (inputs, heads, T, S) and features (…, m), formed."""
    half, T = call.query.shape[-1] // 2, call.query.shape[2]
    key = call.key.repeat_interleave(call.query.shape[1] // call.key.shape[1], 1)
    q, k = (torch.complex(x[..., :half], x[..., half:]) for x in (call.query, key))
    product = q[:, :, :, None] * k[:, :, None].conj()
    hidden = torch.ones(T, T).triu(1).bool()
    logits = (call.scale * product.real.sum(-1)).masked_fill(hidden, -torch.inf)
    return logits.softmax(-1), torch.cat([product.real, product.imag], -1)


def random_gamma(seed: int, heads: int = 2, m: int = 10) -> Tensor:
    x = numbers(heads, m, 3 * m, seed=seed)
    return x @ x.mT


@FEW
@given(seed=SEEDS)
def test_the_moments_are_those_of_features_formed_for_every_query_and_key(seed: int) -> None:
    call, W_O = some_call(seed), numbers(7, 20, seed=seed + 5)
    p, f = by_hand(call)
    centred = f - torch.einsum("ihts,ihtsf->ihtf", p, f)[:, :, :, None]
    made = felt(call, (None, None), W_O)
    assert torch.allclose(
        made.weights, call.scale**2 * torch.einsum("ihts,ihtsf,ihtsg->hfg", p, centred, centred)
    )
    v = call.value.repeat_interleave(2, 1)
    J = torch.einsum("dhv,ihts,ihsv,ihtsf->ihtdf", W_O.reshape(7, 4, 5), p, v, centred)
    assert torch.allclose(made.outputs, call.scale**2 * torch.einsum("ihtdf,ihtdg->hfg", J, J))
    assert torch.allclose(made.attended.mean, (p @ v).mean((0, 2)))


def test_the_moments_say_to_second_order_what_a_small_change_of_queries_does() -> None:
    call = some_call(3)
    delta = 1e-3 * numbers(4, 6)
    p, f = by_hand(call)
    logits = p.log() + call.scale * torch.einsum("ihtsf,hf->ihts", f, delta)
    other = logits.softmax(-1)
    kl = torch.where(p > 0, p * (p.log() - other.log()), 0.0).nan_to_num().sum((0, 2, 3))
    gamma = felt(call, (None, None), numbers(7, 20)).weights
    assert torch.allclose(kl, torch.einsum("hf,hfg,hg->h", delta, gamma, delta) / 2, rtol=1e-2)


def test_padding_counts_for_nothing_whatever_is_in_it() -> None:
    call, W_O = some_call(4, T=9), numbers(7, 20)
    kept = torch.ones(2, 9).bool()
    kept[:, 6:] = False
    short = Call(
        query=call.query[:, :, :6],
        key=call.key[:, :, :6],
        value=call.value[:, :, :6],
        scale=call.scale,
        causal=True,
    )
    for x in (call.query, call.key, call.value):
        x[:, :, 6:] = torch.inf
    made, wanted = felt(call, (kept, kept), W_O), felt(short, (None, None), W_O)
    assert torch.allclose(made.weights, wanted.weights)
    assert torch.allclose(made.outputs, wanted.outputs)
    assert torch.allclose(made.attended.spread, wanted.attended.spread)
    assert made.queries == wanted.queries


@FEW
@given(seed=SEEDS)
def test_the_refit_is_the_least_squares_fit_of_the_logits(seed: int) -> None:
    call = some_call(seed, T=12)
    p, f = by_hand(call)
    gamma = felt(call, (None, None), numbers(7, 20)).weights
    pairs = torch.tensor([[0, 2]]).expand(4, -1)
    made = refitted(gamma, pairs)
    for h in range(4):
        rows = f[:, h] - torch.einsum("its,itsf->itf", p[:, h], f[:, h])[:, :, None]
        rows = (p[:, h].sqrt()[..., None] * rows).reshape(-1, 6)
        whole = rows[:, :3].sum(-1)
        best = torch.linalg.lstsq(rows[:, [0, 2, 3, 5]], whole).solution
        c = torch.complex(best[:2], -best[2:])
        assert torch.allclose(made[h], c, atol=1e-5)


@FEW
@given(seed=SEEDS, count=st.integers(1, 4), refit=st.booleans())
def test_every_step_of_elimination_drops_the_pair_that_is_missed_least(
    seed: int, count: int, refit: bool
) -> None:
    gamma = random_gamma(seed)

    def missed(kept: list[int]) -> float:
        cut = with_pairs(gamma, torch.tensor([kept]), refit)
        whole = gamma[:, :5, :5].sum((1, 2))
        return float((cut.felt * whole).sum())

    left = list(range(5))
    while len(left) > count:
        left = min(([*left[:i], *left[i + 1 :]] for i in range(len(left))), key=missed)
    assert eliminate(gamma, count, refit).tolist() == left


@FEW
@given(seed=SEEDS)
def test_the_refit_is_never_worse_than_none_and_more_pairs_are_never_worse(seed: int) -> None:
    gamma, kept = random_gamma(seed), torch.tensor([[0, 2, 3]])
    own, plain = with_pairs(gamma, kept), with_pairs(gamma, kept, refit=False)
    assert (own.felt <= plain.felt + 1e-9).all()
    more = with_pairs(gamma, torch.tensor([[0, 2, 3, 4]]))
    assert (more.felt <= own.felt + 1e-9).all()


def test_pairs_that_say_nothing_are_dropped_first_and_need_no_refit() -> None:
    gamma = random_gamma(1)
    silent = [1, 3]
    for part in (*silent, *(j + 5 for j in silent)):
        gamma[:, part] = gamma[:, :, part] = 0.0
    cut = cut_pairs({"a": gamma}, {"a": 1}, size=6)["a"]
    assert cut.pairs.tolist() == [[0, 2, 4]]
    assert torch.allclose(cut.factors, torch.ones_like(cut.factors), atol=1e-5)
    assert float(cut.felt.max()) < 1e-12


@pytest.mark.parametrize("shared", ["head", "layer", "model"])
def test_pairs_are_shared_as_wanted_and_fewer_restrictions_are_felt_less(shared: str) -> None:
    moments = {"a": random_gamma(1, heads=4), "b": random_gamma(2, heads=4)}
    cuts = cut_pairs(moments, {"a": 2, "b": 2}, 4, shared)  # type: ignore[arg-type]
    sets = {tuple(row) for cut in cuts.values() for row in cut.pairs.tolist()}
    assert len(sets) <= {"head": 4, "layer": 2, "model": 1}[shared]
    assert all(cut.size == 4 and cut.factors.shape == (4, 2) for cut in cuts.values())


@pytest.mark.parametrize("size", [0, 3, 12])
def test_a_size_that_pairs_do_not_have_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="even size from 2 to 10"):
        cut_pairs({"a": random_gamma(1)}, {"a": 1}, size)


def test_the_share_felt_of_a_whole_head_is_zero_and_of_no_head_one() -> None:
    gamma = random_gamma(1)
    whole = torch.arange(5).expand(2, -1)
    ones = torch.ones(2, 5, dtype=torch.complex128)
    assert float(share_felt(gamma, whole, ones).max()) < 1e-12
    assert torch.allclose(share_felt(gamma, whole, 0 * ones), torch.ones(2).double())


@FEW
@given(seed=SEEDS)
def test_the_maps_turn_queries_by_their_factors_and_pick_the_pairs(seed: int) -> None:
    factors = torch.complex(numbers(4, 2, seed=seed), numbers(4, 2, seed=seed + 1))
    cut = PairCut(torch.tensor([[0, 2], [1, 2]]), factors, torch.zeros(4))
    maps, q, k = cut.maps(6), numbers(4, 7, 6, seed=seed), numbers(2, 7, 6, seed=seed + 2)

    def of(x: Tensor) -> Tensor:
        return torch.complex(*x.chunk(2, -1))

    for h in range(4):
        own = cut.pairs[h // 2]
        assert torch.allclose(of(q[h] @ maps.queries[h]), factors[h] * of(q[h])[:, own])
    for g in range(2):
        assert torch.allclose(of(k[g] @ maps.keys[g]), of(k[g])[:, cut.pairs[g]])


def attended(seed: int) -> Gram:
    x = numbers(1, 4, 40, 5, seed=seed) @ numbers(4, 5, 5, seed=seed + 1) + 1.0
    return Gram.of(x).pooled()


@FEW
@given(seed=SEEDS)
def test_values_of_full_size_lose_nothing_and_smaller_ones_lose_more(seed: int) -> None:
    W_O = numbers(9, 20, seed=seed)
    felt_of = [cut_values(attended(seed), W_O, 2, size).felt.sum() for size in (5, 3, 1)]
    assert float(felt_of[0]) < 1e-6
    assert felt_of[0] <= felt_of[1] + 1e-9


def test_one_value_head_of_its_own_is_cut_as_well_as_any_matrix_of_that_rank_can() -> None:
    x = numbers(1, 1, 60, 5) @ numbers(5, 5, seed=2) + 1.0
    W_O = numbers(9, 5, seed=3)
    cut = cut_values(Gram.of(x).pooled(), W_O, 1, 2)
    rows = x[0, 0]
    made = (rows @ cut.into[0] @ cut.out[0].mT + cut.left[0]) @ W_O.mT
    centred = (rows - rows.mean(0)) @ W_O.mT
    best = torch.linalg.svdvals(centred)[2:].square().sum()
    assert torch.allclose((made - rows @ W_O.mT).square().sum(), best)
    assert torch.allclose(cut.felt[0], best / centred.square().sum())


def test_the_bias_makes_up_for_the_mean_of_the_values_that_are_lost() -> None:
    x = numbers(1, 4, 60, 5) + 3.0
    W_O, shared = numbers(9, 20), 2

    cut = cut_values(Gram.of(x).pooled(), W_O, 2, 2)

    def missed(bias: bool) -> float:
        into = cut.into.repeat_interleave(shared, 0)
        made = x[0] @ into @ cut.out.mT + bias * cut.left[:, None]
        return float(((made - x[0]) @ W_O.reshape(9, 4, 5).permute(1, 2, 0)).square().sum())

    assert missed(True) < missed(False)


def test_layers_of_a_model_are_gathered_over_batches_as_over_one() -> None:
    model = tiny_llama()
    whole = gather(Watcher(model), [BATCH])
    parts = gather(
        Watcher(model), [{"input_ids": BATCH["input_ids"][i : i + 1]} for i in (0, 1, 2)]
    )
    assert list(whole) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    for name, one in whole.items():
        assert torch.allclose(one.weights, parts[name].weights)
        assert one.queries == parts[name].queries == BATCH["input_ids"].numel()


def test_the_moments_of_outputs_are_left_out_unless_they_are_asked_for() -> None:
    call, W_O = some_call(4), numbers(7, 20)
    whole, found = (felt(call, (None, None), W_O, outputs) for outputs in (True, False))
    assert torch.allclose(found.weights, whole.weights)
    assert whole.outputs.any()
    assert not found.outputs.any()
    assert not any(x.outputs.any() for x in gather(Watcher(tiny_llama()), [BATCH]).values())
