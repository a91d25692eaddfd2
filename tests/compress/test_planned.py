"""Sizes for a target, from what was measured: no other choice does better, and it is reached."""

from itertools import product
from typing import Any

import pandas as pd
import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import small

import attnrate as ar

IDS = {"input_ids": tokens(10, 20)}
#: Of ten inputs, the eight by which a model is cut
OWN = {"input_ids": IDS["input_ids"][:8]}


def llama() -> Any:
    return tiny_llama(torch.float32)


def bert() -> tuple[Any, dict[str, torch.Tensor]]:
    given = small("bert")
    return given.model, {key: torch.cat([value] * 4) for key, value in given.batch.items()}


def measured(done: ar.Compressed, model: Any, batch: dict[str, torch.Tensor]) -> float:
    """The relative change of the output, by running both models."""
    kept = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
    with torch.no_grad():
        whole, made = (each(**batch)[0][kept].double() for each in (model, done.model))
    return float((made - whole).norm() / whole.norm())


def alone(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(part): own for part, own in frame.groupby("part", sort=False) if part != "model"}


def least_sum(frame: pd.DataFrame, column: str, budget: float) -> float:
    """The least sum of squares within a budget, over all combinations of measured sizes."""
    rows = [own[[column, "change"]].to_numpy().tolist() for own in alone(frame).values()]
    return min(
        sum(change**2 for _, change in choice)
        for choice in product(*rows)
        if sum(cost for cost, _ in choice) <= budget
    )


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(
    ("asked", "column"),
    [({"average": 6}, "size"), ({"bytes": 300}, "bytes"), ({"bytes": 288}, "bytes")],
)
def test_within_a_budget_no_combination_has_a_lesser_sum_or_one_size_is_better(
    asked: dict[str, Any], column: str, values: bool
) -> None:
    model = llama()
    done = ar.compress(model, IDS, values=values, **asked)
    frame = done.curves.to_frame()
    budget = asked.get("bytes", 2 * asked.get("average", 0))
    taken = [own[own.chosen] for own in alone(frame).values()]
    assert [int(row["size"].iloc[0]) for row in taken] == [x.size for x in done.layers]
    assert sum(int(row[column].iloc[0]) for row in taken) <= budget
    square = sum(float(row.change.iloc[0]) ** 2 for row in taken)
    together = frame[frame.part == "model"]
    if len({x.size for x in done.layers}) > 1:
        assert square == pytest.approx(least_sum(frame, column, budget), rel=1e-9)
    # of all that were tried at once, the chosen ones change least
    assert float(together[together.chosen].change.iloc[0]) == together.change.min()
    assert done.bytes == int(together[together.chosen].bytes.iloc[0])
    assert done.curves.change == pytest.approx(measured(done, model, OWN), rel=1e-3)


@pytest.mark.parametrize("more", [{}, {"values": True}, {"shared": "model"}, {"multiple_of": 4}])
def test_a_loss_is_reached_on_calibration_inputs_and_fewer_bytes_do_not_reach_it(
    more: dict[str, Any],
) -> None:
    model = llama()
    done = ar.compress(model, IDS, loss=0.6, **more)
    assert measured(done, model, OWN) <= 0.6
    frame = done.curves.to_frame()
    together = frame[frame.part == "model"]
    chosen = together[together.chosen].iloc[0]
    assert done.bytes == chosen.bytes < done.bytes_before
    assert (together[together.bytes < chosen.bytes].change > 0.6).all()
    assert (together.bytes < chosen.bytes).any()
    assert done.curves.inputs_together == 8
    sizes = {x.size for x in done.layers}
    assert all(size % more.get("multiple_of", 2) == 0 for size in sizes)
    assert more.get("shared") != "model" or len(sizes) == 1


def test_padding_and_heads_that_know_no_positions_reach_a_loss_too() -> None:
    model, inputs = bert()
    done = ar.compress(model, inputs, loss=0.15, values=True)
    own = {key: value[:13] for key, value in inputs.items()}
    assert measured(done, model, own) <= 0.15
    assert done.curves.change == pytest.approx(measured(done, model, own), rel=1e-3)
    assert done.made_by["target"] == "loss=0.15"
    again = ar.compress(model, inputs, sizes=[x.size for x in done.layers], values=True)
    assert again.change == pytest.approx(done.change, rel=1e-4)
    assert again.curves is None


def test_sizes_by_measurement_beat_one_size_on_calibration_inputs() -> None:
    model = llama()
    one = ar.compress(model, IDS, size=6)
    own = ar.compress(model, IDS, average=6)
    assert own.bytes <= one.bytes
    assert measured(own, model, OWN) <= measured(one, model, OWN) * (1 + 1e-6)
    assert [x.size for x in own.layers] != [6, 6]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"loss": 0.0}, r"loss must be a share between 0 and 1: got 0.0"),
        ({"loss": -0.1}, r"loss must be a share between 0 and 1: got -0.1"),
        ({"loss": 0.1, "average": 4}, "only one of size, sizes, keep, loss, bytes and average"),
        ({"average": 4, "size": 4}, "only one of"),
        ({"average": 0}, "average must be a finite number greater than 0"),
        ({"average": 1}, r"average must be from 2, the least mean .* to 12: got 1.*average=2"),
        ({"average": 13}, r"average must be from 2.* to 12: got 13.*Pass average=12"),
        ({"bytes": 0}, "bytes must be a whole number of at least 1"),
        # 2 layers of 2 key heads, 4 bytes: keys of 2 and values of 12; cut, of 2 and 2
        (
            {"bytes": 200},
            r"bytes must be from 224, the least .* to 384.*got 200.*=224.*, too, or take a",
        ),
        ({"bytes": 63, "values": True}, r"bytes must be from 64, the least .*: got 63"),
        ({"bytes": 385}, r"to 384, what they take as they are: got 385. Pass bytes=384 or fewer"),
        ({"loss": 0.01}, r"no cut that saves .* so little; the least change .* 0.1.*: got 0.01"),
        ({"average": 6, "multiple_of": 0}, "multiple_of must be a whole number of at least 1"),
        (
            {"average": 6, "multiple_of": 13},
            "multiple_of must be at most the size of the heads, 12",
        ),
        ({"average": 12, "multiple_of": 12}, r"no smaller size .* in multiples of: got 12"),
        ({"size": 6, "multiple_of": 4}, r"must be multiples of 4: got 6. Pass size=8"),
    ],
)
def test_targets_that_cannot_be_are_refused_with_the_least_that_can(
    asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ar.InputError, match=said):
        ar.compress(llama(), IDS, **asked)


def test_an_advice_is_raised_to_the_multiple() -> None:
    given = small("own-vit")
    inputs = torch.cat([given.batch["images"]] * 4)
    advice = ar.advise(ar.profile(given.model, inputs, cut_inputs=2), budget=7)
    done = advice.apply(given.model, inputs, multiple_of=4)
    wanted = [min(6, -(-layer.size // 4) * 4) for layer in advice.layers]
    assert [x.size for x in done.layers] == wanted
    assert sum(wanted) > 7


def test_too_few_tokens_for_the_largest_candidate_are_said_before_the_work() -> None:
    few = {"input_ids": tokens(3, 30)}
    with pytest.raises(ar.InputError, match=r"to cut heads to size 10, 100 are needed.*got 60"):
        ar.compress(llama(), few, average=6)
