"""Profiles of parts of the inputs, joined, are the profile of all inputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.digest import weights_digest
from attnrate.spectra.watching.unseen import Unseen

Batches = list[dict[str, torch.Tensor]]


def batches(made: Any, count: int = 4) -> Batches:
    """Batches like that of a tiny model, with other words in them."""
    generator = torch.Generator().manual_seed(5)
    found = []
    for _ in range(count):
        ids = torch.randint(1, 50, made.batch["input_ids"].shape, generator=generator)
        found.append({**made.batch, "input_ids": ids})
    return found


def off(one: np.ndarray, other: np.ndarray, size: float) -> float:
    assert one.shape == other.shape
    return float(np.abs(one - other).max()) / size


def moments(layer: ar.LayerSpectra) -> list[np.ndarray]:
    grams = [*(gram for two in layer.moments.values() for gram in two), layer.query, layer.key]
    return [part.numpy() for gram in grams for part in (gram.spread, gram.mean, gram.count)]


# a rotary embedding with shared keys; a position bias that all layers share
@pytest.mark.parametrize("family", ["qwen3", "mpnet"])
@pytest.mark.parametrize("cut_inputs", [0, 2])
def test_two_halves_make_the_whole(
    tiny: Callable[[str], Any], family: str, cut_inputs: int
) -> None:
    made = tiny(family)
    given = batches(made)
    whole = ar.profile(made.model, given, cut_inputs=cut_inputs)
    first = ar.profile(made.model, given[:2], cut_inputs=cut_inputs)
    joined = first.join(ar.profile(made.model, given[2:], cut_inputs=0))
    assert (joined.tokens == whole.tokens).all()
    for one, other in zip(joined.layers, whole.layers, strict=True):
        assert str(one) == str(other)
        for key, sigma in other.pooled.items():
            assert off(one.pooled[key], sigma, sigma.max()) < 1e-9
            assert (one.sigma[key] == other.sigma[key]).all()
        for made_of, wanted in zip(moments(one), moments(other), strict=True):
            assert off(made_of, wanted, np.abs(wanted).max()) < 1e-9
        assert (one.bias is None) == (other.bias is None)
        # cuts were made from the first half alone, and are kept as they were measured
        measured = first.layer(one.number).cuts
        assert one.cuts.keys() == measured.keys()
        assert all((one.cuts[s].weights == measured[s].weights).all() for s in measured)
    assert joined.digest == whole.digest == weights_digest(made.model)


def test_cuts_of_all_parts_are_put_one_after_another(tiny: Callable[[str], Any]) -> None:
    made = tiny("bert")
    parts = [ar.profile(made.model, each, cut_inputs=1) for each in batches(made, 3)]
    joined = parts[0].join(*parts[1:])
    for layer in joined.layers:
        for share, cut in layer.cuts.items():
            alone = [part.layer(layer.name).cuts[share] for part in parts]
            assert (cut.weights == np.concatenate([each.weights for each in alone])).all()
            assert (cut.ranks == np.concatenate([each.ranks for each in alone])).all()
    assert ar.advise(joined).layers


def test_a_profile_joined_to_nothing_is_itself(tiny: Callable[[str], Any]) -> None:
    made = tiny("bert")
    found = ar.profile(made.model, made.batch, layers=[1])
    assert found.join().to_frame().equals(found.to_frame())


def test_of_what_one_part_has_not_run_only_what_no_part_has_seen_stays(
    tiny: Callable[[str], Any],
) -> None:
    made = tiny("bert")
    found = ar.profile(made.model, made.batch, cut_inputs=0)
    idle = Unseen("a", "Attention", "it did not run on these inputs")
    strange = Unseen("a", "Attention", "its output is not that of softmax attention")
    alone = Unseen("b", "Attention", "it did not run on these inputs")
    one, other = replace(found, unseen=(idle, alone)), replace(found, unseen=(strange,))
    assert one.join(other).unseen == other.join(one).unseen == (strange,)


class Small(nn.Module):
    """One attention layer of torch."""

    def __init__(self, heads: int = 2, width: int = 8) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.attend(x, x, x)[0]
        return result


def small(model: nn.Module, width: int = 8, **asked: Any) -> ar.Profile:
    x = torch.randn(3, 5, width, generator=torch.Generator().manual_seed(1))
    return ar.profile(model, x, cut_inputs=0, **asked)


def test_profiles_that_do_not_belong_together_are_refused() -> None:
    torch.manual_seed(0)
    model = Small()
    found = small(model)
    renamed = replace(found, layers=(replace(found.layers[0], name="other"),))
    scaled = replace(found, layers=(replace(found.layers[0], scale=0.125),))
    others: list[tuple[Any, str]] = [
        (small(model, gauge="none"), "another gauge.*'softmax'.*got 'none'"),
        (replace(found, family="gpt2"), "family.*got 'gpt2'"),
        (renamed, r"different layers.*'attend', 'other'"),
        (small(Small(4)), "attend has heads = 2 in this profile.*got 4"),
        (small(Small(2, 16), 16), "attend has m_h = 4.*got 8"),
        (scaled, r"attend has scale = 0\.5.*got 0\.125"),
        (small(Small()), "the layers are alike but the weights are not"),
        (replace(found, digest=None, model="B"), "cannot be compared, and their names.*got 'B'"),
        (5, "this is not a profile: got 'int'"),
    ]
    for other, words in others:
        with pytest.raises(InputError, match=words):
            found.join(other)


def test_versions_of_all_parts_are_named() -> None:
    found = small(Small())
    other = replace(found, made_by={**found.made_by, "torch": "9.9"}, digest=None)
    joined = found.join(other)
    assert joined.made_by["torch"] == f"{found.made_by['torch']} and 9.9"
    assert joined.made_by["python"] == found.made_by["python"]
    assert joined.digest is None


def test_a_digest_depends_on_names_shapes_and_values_of_all_weights() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2000))
    digest = weights_digest(model)
    assert digest is not None
    assert len(digest) == 64
    assert weights_digest(model.double()) == digest
    assert weights_digest(nn.ModuleDict({"0": model[0], "other": model[1]})) != digest
    with torch.no_grad():
        model[1].bias[-1] += 1e-9
    assert weights_digest(model) != digest
    assert weights_digest(nn.Linear(6, 2)) != weights_digest(nn.Linear(2, 6))


@pytest.mark.parametrize("model", [nn.Linear(2, 2, device="meta"), nn.LazyLinear(2)])
def test_weights_that_are_not_in_memory_have_no_digest(model: nn.Module) -> None:
    assert weights_digest(model) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.float8_e4m3fn])
def test_weights_of_every_number_format_have_a_digest(dtype: torch.dtype) -> None:
    model = nn.ParameterList([nn.Parameter(torch.ones(4, 4).to(dtype).T, requires_grad=False)])
    assert weights_digest(model) is not None
