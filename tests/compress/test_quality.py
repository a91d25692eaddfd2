"""How good a model is after a cut: each figure beside a closed form or a slow computation."""

import math

import pytest
import torch
from rotary_tiny import numbers, tiny_llama, tokens
from small_models import small
from torch import nn

import attnrate as ar
from attnrate.compress.quality import (
    Score,
    decodes,
    embeddings,
    has_language_head,
    judged,
    neighbours_of,
    of_embeddings,
    same_neighbours,
    surprise,
    texts,
)

IDS = tokens(2, 9)
MASK = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])


def test_the_surprise_is_that_of_a_slow_computation() -> None:
    logits, ids = numbers(1, 5, 7).float(), torch.tensor([[3, 0, 6, 2, 2]])
    total = 0.0
    for t in range(4):
        weights = [math.exp(float(x)) for x in logits[0, t]]
        total -= math.log(weights[int(ids[0, t + 1])] / sum(weights))
    assert surprise(logits, ids) == pytest.approx(total, rel=1e-6)
    assert surprise(torch.zeros(1, 5, 7), ids) == pytest.approx(4 * math.log(7), rel=1e-6)


def test_texts_are_inputs_without_their_padding() -> None:
    found = texts([{"input_ids": IDS, "attention_mask": MASK}, {"input_ids": IDS[:1, :1]}])
    assert [each.tolist() for each in found] == [[IDS[0].tolist()], [IDS[1, 4:].tolist()]]


def test_a_decoder_of_token_ids_is_known_by_its_configuration_and_inputs() -> None:
    model = tiny_llama()
    assert decodes(model, [{"input_ids": IDS, "attention_mask": MASK}])
    assert not decodes(model, [{"input_ids": IDS, "position_ids": IDS}])
    assert not decodes(model, [IDS])
    assert not decodes(small("t5").model, [{"input_ids": IDS}])
    assert not decodes(nn.Linear(2, 2), [{"input_ids": IDS}])
    assert has_language_head(model)
    assert has_language_head(small("own-seq2seq").model)
    assert not has_language_head(model.model)
    assert not has_language_head(small("bert").model)


def test_an_embedding_is_the_mean_over_tokens_without_padding() -> None:
    one = small("bert")
    found = embeddings(one.model, [one.batch])
    assert found is not None
    output, seen = one.output(), one.seen
    for number, each in enumerate(found):
        own = output[number][seen[number]].double()
        assert torch.allclose(each, own.sum(0) / len(own), atol=1e-6)
    for name in ("own-vit", "own-seq2seq"):  # classes, and words
        assert embeddings(small(name).model, [small(name).batch]) is None


def test_neighbours_that_stay_are_counted() -> None:
    angles = torch.tensor([0.0, 10, 30, 100, 120, 190, 200]).deg2rad().double()
    points = torch.stack([angles.cos(), angles.sin()], 1)
    assert same_neighbours(points, 3 * points, 2) == 1
    # the nearest of the seven are 1, 0, 1, 4, 3, 6, 5; where the first two change places with
    # the last two, points 0, 1, 5, 6 have others, and so has 2
    moved = points[[5, 6, 2, 3, 4, 0, 1]]
    slow = 0
    for i in range(7):
        nearest = []
        for own in (points, moved):
            others = [(float(own[i] @ own[j]), j) for j in range(7) if j != i]
            nearest.append({j for _, j in sorted(others)[-2:]})
        slow += len(nearest[0] & nearest[1])
    assert same_neighbours(points, moved, 2) == pytest.approx(slow / 14)
    assert same_neighbours(points, moved, 6) == 1  # all the others, so that none can be missing


def test_not_so_many_neighbours_are_compared_that_none_can_be_missing() -> None:
    assert [neighbours_of(n) for n in (1, 2, 3, 11, 16, 20, 21, 90)] == [0, 0, 1, 5, 7, 9, 10, 10]


def test_a_turn_of_embeddings_has_the_cosine_of_its_angle() -> None:
    whole = numbers(6, 2)
    turn = math.radians(60)
    matrix = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    turned = whole @ matrix.double()
    change, cosine, near = of_embeddings(whole, turned, 2 * whole)
    # |x' - x| = 2 sin(30°) |x| = |x|
    assert (change.cut, change.after) == (pytest.approx(1, rel=1e-6), pytest.approx(1))
    assert (cosine.cut, cosine.after) == (pytest.approx(0.5, abs=1e-6), pytest.approx(1))
    assert (near.before, near.cut, near.after) == (1, 1, 1)
    assert [one.measure for one in of_embeddings(whole[:2], whole[:2], whole[:2])] == [
        "embedding_change",
        "embedding_cosine",
    ]


def test_a_metric_sees_the_model_at_rest() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout()).train()

    def metric(given: nn.Module) -> torch.Tensor:
        assert given is model
        assert not given.training
        assert not torch.is_grad_enabled()
        return torch.tensor(0.75)

    assert judged(metric, model, "the whole model") == 0.75
    assert model.training


def shape(model: nn.Module) -> list[float]:
    return [0.5, 0.6]


def fails(model: nn.Module) -> float:
    raise KeyError("labels")


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (0.5, "metric must be a function of a model that gives a number: got 0.5"),
        (fails, r"the metric 'fails' raised KeyError for the whole model .*labels.*module alone"),
        (Score("bleu", fails, 3), "the metric 'bleu' raised KeyError"),
        (shape, r"the metric shape must return a finite number.*it returned \[0.5, 0.6\]"),
        (lambda model: math.nan, "must return a finite number"),
        (lambda model: "0.9", "it returned '0.9'"),
        (lambda model: None, "it returned None"),
    ],
)
def test_a_metric_that_gives_no_number_is_refused_before_the_work(
    metric: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnrate.compress import run

    monkeypatch.setattr(run, "cut", lambda *_: pytest.fail("the work has begun"))
    one = small("bert")
    inputs = {key: torch.cat([value] * 4) for key, value in one.batch.items()}
    with pytest.raises(ar.InputError, match=said):
        ar.compress(one.model, inputs, size=4, metric=metric)
