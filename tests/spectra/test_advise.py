"""Advice on head sizes, on models whose heads are known to be too large."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.advise import advise
from attnrate.spectra.profile import profile


def model_of_rank(rank: int, layers: int = 1) -> nn.Module:
    """Heads of size 8 whose logits have this rank."""
    torch.manual_seed(0)
    model = ar.Transformer(2, 1, n=10, m_h=8, m_v=4, width=16, depth=1, layers=layers)
    for part in [model, *model.inner]:
        part.W_Q.weight.data *= 3
        part.W_Q.weight.data[rank:] = 0
    return model


def draw(seed: int, inputs: int = 12) -> torch.Tensor:
    return torch.rand(inputs, 20, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rank", [1, 3])
def test_heads_of_known_rank_can_be_cut_to_it(rank):
    model = model_of_rank(rank)
    found = profile(model, draw(0))
    advice = advise(found, tolerance=1e-6)
    assert advice.layers[0].size == rank
    checked = advice.check(model, draw(1))
    assert checked.weights[0].value < 1e-5
    assert checked.output.value < 1e-5


def test_what_is_predicted_happens():
    model = model_of_rank(8, layers=2)
    advice = advise(profile(model, draw(0, 40), cut_inputs=20), tolerance=0.02)
    checked = advice.check(model, draw(1, 40))
    assert any(layer.size < 8 for layer in advice.layers)
    assert checked.kept == 2


def test_a_larger_tolerance_never_asks_for_more():
    found = profile(model_of_rank(8, layers=3), draw(0))
    sizes = [
        [layer.size for layer in advise(found, tolerance=each).layers]
        for each in (1e-4, 1e-3, 0.01, 0.1, 0.5)
    ]
    assert (np.diff(np.array(sizes), axis=0) <= 0).all()


@pytest.mark.parametrize("budget", [3, 7, 12, 24])
def test_a_budget_is_kept_and_no_other_split_of_it_loses_less(budget):
    found = profile(model_of_rank(8, layers=3), draw(0))
    advice = advise(found, budget)
    assert advice.total <= budget
    if advice.tolerance > 1e-9:  # else the budget is more than is needed
        assert advise(found, tolerance=advice.tolerance * 0.999).total > budget


def test_without_measured_cuts_it_says_so():
    advice = advise(profile(model_of_rank(3), draw(0), cut_inputs=0))
    assert "estimated as half of the root mean square of the logits" in str(advice)
    assert advice.layers[0].size <= 3


def test_too_few_tokens_are_said():
    model = model_of_rank(8)
    # of three inputs of 20 tokens one is held out
    assert "Only 40 tokens made the cuts of last" in str(advise(profile(model, draw(0, 3))))
    assert "Only" not in str(advise(profile(model, draw(0, 12))))


def test_a_whole_head_is_no_cut():
    model = model_of_rank(8)
    few = torch.rand(4, 3, 2, generator=torch.Generator().manual_seed(0))
    advice = advise(profile(model, few), budget=8)
    if advice.layers[0].size == 8:
        assert advice.check(model, draw(1)).output.value == 0
    from attnrate.spectra.cut import projection

    layer = profile(model, few).layers[0]
    assert torch.equal(projection(layer.query, layer.key, [8], True)[0], torch.eye(8).double())


def test_no_more_than_all_attention_is_said_to_move():
    model = model_of_rank(8)
    model.W_Q.weight.data *= 1000
    assert advise(profile(model, draw(0)), budget=1).tolerance <= 1


def test_the_sentence_and_the_table():
    advice = advise(profile(model_of_rank(3), draw(0)), tolerance=1e-6)
    assert "heads of size 3 (layer by layer, now 8)" in str(advice)
    assert advice.to_frame().loc[0, "size"] == 3
    assert "3 of 8 dimensions." in str(advice)  # no fewer than advised: that is not said


def test_fewer_dimensions_that_could_do_are_said():
    advice = advise(profile(model_of_rank(8), draw(0)), tolerance=0.02)
    layer = advice.layers[0]
    could = replace(advice, layers=(replace(layer, size=5, low=3),))
    assert "5 of 8 dimensions; it could be as few as 3." in str(could)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"tolerance": 0}, "tolerance must be a share"),
        ({"tolerance": 2}, "tolerance must be a share"),
        ({"tolerance": "low"}, "tolerance must be a share"),
        ({"budget": 0}, "budget must be"),
        ({"budget": 5, "tolerance": 0.1}, "only one of"),
    ],
)
def test_wrong_requests(asked, words):
    with pytest.raises(InputError, match=words):
        advise(profile(model_of_rank(3), draw(0)), **asked)
    with pytest.raises(InputError, match="needs a profile"):
        advise("profile")


def test_a_model_without_the_layers():
    advice = advise(profile(model_of_rank(3, layers=2), draw(0)))
    with pytest.raises(InputError, match=r"lacks layers.*inner\.0"):
        advice.check(model_of_rank(3), draw(1))


def test_a_model_of_another_size():
    advice = advise(profile(model_of_rank(3), draw(0)))
    other = ar.Transformer(2, 1, n=8, m_h=4, heads=2)
    words = r"last must have the heads that were profiled, 1 of size 8.*got \(2, 4\)"
    with pytest.raises(InputError, match=words):
        advice.check(other, draw(1))


def test_each_head_needs_its_rank_and_the_layer_the_largest_of_them():
    torch.manual_seed(0)
    model = ar.Transformer(2, 1, n=10, m_h=8, heads=3, width=16, depth=1)
    rows = model.W_Q.weight.data.view(3, 8, -1)
    rows *= 3
    for head, rank in enumerate((1, 4, 2)):
        rows[head, rank:] = 0
    advice = advise(profile(model, draw(0)), tolerance=1e-6)
    heads = advice.by_head()
    assert heads.needed.tolist() == [1, 4, 2]
    assert heads["size"].tolist() == [4, 4, 4]
    assert (heads.predicted_low <= heads.predicted).all()
    smaller = replace(advice, layers=(replace(advice.layers[0], size=3),)).by_head()
    assert (smaller.predicted_high > 1e-6).tolist() == [False, True, False]
