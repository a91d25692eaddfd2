"""torch.nn.MultiheadAttention: every way to make and to call it, with and without its fast path."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.adapters import claims
from attnrate.spectra.capture import Call
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
FUTURE = torch.ones(5, 7, dtype=torch.bool).triu(3)
ADDED = torch.linspace(-1, 1, 5 * 7).reshape(5, 7)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def layer(**settings: Any) -> nn.MultiheadAttention:
    made = nn.MultiheadAttention(12, 3, **settings).eval()
    for index, parameter in enumerate(made.parameters()):
        generator = torch.Generator().manual_seed(index)
        nn.init.normal_(parameter, 0.0, 0.5, generator=generator)
    return made


def watched(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Call, Any]:
    found: list[Call] = []
    with torch.no_grad(), Watcher(model).open(2, lambda _, call: found.append(call)):
        result = model(*args, **kwargs)
    (call,) = found
    return call, result


@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"key_padding_mask": PADDING},
        {"attn_mask": FUTURE},
        {"attn_mask": FUTURE, "key_padding_mask": PADDING},
        {"attn_mask": ADDED},
        {"attn_mask": torch.stack([ADDED * index for index in range(6)])},
        {
            "attn_mask": ADDED,
            "key_padding_mask": torch.zeros(2, 7).masked_fill(PADDING, -torch.inf),
        },
    ],
)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 4, "vdim": 5}, {"bias": False}])
def test_weights_and_output_can_be_made_from_the_call(
    masks: dict[str, Tensor], first: bool, sizes: dict[str, Any]
) -> None:
    model = layer(batch_first=first, **sizes)
    tokens = numbers(2, 5, 12), numbers(2, 7, model.kdim), numbers(2, 7, model.vdim)
    if not first:
        tokens = tuple(x.transpose(0, 1) for x in tokens)
    call, (output, weights) = watched(model, *tokens, **masks, average_attn_weights=False)
    logits = call.scale * call.query @ call.key.mT
    for added in (call.mask, call.bias):
        if added is not None:
            logits = logits + added
    assert torch.allclose(logits.softmax(-1), weights, atol=1e-6)
    mixed = (weights @ call.value).transpose(1, 2).flatten(2) @ model.out_proj.weight.T
    mixed = mixed if model.out_proj.bias is None else mixed + model.out_proj.bias
    assert torch.allclose(mixed if first else mixed.transpose(0, 1), output, atol=1e-5)
    assert call.kept[0] is None
    assert (call.kept[1] is None) == ("key_padding_mask" not in masks)
    if call.kept[1] is not None:
        assert torch.equal(call.kept[1], ~PADDING)


def test_padding_of_tokens_that_look_at_themselves_is_padding_of_queries_too() -> None:
    x = numbers(2, 7, 12)
    call, _ = watched(layer(batch_first=True), x, x, x, key_padding_mask=PADDING)
    assert torch.equal(call.kept[0], ~PADDING)
    assert torch.equal(call.kept[1], ~PADDING)


@pytest.mark.parametrize("first", [True, False])
def test_a_single_sequence_is_a_batch_of_one(first: bool) -> None:
    x, hidden = numbers(7, 12), PADDING[1]
    model = layer(batch_first=first)
    call, (output, _) = watched(model, x, x, x, key_padding_mask=hidden)
    assert call.query.shape == call.key.shape == (1, 3, 7, 4)
    assert torch.equal(call.kept[1], ~hidden[None])
    assert torch.equal(output, model(x, x, x, key_padding_mask=hidden)[0])
    watcher = Watcher(model)
    with watcher.open(1, lambda *_: None):
        model(x, x, x)
    with watcher.open(1, edit=lambda _, query: query):
        assert torch.allclose(model(x, x, x, key_padding_mask=hidden)[0], output, atol=1e-5)


def test_a_causal_hint_comes_with_its_mask() -> None:
    x = numbers(2, 7, 12)
    model = layer(batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    call, (output, _) = watched(model, x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    weights = (call.scale * call.query @ call.key.mT + call.mask).softmax(-1)
    assert torch.equal(weights.triu(1), torch.zeros(2, 3, 7, 7))
    mixed = model.out_proj((weights @ call.value).transpose(1, 2).flatten(2))
    assert torch.allclose(mixed, output, atol=1e-5)


def test_edited_queries_with_separate_weights() -> None:
    model = layer(kdim=4, vdim=5, batch_first=True)
    tokens = numbers(2, 5, 12), numbers(2, 7, 4), numbers(2, 7, 5)
    watcher = Watcher(model)
    with torch.no_grad():
        with watcher.open(2, lambda *_: None):
            model(*tokens)
        with watcher.open(2, edit=lambda _, query: 3 * query):
            edited = model(*tokens)[0]
        model.q_proj_weight.mul_(3)
        model.in_proj_bias[:12].mul_(3)
        assert torch.allclose(edited, model(*tokens)[0], atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_the_fast_path_does_not_go_around_a_watch(tiny: Callable[[str], Any]) -> None:
    made = tiny("torch-encoder")
    tokens = ~made.batch["src_key_padding_mask"]
    # torch's default, which a watch of another test may have left off when it was collected late
    torch.backends.mha.set_fastpath_enabled(True)
    found = []
    with torch.no_grad():
        fast = made.output()
        with Watcher(made.model).open(3, lambda site, _: found.append(site.name)):
            seen = made.output()
        assert torch.equal(made.output(), fast)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            assert torch.equal(seen, made.output())
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert found == ["layers.0.self_attn", "layers.1.self_attn"]
    assert torch.allclose(seen[tokens], fast[tokens], atol=1e-5)
    # With padding, the fast path leaves zeros in its place: proof that it was taken.
    assert (fast[~tokens] == 0).all()


def test_which_layers_look_across(tiny: Callable[[str], Any]) -> None:
    ((_, sites),) = claims(tiny("torch-pair").model)
    assert [site.name for site in sites if site.kind == "cross"] == [
        "decoder.layers.0.multihead_attn",
        "decoder.layers.1.multihead_attn",
    ]
    ((_, (alone,)),) = claims(layer(kdim=5))
    assert (alone.name, alone.kind) == ("attention", "cross")


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_keys_that_belong_to_no_token_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=f"layer 0 has a key that belongs to no token.*{option}"):
        claims(nn.Sequential(layer(**{option: True})))


def test_a_class_with_a_forward_of_its_own_is_not_taken_for_torchs() -> None:
    class Mine(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    class Same(nn.MultiheadAttention):
        pass

    assert claims(Mine(12, 3)) == []
    assert len(claims(Same(12, 3))) == 1
