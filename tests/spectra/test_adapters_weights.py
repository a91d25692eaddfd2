"""A call holds all that goes into softmax: the attention weights can be made from it alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnrate.spectra.capture import Call, Site
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
Make = Callable[[str], Any]
INTERFACE = [
    "bert",
    "bert-pair",
    "vit",
    "gpt2",
    "gpt2-cross",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "whisper",
]


def weights(site: Site, call: Call) -> Tensor:
    """softmax_s(scale · q(t)ᵀ k(s) + bias + mask)."""
    key = call.key.repeat_interleave(site.heads // site.groups, 1)
    logits = call.scale * call.query @ key.mT
    if call.bias is not None:
        logits = logits + call.bias
    if call.causal:
        T, S = logits.shape[-2:]
        assert T == S
        logits = logits.masked_fill(torch.ones(T, S).triu(1).bool(), -torch.inf)
    mask = call.mask(slice(0, logits.shape[-2])) if callable(call.mask) else call.mask
    if mask is not None and mask.dtype == torch.bool:
        logits = logits.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        logits = logits + mask
    return logits.softmax(-1)


def seen(model: Any, run: Callable[[], Any], **more: Any) -> list[tuple[Site, Call]]:
    found: list[tuple[Site, Call]] = []
    with torch.no_grad(), Watcher(model).open(3, lambda *call: found.append(call), **more):
        run()
    return found


def given(made: Any) -> list[Tensor]:
    """The model's own attention weights, in the order in which it makes them."""
    with torch.no_grad():
        result = made(output_attentions=True)
    first = getattr(result, "encoder_attentions", None) or ()
    own = getattr(result, "decoder_attentions", None) or result.attentions
    across = getattr(result, "cross_attentions", None) or None
    both = own if across is None else [x for pair in zip(own, across, strict=True) for x in pair]
    return [*first, *both]


def kept(call: Call, batch: dict[str, Tensor]) -> Tensor:
    """Which queries are no padding, by the batch alone: the mask with as many tokens, if any."""
    T = call.query.shape[2]
    masks = [mask for name, mask in batch.items() if "mask" in name and mask.shape[1] == T]
    return masks[0].bool() if masks else torch.ones(3, T).bool()


def agree(site: Site, call: Call, truth: Tensor, batch: dict[str, Tensor]) -> None:
    """For queries that are no padding: what is said of others is of no use to anybody."""
    rows = kept(call, batch)
    ours, theirs = weights(site, call).transpose(1, 2)[rows], truth.transpose(1, 2)[rows]
    assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", INTERFACE)
def test_calls_under_any_implementation_have_the_eager_weights(
    name: str, implementation: str, tiny: Make
) -> None:
    made = tiny(name)
    made.model.set_attn_implementation("eager")
    truth = given(made)
    made.model.set_attn_implementation(implementation)
    found = seen(made.model, made)
    for (site, call), expected in zip(found, truth, strict=True):
        agree(site, call, expected, made.batch)


def test_the_bias_of_mpnet_is_part_of_its_weights(tiny: Make) -> None:
    made = tiny("mpnet")
    for (site, call), expected in zip(seen(made.model, made), given(made), strict=True):
        assert call.bias is not None
        agree(site, call, expected, made.batch)


@pytest.mark.parametrize("name", ["attnrate", "attnrate-causal"])
def test_the_weights_of_our_own_models(name: str, tiny: Make) -> None:
    made = tiny(name)
    found = seen(made.model, made)
    assert [site.name for site, _ in found] == ["inner.0", "inner.1", "last"]
    with torch.no_grad():
        for layer, (site, call) in enumerate(found):
            truth = made.model.attention(made.batch["x"], layer)
            assert torch.allclose(weights(site, call), truth, atol=1e-6)


@pytest.fixture
def other_implementations(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Flash and flex as far as masks go, with nothing compiled and any attention function."""
    from torch.nn.attention.flex_attention import create_block_mask
    from transformers import masking_utils
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, _: Any, **rest: Any) -> Any:
        return sdpa_attention_forward(module, query, key, value, None, scaling=rest["scaling"])

    def uncompiled(*args: Any, _compile: object = None, **kwargs: Any) -> Any:
        return create_block_mask(*args, **kwargs)

    monkeypatch.setattr(masking_utils, "create_block_mask", uncompiled)
    names = {
        "by_padding": masking_utils.flash_attention_mask,
        "by_function": masking_utils.flex_attention_mask,
    }
    for name, masks in names.items():
        ALL_ATTENTION_FUNCTIONS.register(name, attend)
        masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(name, masks)
    yield
    for name in names:
        del type(ALL_ATTENTION_FUNCTIONS)._global_mapping[name]
        del type(masking_utils.ALL_MASK_ATTENTION_FUNCTIONS)._global_mapping[name]


@pytest.mark.usefixtures("other_implementations")
@pytest.mark.parametrize("implementation", ["by_padding", "by_function"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mistral"])
def test_masks_that_are_no_matrix_are_understood(
    name: str, implementation: str, tiny: Make
) -> None:
    made = tiny(name)
    made.model.set_attn_implementation("eager")
    truth = given(made)[0]
    made.model.set_attn_implementation(implementation)
    # Only the first layer: the function above lets queries look where they may not.
    site, call = seen(made.model, made, check=False)[0]
    agree(site, call, truth, made.batch)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "qwen3"])
def test_a_token_after_cached_ones_is_one_query_for_many_keys(
    name: str, implementation: str, tiny: Make
) -> None:
    made = tiny(name)
    ids = made.batch["input_ids"]
    made.model.set_attn_implementation("eager")
    with torch.no_grad():
        truth = made.model(ids, output_attentions=True).attentions
    made.model.set_attn_implementation(implementation)
    with torch.no_grad():
        past = made.model(ids[:, :-1], use_cache=True).past_key_values
    found = seen(made.model, lambda: made.model(ids[:, -1:], past_key_values=past))
    for (site, call), expected in zip(found, truth, strict=True):
        S = call.key.shape[2]
        assert call.query.shape[2] == 1 < S
        assert call.plain is None
        assert torch.allclose(weights(site, call), expected[:, :, -1:, -S:], atol=1e-5)


def test_generation_can_be_watched(tiny: Make) -> None:
    from transformers import WhisperForConditionalGeneration

    made = tiny("whisper")
    model = WhisperForConditionalGeneration(made.model.config).eval()
    found = seen(
        model,
        lambda: model.generate(
            made.batch["input_features"], max_new_tokens=3, min_new_tokens=3, do_sample=False
        ),
    )
    crossing = [call for site, call in found if site.kind == "cross"]
    assert {call.key.shape[2] for call in crossing} == {9}
    assert [call.query.shape[2] for call in crossing][-1] == 1
