"""Watching a model leaves it as it is; editing its queries is what other weights would do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from attnrate.spectra.capture import Call, Site
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
Make = Callable[[str], Any]
MAIN = [
    "bert",
    "bert-pair",
    "mpnet",
    "vit",
    "gpt2",
    "gpt2-cross",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "whisper",
    "torch-encoder",
    "torch-pair",
    "attnrate",
    "attnrate-causal",
]
RELATIVES = [
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "electra",
    "ernie",
    "data2vec-text",
    "bert-generation",
    "deit",
    "dinov2",
    "dinov2-registers",
    "ijepa",
    "mae",
    "msn",
]


@pytest.fixture(autouse=True)
def _one_way_through_torch() -> Any:
    """Torch's fast path gives the same but for rounding; it is off while a watch is open."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


def calls(made: Any, **more: Any) -> tuple[Tensor, list[tuple[Site, Call]]]:
    """The output under a watch, and what was seen."""
    found: list[tuple[Site, Call]] = []
    with Watcher(made.model).open(3, lambda *seen: found.append(seen), **more):
        return made.output(), found


def watched(made: Any) -> Watcher:
    """A watcher that has seen the model at work."""
    watcher = Watcher(made.model)
    with torch.no_grad(), watcher.open(3, lambda *_: None):
        made()
    return watcher


def traces(model: nn.Module) -> tuple[Any, ...]:
    """All that a watch could leave behind."""
    from transformers.modeling_utils import AttentionInterface
    from transformers.models.llama import modeling_llama

    hooks = sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())
    return (
        hooks,
        AttentionInterface.get_interface,
        modeling_llama.apply_rotary_pos_emb,
        torch.nn.functional.multi_head_attention_forward,
        torch.backends.mha.get_fastpath_enabled(),
    )


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", [*MAIN, *RELATIVES])
def test_watching_changes_no_bit_of_the_output(name: str, implementation: str, tiny: Make) -> None:
    made = tiny(name)
    if hasattr(made.model, "set_attn_implementation") and name != "mpnet":
        made.model.set_attn_implementation(implementation)
    before = traces(made.model)
    with torch.no_grad():
        plain = made.output()
        watched, found = calls(made)
    assert torch.equal(watched, plain)
    assert found
    assert traces(made.model) == before


@pytest.mark.parametrize("name", RELATIVES)
def test_relatives_are_seen_with_all_their_layers(name: str, tiny: Make) -> None:
    watcher = watched(tiny(name))
    assert not watcher.unseen()
    assert [(site.heads, site.groups, site.m_h, site.kind) for site in watcher.sites] == [
        (3, 3, 8, "self")
    ] * 2


@pytest.mark.parametrize("name", MAIN)
def test_a_model_of_half_precision_is_seen_as_it_is(name: str, tiny: Make) -> None:
    made = tiny(name).to(torch.bfloat16)
    with torch.no_grad():
        plain = made.output()
        watched, found = calls(made)
    assert torch.equal(watched, plain)
    assert {call.query.dtype for _, call in found} == {torch.bfloat16}


@pytest.mark.parametrize("name", MAIN)
def test_gradients_are_those_without_a_watch(name: str, tiny: Make) -> None:
    made = tiny(name)
    results = []
    for output in (lambda: made.output(), lambda: calls(made)[0]):
        made.model.zero_grad()
        output().square().sum().backward()
        results.append([p.grad.clone() for p in made.model.parameters() if p.grad is not None])
    assert results[0]
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("name", MAIN)
def test_nothing_is_left_behind_when_the_model_fails(name: str, tiny: Make) -> None:
    made = tiny(name)
    before = traces(made.model)
    first = watched(made).sites[0].name

    def fail(site: Site, call: Call) -> None:
        raise RuntimeError(site.name)

    with pytest.raises(RuntimeError, match=first), Watcher(made.model).open(3, fail):
        made()
    assert traces(made.model) == before


@pytest.mark.parametrize("name", MAIN)
def test_a_second_pass_sees_the_same_sites(name: str, tiny: Make) -> None:
    made = tiny(name)
    watcher = watched(made)
    before = list(watcher.sites)
    again: list[Site] = []
    with torch.no_grad(), watcher.open(3, lambda site, _: again.append(site)):
        made()
    assert again == watcher.sites == before


@pytest.mark.parametrize("name", MAIN)
def test_queries_handed_back_as_they_are_change_nothing(name: str, tiny: Make) -> None:
    made = tiny(name)
    with torch.no_grad():
        plain = made.output()
        with watched(made).open(3, edit=lambda _, query: query.clone()):
            edited = made.output()
    assert torch.allclose(edited, plain, rtol=1e-5, atol=1e-5)


def cut(model: nn.Module, site: Site, P: Tensor) -> None:
    """Let the site's weights make queries P q instead of q."""
    part: Any = site.module
    blocks = torch.block_diag(*[P] * site.heads)
    if hasattr(part, "in_proj_weight"):
        weight, bias = part.in_proj_weight[: len(blocks)], part.in_proj_bias[: len(blocks)]
        weight.copy_(blocks @ weight)
        bias.copy_(blocks @ bias)
        return
    if hasattr(part, "c_attn"):  # its weights act from the right
        queries = part.q_attn if site.kind == "cross" else part.c_attn
        weight, bias = queries.weight[:, : len(blocks)], queries.bias[: len(blocks)]
        weight.copy_(weight @ blocks.T)
        bias.copy_(blocks @ bias)
        return
    names = ("query", "q", "q_proj", "W_Q")
    queries = next(getattr(part, name) for name in names if hasattr(part, name))
    queries.weight.copy_(blocks @ queries.weight)
    if queries.bias is not None:
        queries.bias.copy_(blocks @ queries.bias)


@pytest.mark.parametrize("name", [name for name in MAIN if name not in ("mistral", "qwen2")])
def test_editing_queries_is_editing_their_weights(name: str, tiny: Make) -> None:
    made = tiny(name)
    watcher = watched(made)
    site = watcher.sites[-1]
    P = torch.randn(site.m_h, site.m_h, generator=torch.Generator().manual_seed(4))
    if site.rotary:
        P = torch.zeros_like(P)  # the one matrix that any rotation and norm commute with
    with torch.no_grad():
        plain = made.output()
        with watcher.open(3, edit=lambda at, query: query @ P.T if at == site else query):
            edited = made.output()
        cut(made.model, site, P)
        assert torch.allclose(edited, made.output(), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(edited, plain, rtol=1e-2, atol=1e-2)
