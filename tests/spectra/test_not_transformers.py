"""Attention that is none of transformers', written as its users write it, without an adapter.

Queries and keys are made again in float64 from what goes into each attention module
(tests/tools/others.py), and all logits are formed and decomposed in full.
"""

import copy

import pytest
import torch
from dense_logits import singular_values
from others import OTHERS, Other, other, sides_of
from torch import nn

import attnrate as ar
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.watching.watcher import Watcher

pytestmark = [
    # torch's own fused path rounds differently; flex is meant to be compiled
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


@pytest.fixture(autouse=True)
def _one_way_through_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mha, "get_fastpath_enabled", lambda: False)


def hooks(model: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


@pytest.mark.parametrize("name", OTHERS)
def test_every_head_has_the_spectrum_of_its_logits(name: str) -> None:
    made = other(name)
    wide = {k: x.double() if x.is_floating_point() else x for k, x in made.batch.items()}
    exact = sides_of(Other(copy.deepcopy(made.model).double(), wide, made.kinds))
    found = ar.profile(made.model, made.batch, cut_inputs=0)
    assert not found.unseen
    assert tuple(layer.kind for layer in found.layers) == made.kinds
    for layer, (query, key, scale) in zip(found.layers, exact, strict=True):
        assert (layer.heads, layer.groups, layer.m_h) == (3, 3, 8)
        rows, columns = (torch.cat([*x], 1) for x in (query, key))
        for gauge in ("softmax", "none"):
            sigma = torch.from_numpy(layer.pooled["logits", gauge])
            dense = singular_values(rows, columns, scale, gauge == "softmax")
            assert dense[:, 0].min() > 0.005
            assert ((sigma - dense).abs() <= 1e-5 * dense[:, :1]).all()
            for number in range(4):
                one = singular_values(query[number], key[number], scale, gauge == "softmax")
                own = torch.from_numpy(layer.sigma["logits", gauge][number])
                assert ((own - one).abs() <= 1e-5 * one[:, :1]).all()


@pytest.mark.parametrize("name", OTHERS)
def test_watching_changes_no_bit(name: str) -> None:
    made = other(name)
    with torch.no_grad():
        plain = made()
        with Watcher(made.model).open(4, lambda *_: None):
            seen = made()
        assert torch.equal(seen, plain)
        assert torch.equal(made(), plain)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_behind_after_a_break_in_the_middle(
    name: str, problem: type[BaseException]
) -> None:
    made = other(name)
    calls: list[str] = []

    def stop(site: Site, call: Call) -> None:
        calls.append(site.name)
        if len(calls) == 2:
            raise problem("in the second layer")

    with torch.no_grad():
        plain = made()
        before = hooks(made.model), torch.overrides._len_torch_function_stack()
        with pytest.raises(problem, match="second layer"), Watcher(made.model).open(4, stop):
            made()
        after = hooks(made.model), torch.overrides._len_torch_function_stack()
        assert after == before == (0, 0)
        assert torch.equal(made(), plain)
    again = Watcher(made.model)
    with torch.no_grad(), again.open(4, lambda *_: None):
        made()
    assert len(again.sites) == len(made.kinds)


@pytest.mark.parametrize("name", OTHERS)
def test_queries_that_are_edited_reach_the_model(name: str) -> None:
    made = other(name)
    watcher = Watcher(made.model)
    with torch.no_grad():
        plain = made()
        with watcher.open(4, lambda *_: None):
            made()
        with watcher.open(4, edit=lambda _, query: query.clone()):
            assert torch.allclose(made(), plain, atol=1e-5)
        with watcher.open(4, edit=lambda _, query: -3 * query):
            assert not torch.allclose(made(), plain, atol=1e-2)
