"""Thin layers of all families: the same at full size, else as the cut of whole projections says."""

import pickle

import pytest
import torch
from thin_families import MODELS, known, made, output, projected, thin_layers

from attnrate.compress.fold import fold, thin_parts
from attnrate.compress.modules import FAMILIES
from attnrate.compress.modules.bart import ThinBart

#: In float32 by their settings, or the same file as another of the list
EVERY = [name for name in MODELS if name != "gpt2-float32"]
SOME = ("gpt2", "roberta", "distilbert", "bart", "whisper", "t5")


def sizes(name):
    own = known(name)[2].held.values()
    held = next(iter(own))
    return held.key.shape[-1], held.value.shape[-1]


@pytest.mark.parametrize("name", EVERY)
def test_a_thin_model_is_the_whole_one_with_its_projections_multiplied_by_the_cut(name):
    model, batch, found = known(name)
    assert found.found.refused == ()
    layers = thin_layers(found, 4, 3)
    thin, whole = output(fold(model, layers), batch), output(projected(model, layers), batch)
    torch.testing.assert_close(thin, whole, rtol=1e-9, atol=1e-10)
    before = output(model, batch)
    # something was cut, by far more than the two may differ
    assert float((thin - before).norm() / before.norm()) > 1e-4


@pytest.mark.parametrize("name", EVERY)
def test_full_sizes_change_nothing(name):
    model, batch, found = known(name)
    made = fold(model, thin_layers(found, *sizes(name)))
    torch.testing.assert_close(output(made, batch), output(model, batch), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", SOME)
def test_every_attention_function_gives_the_same(name):
    model, batch, found = known(name)
    thin = fold(model, thin_layers(found, 4, 3))
    given = {}
    for way in ("eager", "sdpa"):
        thin.set_attn_implementation(way)
        used = {
            part.config._attn_implementation for part in thin.modules() if hasattr(part, "config")
        }
        assert used == {way}
        given[way] = output(thin, batch)
    torch.testing.assert_close(given["eager"], given["sdpa"], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("recorded", [False, True], ids=["new", "recorded before"])
@pytest.mark.parametrize("name", SOME)
def test_attention_weights_are_recorded_as_by_the_whole_model(name, recorded):
    _, batch, found = known(name)
    model = made(name)
    model.set_attn_implementation("eager")
    layers = thin_layers(found, *sizes(name))
    with torch.no_grad():
        if recorded:
            model(**batch, output_attentions=True)
        thin = fold(model, layers)
        theirs, ours = (each(**batch, output_attentions=True) for each in (model, thin))
    kinds = [key for key in theirs if key.endswith("attentions") and theirs[key]]
    assert kinds
    for kind in kinds:
        assert len(ours[kind]) == len(theirs[kind]) == 2
        for mine, other in zip(ours[kind], theirs[kind], strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


def test_a_thin_layer_is_of_the_class_of_the_whole_one_and_has_none_of_its_large_parts():
    model, _, found = known("bart")
    thin = fold(model, thin_layers(found, 4, 3)).model.encoder.layers[0].self_attn
    whole = model.model.encoder.layers[0].self_attn
    assert isinstance(thin, type(whole))
    assert isinstance(thin, ThinBart)
    assert type(thin).__name__ == "ThinBartAttention"
    assert {*dict(thin.named_parameters())} == {*dict(whole.named_parameters())}
    assert sum(x.numel() for x in thin.parameters()) == 25 * (12 + 12 + 9) + 9 * 24 + 24
    assert "size=4, values=3" in repr(thin)


def test_a_thin_model_is_copied_by_another_process():
    model, batch, found = known("gpt2")
    thin = fold(model, thin_layers(found, 4, 3))
    again = pickle.loads(pickle.dumps(thin))  # noqa: S301 - made here
    assert type(again.transformer.h[0].attn) is type(thin.transformer.h[0].attn)
    assert torch.equal(output(again, batch), output(thin, batch))


def test_a_class_derived_from_that_of_a_family_is_not_taken_for_it():
    model, _, found = known("bart")
    layer = next(iter(thin_layers(found, 4, 3).values()))
    whole = model.model.encoder.layers[0].self_attn

    class Other(type(whole)):
        """It may attend in another way."""

    other = Other(24, 3, config=model.config)
    assert [thin(whole, thin_parts(layer)) for thin in FAMILIES].count(None) == len(FAMILIES) - 1
    assert all(thin(other, thin_parts(layer)) is None for thin in FAMILIES)


def test_training_drops_weights_as_the_whole_layer_does():
    model, batch, found = known("gpt2")
    thin = fold(model, thin_layers(found, *sizes("gpt2")))
    given = []
    for each in (model, thin):
        each.train()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            given.append(output(each, batch))
        each.eval()
    assert not torch.equal(given[0], output(model, batch))
    torch.testing.assert_close(given[1], given[0], rtol=1e-9, atol=1e-10)
