"""Thin heads in real modules: fewer parameters, and what the edit of the watcher gives."""

from dataclasses import replace

import pytest
import torch
from small_models import small

from attnrate.compress.calibration import calibrate
from attnrate.compress.content import content
from attnrate.compress.fold import ThinLayer, fold
from attnrate.compress.values import value_cut
from attnrate.errors import InputError
from attnrate.spectra.check import output_of
from attnrate.spectra.cut import run_cut

THIN = ("bert", "mpnet", "vit", "own-vit", "own-seq2seq")


def known_of(name):
    given = small(name)
    return given, calibrate(given.model, [given.batch])


def thin_layers(known, size=None, value_size=None):
    layers = {}
    for name, own in known.found.projections.items():
        moments = known.moments[name]
        layers[name] = ThinLayer(
            own,
            None if size is None else content(moments, "logits", size),
            None if value_size is None else value_cut(moments, own.output.weight, value_size),
        )
    return layers


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", THIN)
def test_thin_modules_give_what_cut_queries_give(name):
    given, known = known_of(name)
    layers = thin_layers(known, size=3)
    made = fold(given.model, layers)
    cut = {name: each.content.projection() for name, each in layers.items()}
    wanted = output_of(run_cut(known.watcher, given.batch, cut))
    found, seen = given.output(made), given.seen
    torch.testing.assert_close(found[seen], wanted[seen], rtol=1e-3, atol=1e-4)
    assert (wanted - given.output())[seen].abs().max() > 1e-2  # something was cut


@pytest.mark.parametrize("name", THIN)
def test_full_sizes_change_nothing(name):
    given, known = known_of(name)
    sizes = next(iter(known.held.values()))
    layers = thin_layers(known, sizes.key.shape[-1], sizes.value.shape[-1])
    found, seen = given.output(fold(given.model, layers)), given.seen
    torch.testing.assert_close(found[seen], given.output()[seen], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", THIN)
def test_thin_models_have_fewer_parameters_by_as_many_as_were_cut_and_leave_the_original(name):
    given, known = known_of(name)
    before, plain = given.output(), count(given.model)
    made = fold(given.model, thin_layers(known, 2, 3))
    wanted = 0
    for own in known.found.projections.values():
        m, m_v = own.query.features.shape[1], own.value.features.shape[1]
        heads, groups = own.site.heads, own.site.groups
        inner, kept = own.query.weight.shape[2], own.output.weight.shape[2]
        bias = own.query.part.bias is not None
        wanted += (heads + groups) * (m - 2) * (inner + bias)
        wanted += (m_v - 3) * (groups * (own.value.weight.shape[2] + bias) + heads * kept)
    assert count(made) == plain - wanted
    assert torch.equal(given.output(), before)
    own = {id(part) for part in given.model.parameters()}
    assert not any(id(part) in own for part in made.parameters())


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_thin_modules_go_through_every_attention_function(name):
    given, known = known_of(name)
    made = fold(given.model, thin_layers(known, 3, 5))
    found = {}
    for way in ("eager", "sdpa"):
        made.set_attn_implementation(way)
        found[way] = given.output(made)[given.seen]
    torch.testing.assert_close(found["eager"], found["sdpa"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "mpnet", "vit"])
def test_a_thin_model_can_be_watched_and_cut_again(name):
    given, known = known_of(name)
    made = fold(given.model, thin_layers(known, 4))
    again = calibrate(made, [given.batch])
    assert {site.m_h for site in again.watcher.sites} == {4}
    assert again.found.refused == ()


def test_a_decoder_with_thin_cross_attention_decodes_as_its_forward_says():
    given, known = known_of("own-seq2seq")
    made = fold(given.model, thin_layers(known, 3, 4))
    states = made.states(**given.batch)
    state = made.begin(given.batch["source"])
    for place in range(states.shape[1]):
        step, state = made.step(state, given.batch["target"][:, place])
        torch.testing.assert_close(step, states[:, place], rtol=1e-4, atol=1e-4)


def test_a_family_without_a_thin_module_is_named():
    given, known = known_of("plain")
    with pytest.raises(InputError, match=r"no thin module for its class: got 'Plain'.*GPT-2"):
        fold(given.model, thin_layers(known, 3))


def test_a_factor_of_the_queries_that_the_thin_module_does_not_have_is_refused():
    given, known = known_of("bert")
    layers = thin_layers(known, 3)
    name, layer = next(iter(layers.items()))
    halved = replace(layer.projections.query, factor=0.5)
    wrong = replace(layer, projections=replace(layer.projections, query=halved))
    with pytest.raises(InputError, match="there is no thin module"):
        fold(given.model, layers | {name: wrong})
