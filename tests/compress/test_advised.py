"""The sizes of an advice for a model, and an advice of another model."""

from dataclasses import replace

import pytest
from small_models import small

import attnrate as ar
from attnrate.compress.advised import advised
from attnrate.errors import InputError


@pytest.fixture(scope="module")
def advice() -> ar.Advice:
    """An advice of size 3 and 4 for the two layers "layers.0.attention" and the next, of size 6."""
    given = small("own-vit")
    made = ar.advise(ar.profile(given.model, given.batch, cut_inputs=0), budget=7)
    one, two = made.layers
    assert (one.name, two.name, one.m_h) == ("layers.0.attention", "layers.1.attention", 6)
    return replace(made, layers=(replace(one, size=3), replace(two, size=4)))


def test_layers_have_their_advised_sizes_by_name(advice: ar.Advice) -> None:
    layers = {"layers.0.attention": 6, "layers.1.attention": 6}
    assert advised(advice, layers) == {"layers.0.attention": 3, "layers.1.attention": 4}
    # one that cannot be cut keeps its size, and so does one that was not profiled
    assert advised(advice, {"layers.1.attention": 6}, ["layers.0.attention"]) == {
        "layers.1.attention": 4
    }
    assert len(advised(advice, {**layers, "layers.2.attention": 6})) == 2


def test_a_profile_without_the_head_of_the_task_is_of_the_same_layers(advice: ar.Advice) -> None:
    layers = {"model.layers.0.attention": 6, "model.layers.1.attention": 6}
    assert advised(advice, layers) == {
        "model.layers.0.attention": 3,
        "model.layers.1.attention": 4,
    }


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ({"h.0.attn": 6}, r"names none of the layers that can be cut.*it has \['h.0.attn'\]"),
        ({"layers.0.attention": 6}, r"layers that are not there: got \['layers.1.attention'\]"),
        (
            {"layers.0.attention": 6, "layers.1.attention": 8},
            r"heads of layers.1.attention have the size 8, not: got 6",
        ),
    ],
)
def test_an_advice_of_another_model_is_refused(
    advice: ar.Advice, layers: dict[str, int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        advised(advice, layers)
