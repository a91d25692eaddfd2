"""Recipes: step sizes and batches by hand, and settings that are refused."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.fitting.optimizers import make_optimizer
from attnrate.fitting.recipe import PAPER, STRONG, Recipe, as_recipe, recipe_of


def test_the_step_size_is_warmed_up_and_falls_to_zero_in_a_line() -> None:
    recipe = Recipe("mine", lr=0.1, steps=100, warmup=3)
    assert recipe.rate(0, 1.0) == pytest.approx(0.1 / 4)
    assert recipe.rate(50, 1.0) == pytest.approx(0.05)
    assert recipe.rate(99, 1.0) == pytest.approx(0.001)
    assert recipe.rate(50, 1 / 3) == pytest.approx(0.05 / 3)


def test_the_papers_recipe_is_adam_with_a_constant_step_and_one_batch_size() -> None:
    assert PAPER.optimizer == "adam"
    assert PAPER.rate(0, 1.0) == PAPER.rate(19_999, 1.0) == 1e-3
    assert {PAPER.batch_at(step) for step in range(0, PAPER.steps, 100)} == {128}
    weights = [torch.nn.Parameter(torch.zeros(2, 2))]
    assert type(make_optimizer(PAPER, weights)) is torch.optim.Adam
    assert type(make_optimizer(STRONG, weights)).__name__ == "SOAP"


def test_batches_grow_in_the_second_half() -> None:
    recipe = Recipe("mine", steps=10, first_batch=4, batch=16)
    assert [recipe.batch_at(step) for step in range(10)] == [4] * 5 + [16] * 5


@pytest.mark.parametrize("steps", [1, 2, 7, 10])
def test_the_sequences_of_a_fit_are_those_of_its_batches(steps: int) -> None:
    recipe = Recipe("mine", steps=steps, first_batch=4, batch=16, starts=3)
    assert recipe.sequences == 3 * sum(recipe.batch_at(step) for step in range(steps))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer", "sgd"),
        ("decay", "cosine"),
        ("start", "warm"),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("lr", 1e300),
        ("steps", 0),
        ("steps", 2.5),
        ("batch", -1),
        ("clip", 0.0),
        ("retries", -1),
        ("starts", 0),
        ("starts", 101),
        ("lrr", 0.1),
    ],
)
def test_wrong_settings_are_named_with_their_value(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name) as caught:
        as_recipe("strong", **{name: value})
    assert caught.value.value is value or caught.value.value == value


def test_a_wrong_value_is_named_as_it_was_given() -> None:
    with pytest.raises(InputError, match=r"^steps must be .* Pass steps=1 or more"):
        as_recipe("strong", steps=0)
    with pytest.raises(InputError, match=r"^steps must be .* Pass steps=1 or more"):
        Recipe("mine", steps=0)
    with pytest.raises(InputError, match=r"^recipe.steps must be .* Pass recipe.steps=1 or more"):
        recipe_of({"steps": 0})


@pytest.mark.parametrize("recipe", ["stronk", 3, None, ["strong"], {"name": "strong"}])
def test_an_unknown_recipe_is_refused(recipe: object) -> None:
    with pytest.raises(InputError, match="strong"):
        as_recipe(recipe)
