"""A model's cut from its inputs on: the best measured is chosen, and what is said is true."""

import sys

import pytest
import torch
from small_models import small

from attnrate.compress.calibration import calibrate, some
from attnrate.compress.choice import PER_LAYER, changes_of, choose
from attnrate.compress.content import content
from attnrate.compress.repair import output_error
from attnrate.compress.run import cut as cut_model
from attnrate.errors import InputError
from attnrate.spectra import batches


def test_the_choice_is_the_least_of_all_that_were_measured():
    given = small("bert")
    known = calibrate(given.model, [given.batch])
    choice = choose(known, dict.fromkeys(known.moments, 3))
    assert {*choice.changes} == {"logits", "gauge", "felt", "output", PER_LAYER}
    best = sorted(choice.changes, key=lambda rule: choice.changes[rule])[:2]
    assert choice.rule in best
    half = [batches.pick(batch, [0, 2]) for batch in some([given.batch], 4)]
    again = changes_of(known.watcher, half, {"it": choice.factors})
    assert again["it"] == pytest.approx(choice.changes[choice.rule], rel=1e-3)


def test_a_cut_model_runs_and_its_record_says_what_was_done():
    given = small("vit")
    done = cut_model(given.model, [given.batch], 3, value_sizes=5, steps=5, together=4)
    assert given.output(done.model).shape == given.output().shape
    assert [(each.size, each.value_size) for each in done.layers] == [(3, 5), (3, 5)]
    assert all(each.after <= each.before for each in done.layers)
    assert done.refused == ()


def test_layers_may_have_sizes_of_their_own_and_others_stay():
    given = small("bert")
    name = "encoder.layer.1.attention.self"
    done = cut_model(given.model, [given.batch], {name: 4})
    layers = done.model.encoder.layer
    assert layers[1].attention.self.query.out_features == 3 * 4
    assert layers[0].attention.self is not given.model.encoder.layer[0].attention.self
    assert layers[0].attention.self.query.out_features == 3 * 8


def test_batches_of_one_length_are_taken_together():
    given = small("bert")
    halves = [{k: v[part] for k, v in given.batch.items()} for part in (slice(2), slice(2, 4))]
    two, one = calibrate(given.model, halves), calibrate(given.model, [given.batch])
    for name, held in one.held.items():
        for word in ("felt", "output", "query", "mixed"):
            mine, theirs = (getattr(each.moments[name], word) for each in (two, one))
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
        assert two.held[name].inputs == held.inputs


def test_batches_of_several_lengths_are_filled_up():
    given = small("bert")
    short = {k: v[1:3, :7] for k, v in given.batch.items()}
    rest = {k: v[[0, 3]] for k, v in given.batch.items()}
    several, one = calibrate(given.model, [short, rest]), calibrate(given.model, [given.batch])
    for name, held in several.held.items():
        own = one.held[name].pick([1, 2, 0, 3])
        cut = content(one.moments[name], "logits", 3)
        W_O = several.found.projections[name].output.weight
        mine, theirs = (output_error(each, W_O, [cut])[0] for each in (held, own))
        assert mine == pytest.approx(theirs, rel=1e-4)
        assert held.counted.sum() == own.counted.sum() == 31
    assert cut_model(given.model, [short, rest], 3, steps=3).layers[0].after > 0


def test_values_alone_may_be_cut_in_layers_of_their_own():
    given = small("mpnet")
    one, two = (f"encoder.layer.{i}.attention.attn" for i in range(2))
    done = cut_model(given.model, [given.batch], {one: 4}, value_sizes={two: 3})
    assert [(each.size, each.value_size) for each in done.layers] == [(4, 8), (8, 3)]
    assert done.layers[1].objective is None


def test_too_few_tokens_to_find_projections_by_are_said():
    given = small("bert")
    with pytest.raises(InputError, match="fewer than 4 tokens"):
        cut_model(given.model, [{k: v[:, :3] for k, v in given.batch.items()}], 3)


@pytest.mark.parametrize("sizes", [0, 9, {"encoder.layer.7": 3}])
def test_sizes_that_cannot_be_are_refused(sizes):
    given = small("bert")
    with pytest.raises(InputError, match=r"cannot be cut to that size|no layer of that name"):
        cut_model(given.model, [given.batch], sizes)


def test_a_model_without_a_layer_that_can_be_cut_is_refused_with_the_reason():
    given = small("qwen2")
    with pytest.raises(InputError, match="rotary"):
        cut_model(given.model, [given.batch], 3)


def test_of_many_layers_few_calls_are_kept_and_the_cut_is_the_same(monkeypatch):
    given = small("bert")
    more = {key: torch.cat([value] * 3) for key, value in given.batch.items()}
    halves = [{k: v[part] for k, v in more.items()} for part in (slice(5), slice(5, 12))]
    few = calibrate(given.model, halves, 1)
    assert not few.is_whole
    assert calibrate(given.model, halves, 2).is_whole
    assert {each.inputs for each in few.held.values()} == {4}
    whole = cut_model(given.model, halves, 3, value_sizes=4, steps=4)
    monkeypatch.setattr(sys.modules[cut_model.__module__], "_AT_ONCE", 1)
    made = cut_model(given.model, halves, 3, value_sizes=4, steps=4)
    assert made.layers == whole.layers
    for mine, theirs in zip(made.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("count", "most", "wanted"),
    [
        (15, 8, [0, 1, 3, 5, 7, 9, 11, 13]),
        (40, 8, [*range(0, 40, 5)]),
        (9, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (3, 8, [0, 1, 2]),
    ],
)
def test_inputs_to_try_are_spread_over_all(count: int, most: int, wanted: list[int]) -> None:
    found = some([torch.arange(float(count))[:, None]], most)
    assert torch.cat(found).flatten().tolist() == wanted
