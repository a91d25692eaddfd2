"""Projections found by running, against the layers' own queries, keys, values and outputs."""

from dataclasses import replace

import pytest
import torch
from small_models import small
from torch import nn

from attnrate.compress.projections import find
from attnrate.compress.rebuilt import require_rebuilt
from attnrate.spectra.watching.watcher import Watcher

#: The parts of the first layer by hand: paths of queries, keys, values, output
KNOWN = {
    "bert": ("query", "key", "value", "encoder.layer.0.attention.output.dense"),
    "mpnet": ("q", "k", "v", "encoder.layer.0.attention.attn.o"),
    "vit": ("q_proj", "k_proj", "v_proj", "layers.0.attention.o_proj"),
    "gpt2": ("c_attn", "c_attn", "c_attn", "h.0.attn.c_proj"),
    "t5": ("q", "k", "v", "encoder.block.0.layer.0.SelfAttention.o"),
    "own-vit": ("W_Q", "W_K", "W_V", "layers.0.attention.W_O"),
    "own-seq2seq": ("W_Q", "W_K", "W_V", "encoder_layers.0.attention.W_O"),
}


def found_in(name, **more):
    given = small(name)
    watcher = Watcher(given.model)
    return given, watcher, find(watcher, given.batch, **more)


@pytest.mark.parametrize("name", KNOWN)
def test_the_parts_are_those_that_a_reader_of_the_model_would_name(name):
    _, watcher, found = found_in(name)
    assert found.refused == ()
    assert [*found.projections] == [site.name for site in watcher.sites]
    first = next(iter(found.projections.values()))
    parts = first.query, first.key, first.value
    assert tuple(each.path.rpartition(".")[2] for each in parts) == KNOWN[name][:3]
    assert first.output.path == KNOWN[name][3]


@pytest.mark.parametrize("name", KNOWN)
def test_weights_and_biases_make_the_vectors_that_the_model_uses(name):
    given, watcher, found = found_in(name)
    took, calls = {}, {}

    def keep(part, args, _):
        if args:
            took[id(part)] = args[0]

    for part in given.model.modules():
        part.register_forward_hook(keep)
    watcher.see(given.batch, lambda site, call: calls.setdefault(site.name, call))
    for own in found.projections.values():
        call = calls[own.site.name]
        for part, made in ((own.query, call.query), (own.key, call.key), (own.value, call.value)):
            x = took[id(part.part)].double()
            ours = torch.einsum("bti,hmi->bhtm", x, part.weight) + part.bias[:, None]
            torch.testing.assert_close(ours.float(), made, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_padding_in_the_first_input_hides_no_part(name):
    given = small(name)
    turned = {key: value.flip(0).roll(2, 0) for key, value in given.batch.items()}
    assert not bool(turned["attention_mask"][0].all())
    found = find(Watcher(given.model), turned)
    plain = find(Watcher(given.model), given.batch)
    assert found.refused == ()
    for one, two in zip(found.projections.values(), plain.projections.values(), strict=True):
        assert (one.output.path, one.query.path) == (two.output.path, two.query.path)
        assert torch.equal(one.output.features, two.output.features)


def test_the_input_with_the_most_tokens_tells_the_parts_apart():
    given = small("bert")
    mask = given.batch["attention_mask"].clone()
    mask[0, 2:] = 0
    found = find(Watcher(given.model), {**given.batch, "attention_mask": mask})
    assert found.refused == ()
    # one with two tokens and padding has too few
    first = {key: value[:1] for key, value in given.batch.items()} | {"attention_mask": mask[:1]}
    few = find(Watcher(given.model), first)
    assert few.projections == {}
    assert all("fewer than 4 tokens" in each.reason for each in few.refused)


def test_layers_that_rebuilt_change_the_output_are_refused():
    given = small("bert")
    found = find(Watcher(given.model), given.batch)
    assert require_rebuilt(given.model, found, given.batch) is found
    first, second = found.projections.values()
    wrong = replace(second.output, features=second.output.features.flip(1))
    mixed = {first.site.name: first, second.site.name: replace(second, output=wrong)}
    kept = require_rebuilt(given.model, replace(found, projections=mixed), given.batch)
    assert [*kept.projections] == [first.site.name]
    assert [each.name for each in kept.refused] == [second.site.name]
    assert "put together from its parts it changes the output by" in kept.refused[0].reason


def test_keys_that_lie_between_queries_and_values_of_a_head_are_found_there():
    _, _, found = found_in("neox", plain=True)
    first = next(iter(found.projections.values()))
    # GPT-NeoX: of each head its query, its key, its value, 8 features each
    for place, part in enumerate((first.query, first.key, first.value)):
        wanted = torch.arange(24).reshape(3, 8) + 16 * torch.arange(3)[:, None] + 8 * place
        assert torch.equal(part.features, wanted)


def test_shared_keys_are_found_once_for_their_group():
    _, _, found = found_in("qwen2", plain=True)
    for own in found.projections.values():
        assert own.query.weight.shape == (3, 8, 24)
        assert own.key.weight.shape == own.value.weight.shape == (1, 8, 24)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("qwen2", "rotary"),
        ("torch", "no Linear part"),
        ("albert", "several layers"),
    ],
)
def test_layers_that_cannot_be_cut_are_named_with_the_reason(name, reason):
    _, _, found = found_in(name)
    assert found.projections == {}
    assert len(found.refused) > 0
    assert all(reason in each.reason for each in found.refused)


def test_norms_of_queries_and_keys_are_named():
    _, _, found = found_in("qwen3", plain=True)
    assert all("QK-norm" in each.reason for each in found.refused)
    assert len(found.refused) == 2


class Odd(nn.Module):
    """Attention that does something to its queries, or to what heads give."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.where = where

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (2, 4)).transpose(1, 2) for p in (self.q, self.k, self.v))
        q = {"query": q.tanh(), "scaled": 0.3 * q}.get(self.where, q)
        made = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.o(made.sigmoid() if self.where == "output" else made)


@pytest.mark.parametrize(
    ("where", "reason"), [("query", "more to its queries"), ("output", "more than to join")]
)
def test_what_stands_between_is_not_guessed(where, reason):
    model = Odd(where)
    found = find(Watcher(model), torch.randn(2, 9, 8, generator=torch.Generator()))
    assert found.projections == {}
    assert reason in found.refused[0].reason


def test_a_factor_of_the_queries_belongs_to_their_weights():
    model = Odd("scaled")
    found = find(Watcher(model), torch.randn(2, 9, 8, generator=torch.Generator()))
    own = next(iter(found.projections.values()))
    assert own.query.factor == pytest.approx(0.3)
    assert own.key.factor == 1.0
    torch.testing.assert_close(
        own.query.weight.flatten(0, 1), 0.3 * model.q.weight.detach().double()
    )
