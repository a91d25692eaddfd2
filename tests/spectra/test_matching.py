"""Which layers of two models belong together."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from made_up import made

from attnrate.errors import InputError
from attnrate.spectra.matching import matched
from attnrate.spectra.result import Profile

__all__ = ["made"]
Made = Callable[..., Profile]


def model(made: Made, *names: str, heads: int = 2) -> Profile:
    return made(*({"name": name, "heads": heads, "m_h": 4} for name in names))


def pairs(found: tuple[list, list]) -> dict[str, str]:
    """Names after, with those before."""
    return {two.name: one.name for one, two in found[0]}


def bert(made: Made, layers: int) -> Profile:
    return model(made, *(f"encoder.layer.{i}.attention" for i in range(layers)))


def distil(made: Made, layers: int) -> Profile:
    return model(made, *(f"transformer.layer.{i}.q" for i in range(layers)))


def test_layers_of_one_name_belong_together(made: Made) -> None:
    found = matched(bert(made, 3), bert(made, 2), None, "name")
    assert pairs(found) == {
        f"encoder.layer.{i}.attention": f"encoder.layer.{i}.attention" for i in (0, 1)
    }
    (left,) = found[1]
    assert (left.model, left.name) == ("before", "encoder.layer.2.attention")
    assert left.why == "no layer after has this name"


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (12, 6, [1, 3, 5, 7, 9, 11]),
        (12, 4, [1, 4, 7, 10]),
        (3, 3, [0, 1, 2]),
        (2, 4, [0, 0, 1, 1]),
        (5, 1, [2]),
    ],
)
def test_layers_of_one_depth_belong_together(
    before: int, after: int, wanted: list[int], made: Made
) -> None:
    """Layer j of n lies in the middle of the depths from j/n to (j + 1)/n."""
    found = matched(bert(made, before), distil(made, after), None, "depth")
    assert list(pairs(found).values()) == [f"encoder.layer.{i}.attention" for i in wanted]
    left = {one.name for one in found[1]}
    assert left == {f"encoder.layer.{i}.attention" for i in range(before) if i not in wanted}


def test_depth_is_counted_within_a_part_and_a_kind(made: Made) -> None:
    names = [
        f"{part}.layers.{i}.{kind}"
        for part in ("encoder", "decoder")
        for i in (0, 1)
        for kind in ("own", "other")
    ]
    before = model(made, *names)
    cross = tuple(
        replace(layer, kind="cross") if layer.name.endswith("other") else layer
        for layer in before.layers
    )
    before = replace(before, layers=cross)
    after = replace(before, layers=tuple(before.layers[i] for i in (0, 6, 7)))
    found = matched(before, after, None, "depth")
    assert pairs(found) == {
        "encoder.layers.0.own": "encoder.layers.1.own",
        "decoder.layers.1.own": "decoder.layers.1.own",
        "decoder.layers.1.other": "decoder.layers.1.other",
    }


def test_pairs_of_the_user_are_taken_as_they_are(made: Made) -> None:
    before, after = bert(made, 3), distil(made, 2)
    given = {"transformer.layer.1.q": "encoder.layer.0.attention", 0: 0}
    found = matched(before, after, given, "name")
    assert pairs(found) == {
        "transformer.layer.0.q": "encoder.layer.0.attention",
        "transformer.layer.1.q": "encoder.layer.0.attention",
    }
    assert {one.why for one in found[1]} == {"not among the given pairs"}


def test_layers_with_other_numbers_of_heads_are_not_compared(made: Made) -> None:
    before = made({"name": "a", "heads": 2, "m_h": 4}, {"name": "b", "heads": 2, "m_h": 4})
    after = made({"name": "a", "heads": 2, "m_h": 4}, {"name": "b", "heads": 3, "m_h": 4})
    found = matched(before, after, None, "name")
    assert pairs(found) == {"a": "a"}
    assert {str(one) for one in found[1]} == {
        "b (after): 2 heads before, 3 after",
        "b (before): 2 heads before, 3 after",
    }
    with pytest.raises(InputError, match="b and b have '3 and 2'"):
        matched(before, after, {"b": "b"}, "name")


def test_models_without_a_common_layer_are_refused_with_both_ways_out(made: Made) -> None:
    with pytest.raises(InputError, match=r"no layer of made-up .*match='depth'"):
        matched(bert(made, 2), distil(made, 2), None, "name")
    with pytest.raises(InputError, match="as many heads as its partner"):
        matched(model(made, "a", heads=2), model(made, "a", heads=3), None, "name")
