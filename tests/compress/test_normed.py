"""Thin attention behind norms and rotation, against whole models with projected queries."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import pytest
import torch
from normed_tiny import KIN, tiny_normed
from rotary_tiny import BATCH, numbers, tiny_llama

from attnrate.compress.content import Factors
from attnrate.compress.distil import queries_cut
from attnrate.compress.fold import ThinLayer, fold
from attnrate.compress.modules.maps import HeadMap, maps_of
from attnrate.compress.modules.normed import normed_parts, rebuilt, require_same
from attnrate.compress.projections import Projections, find
from attnrate.compress.values import ValueFactors
from attnrate.errors import InputError
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
IDS = BATCH["input_ids"]
PADDED = torch.ones_like(IDS)
PADDED[1, 10:] = 0
LAYERS = ["model.layers.0.self_attn", "model.layers.1.self_attn"]


def logits(model: Any, **more: Any) -> Tensor:
    with torch.no_grad():
        made: Tensor = model(input_ids=IDS, **more).logits
    return made


def found_in(model: Any) -> dict[str, Projections]:
    return dict(find(Watcher(model), BATCH).projections)


def factors(size: int) -> list[Factors]:
    """Random cuts of two layers with 4 query heads and 2 key heads of size 12."""
    return [
        Factors(numbers(4, 12, size, seed=n) / 3, numbers(2, 12, size, seed=n + 1) / 3)
        for n in (5, 7)
    ]


def thin(model: Any, cuts: list[Factors], values: ValueFactors | None = None) -> Any:
    found = found_in(model)
    layers = zip(found.items(), cuts, strict=True)
    return fold(model, {name: ThinLayer(own, cut, values) for (name, own), cut in layers})


@contextmanager
def turned_queries(model: Any, change: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """While it is open, the queries of each layer change right after the model has turned them."""
    file = sys.modules[type(model).__module__]
    rotate, layer = file.apply_rotary_pos_emb, cycle((0, 1))

    def rotated(q: Tensor, k: Tensor, *more: Any, **named: Any) -> tuple[Tensor, Tensor]:
        q, k = rotate(q, k, *more, **named)
        return change(next(layer), q), k

    file.apply_rotary_pos_emb = rotated
    try:
        yield
    finally:
        file.apply_rotary_pos_emb = rotate


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KIN)
def test_maps_whose_product_is_one_change_nothing(kind: str, attention: str) -> None:
    model = tiny_normed(kind)
    model.set_attn_implementation(attention)
    whole = logits(model, attention_mask=PADDED)
    for part in (model.get_submodule(name) for name in LAYERS):
        layer = rebuilt(part)
        Y = numbers(2, 12, 12) / 3 + torch.eye(12)
        X = torch.linalg.inv(Y).mT.repeat_interleave(2, 0)
        layer.query_map, layer.key_map = HeadMap.of(X, Y), HeadMap.of(Y, Y)
        part.forward = layer.forward
    # "eager" computes its softmax in float32
    limit = 1e-9 if attention == "sdpa" else 1e-4
    assert torch.allclose(logits(model, attention_mask=PADDED), whole, rtol=0, atol=limit)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KIN)
def test_a_cut_is_the_whole_model_with_its_turned_queries_projected(
    kind: str, attention: str
) -> None:
    model = tiny_normed(kind)
    model.set_attn_implementation(attention)
    cuts = factors(5)
    made = logits(thin(model, cuts), attention_mask=PADDED)
    whole = logits(model, attention_mask=PADDED)
    # the logit (Xᵀq)ᵀ(Yᵀk) is that of the query Y Xᵀ q, head by head
    P = [torch.stack([cut.Y[h // 2] @ cut.X[h].mT for h in range(4)]) for cut in cuts]
    with turned_queries(model, lambda n, q: torch.einsum("hij,bhtj->bhti", P[n], q)):
        wanted = logits(model, attention_mask=PADDED)
    limit = 1e-9 if attention == "sdpa" else 1e-4
    assert torch.allclose(made, wanted, rtol=0, atol=limit)
    assert float((wanted - whole).norm() / whole.norm()) > 1e-2  # something was cut


@pytest.mark.parametrize("kind", KIN)
def test_values_are_cut_out_of_the_weights(kind: str) -> None:
    model = tiny_normed(kind)
    V, U = numbers(2, 12, 7) / 3, numbers(4, 12, 7, seed=2) / 3
    n = model.config.hidden_size
    shift = numbers(n, seed=3)
    made = logits(thin(model, factors(12), ValueFactors(V, U, shift)))
    with torch.no_grad():
        for name in LAYERS:
            layer = model.get_submodule(name)
            # Σ_h W_O,h U_h V_gᵀ v: the whole layer, with that in its output projection
            W_O = layer.o_proj.weight.view(n, 4, 12)
            Z = U @ V.repeat_interleave(2, 0).mT
            layer.o_proj.weight.copy_(torch.einsum("nhi,hij->nhj", W_O, Z).flatten(1))
            if layer.o_proj.bias is None:
                layer.o_proj.bias = torch.nn.Parameter(torch.zeros(n, dtype=torch.float64))
            layer.o_proj.bias += shift
        # size 12 leaves queries and keys as they are, whatever the factors
        wanted = logits(model)
    assert torch.allclose(made, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KIN)
def test_a_thin_model_says_the_same_with_its_cache_as_without(kind: str, attention: str) -> None:
    model = thin(tiny_normed(kind), factors(5))
    model.set_attn_implementation(attention)
    whole = logits(model)
    with torch.no_grad():
        first = model(input_ids=IDS[:, :6], use_cache=True)
        steps, cache = [first.logits], first.past_key_values
        for t in range(6, IDS.shape[1]):
            made = model(input_ids=IDS[:, t : t + 1], past_key_values=cache, use_cache=True)
            steps.append(made.logits)
    assert torch.allclose(torch.cat(steps, 1), whole, rtol=0, atol=1e-4)
    assert [(x.keys.shape[-1], x.values.shape[-1]) for x in cache.layers] == [(5, 12)] * 2


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_a_thin_model_writes_the_same_text_with_any_cache(kind: str) -> None:
    model = thin(tiny_normed(kind, torch.float32), factors(5))
    options = {"max_new_tokens": 8, "do_sample": False, "attention_mask": PADDED.flip(1)}
    kinds: list[dict[str, Any]] = [{"use_cache": False}, {}, {"cache_implementation": "static"}]
    texts = [model.generate(IDS, **options, **each) for each in kinds]
    assert texts[0].shape == (3, IDS.shape[1] + 8)
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])


@pytest.mark.parametrize("kind", KIN)
def test_what_a_thin_layer_adds_are_its_maps_and_nothing_of_the_first_is_shared(kind: str) -> None:
    model = tiny_normed(kind)
    before = sum(x.numel() for x in model.parameters())
    made = thin(model, factors(5))
    own = [sum(x.numel() for part in maps_of(made.get_submodule(n)) for x in part.parameters())
           for n in LAYERS]  # fmt: skip
    assert own == [(4 + 2) * 12 * 5] * 2
    assert sum(x.numel() for x in made.parameters()) == before + sum(own)
    mine, theirs = ({x.data_ptr() for x in each.parameters()} for each in (made, model))
    assert not mine & theirs
    assert [maps_of(thin(model, factors(12)).get_submodule(name)) for name in LAYERS] == [[], []]


def test_gradients_reach_projected_queries_and_the_layer_is_itself_again() -> None:
    model = tiny_normed()
    found, cut = found_in(model), factors(5)
    whole = logits(model)
    P = {name: each.projection().requires_grad_() for name, each in zip(LAYERS, cut, strict=True)}
    with queries_cut(found, P):
        made = model(input_ids=IDS).logits
        made.square().sum().backward()
    assert torch.allclose(made.detach(), logits(thin(model, cut)), rtol=0, atol=1e-9)
    assert all(float(x.grad.abs().max()) > 0 for x in P.values() if x.grad is not None)
    assert all(x.grad is not None for x in P.values())
    assert torch.equal(logits(model), whole)


def test_layers_without_norms_or_with_more_than_norms_are_of_another_kind() -> None:
    def first(model: Any) -> torch.nn.Module:
        found: torch.nn.Module = model.get_submodule(LAYERS[0])
        return found

    assert normed_parts(first(tiny_normed())) is not None
    assert normed_parts(first(tiny_llama())) is None
    gated = first(tiny_normed())
    gated.q_proj = torch.nn.Linear(24, 2 * 4 * 12)  # queries and as many gates, as in Qwen3-Next
    assert normed_parts(gated) is None
    bounded = first(tiny_normed())
    bounded.config.clip_qkv = 8.0
    assert normed_parts(bounded) is None
    assert normed_parts(torch.nn.Linear(2, 2)) is None


def test_a_model_that_does_more_with_its_heads_is_refused() -> None:
    model = tiny_normed()
    layer: Any = model.get_submodule(LAYERS[0])
    require_same(model, LAYERS, BATCH)
    own = layer.forward
    vars(layer)["forward"] = lambda *args, **kwargs: (own(*args, **kwargs)[0].tanh(), None)
    with pytest.raises(InputError, match=r"cache of 'Qwen3ForCausalLM' cannot be made smaller"):
        require_same(model, LAYERS, BATCH)
