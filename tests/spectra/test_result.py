"""Profiles, advice and opened models as results: shown, copied, pickled, drawn."""

import copy
import pickle

import numpy as np
import pytest
import torch

import attnrate as ar
from attnrate.errors import InputError
from attnrate.figures.drawing import Drawing
from attnrate.spectra.load import LoadedModel


@pytest.fixture(scope="module")
def model() -> ar.Transformer:
    torch.manual_seed(0)
    return ar.Transformer(2, 1, n=10, m_h=8, m_v=4, heads=2, layers=2)


@pytest.fixture(scope="module")
def found(model: ar.Transformer) -> ar.Profile:
    return ar.profile(model, torch.rand(6, 20, 2), name="small")


def test_a_profile_shows_a_summary_a_table_and_a_map(found: ar.Profile) -> None:
    assert repr(found) == str(found)
    assert len(str(found).splitlines()) < 10
    page = found._repr_html_()
    assert "small: 2 attention layers, 4 heads of size 8" in page
    assert "<table" in page
    assert 'alt="Profile" src="data:image/png' in page
    assert isinstance(found.plot_ranks(), Drawing)
    assert found.plot(1, 0)._repr_png_().startswith(b"\x89PNG")


def test_advice_shows_a_sentence_a_table_and_the_sizes(
    model: ar.Transformer, found: ar.Profile
) -> None:
    advice = ar.advise(found)
    assert repr(advice).startswith("small: heads of size")
    assert 'alt="Advice"' in advice._repr_html_()
    assert repr(advice.check(model, torch.rand(3, 20, 2))).startswith("Cut for real, ")


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_says_the_same(found: ar.Profile, again) -> None:
    str(found)  # fills what is computed once
    other = again(found)
    assert str(other) == str(found)
    assert other.to_frame().equals(found.to_frame())
    assert str(again(ar.advise(found))) == str(ar.advise(found))


def test_a_copy_of_a_profile_has_the_position_bias_too(found: ar.Profile) -> None:
    from dataclasses import replace

    bias = np.arange(2 * 5 * 5, dtype=np.float32).reshape(2, 5, 5) % 7
    shared = tuple(replace(layer, bias=bias) for layer in found.layers)
    one = replace(found, layers=shared)
    wanted = one.bias(1, 1)
    other = pickled(one)
    assert np.array_equal(other.bias(1, 1), wanted)
    assert np.array_equal(copy.deepcopy(one).bias(0, 1), wanted)


def test_the_gauge_of_a_call_is_the_profiles_own_by_default_and_none_is_a_word_for_none(
    found: ar.Profile,
) -> None:
    own, softmax = found.pooled(0, 0), found.pooled(0, 0, gauge="softmax")
    assert np.array_equal(own, softmax)
    assert np.array_equal(found.pooled(0, 0, gauge=None), found.pooled(0, 0, gauge="none"))
    assert not np.array_equal(own, found.pooled(0, 0, gauge="none"))
    with pytest.raises(InputError, match="gauge is not known"):
        found.pooled(0, 0, gauge="hard")  # type: ignore[arg-type]


def test_layers_and_heads_are_named_in_numpys_numbers_too(found: ar.Profile) -> None:
    assert np.array_equal(found.sigma(np.int64(1), np.int32(1)), found.sigma(1, 1))


def test_an_opened_model_stands_for_its_module_and_gives_its_name(
    model: ar.Transformer, tmp_path
) -> None:
    loaded = LoadedModel(model, "opened", tmp_path, None)
    x = torch.rand(6, 20, 2)
    one, two = ar.profile(loaded, x), ar.profile(model, x)
    assert (one.model, two.model) == ("opened", "Transformer")
    assert np.array_equal(one.pooled(0, 0), two.pooled(0, 0))
    assert "weight" not in repr(loaded)
    assert "Parameter" not in repr(loaded)
    assert ar.advise(one).check(loaded, x).kept >= 0


def test_a_profile_that_takes_long_says_how_far_it_is(on_a_terminal, model, monkeypatch) -> None:
    monkeypatch.setattr("attnrate.spectra.profile.QUIET", 0.0)
    batches = [torch.rand(2, 20, 2) for _ in range(3)]
    assert "batch 3 of 3" in on_a_terminal(lambda: ar.profile(model, batches))
    assert on_a_terminal(lambda: ar.profile(model, batches, progress=False)) == ""
