"""Families of transformers: the spectra of a profile are those of logits formed in float64.

The other side (tests/tools/dense_logits.py) runs a float64 copy and sees torch's operations below
autograd; what each family's attention is like is written by hand (tests/tools/families.py).
"""

import warnings

import pytest
import torch
from dense_logits import centred, dense_attention, singular_values
from families import FAMILIES, Family

import attnrate as ar
from attnrate.errors import AccuracyWarning, InputError
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
#: Numbers in softmax below this are those of keys that are hidden
_HIDDEN = -1e4


def kept_of(family: Family, kind: str, shape: tuple[int, int, int], place: int) -> Tensor:
    """Which tokens of (inputs, tokens) queries (place 0) or keys (1) are no padding."""
    inputs, tokens, _ = shape
    batch = family.batch()
    source = batch.get("attention_mask")
    mask = source
    if "decoder_attention_mask" in batch:
        target = batch["decoder_attention_mask"]
        mask = target if tokens == target.shape[1] and not (kind == "cross" and place) else source
    if mask is None or mask.shape != (inputs, tokens):
        return torch.ones(inputs, tokens, dtype=torch.bool)
    return mask.bool()


def joined(x: Tensor, inputs: int) -> Tensor:
    """The rows (windows) of each input one after another: (inputs, heads, tokens, m)."""
    return x.unflatten(0, (inputs, -1)).transpose(1, 2).flatten(2, 3)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_the_spectra_of_its_logits(name: str) -> None:
    family = FAMILIES[name]
    model, batch = family.build(), family.batch()
    truth = dense_attention(family.build("eager"), batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = ar.profile(model, batch, cut_inputs=0)
    assert not found.unseen
    assert tuple(layer.kind for layer in found.layers) == family.layers
    sizes = family.sizes or ((*family.heads, family.size),) * len(family.layers)
    assert tuple((x.heads, x.groups, x.m_h) for x in found.layers) == sizes
    for number, (layer, exact, size) in enumerate(zip(found.layers, truth, sizes, strict=True)):
        scale = size[2] ** -0.5 if family.scale is None else family.scale
        assert layer.scale == pytest.approx(scale, rel=1e-6)
        scale = 1.0 if number in family.divided else scale
        query, key = (joined(x, 3) for x in (exact.query, exact.key))
        kept = [
            kept_of(family, layer.kind, (3, x.shape[2], 0), place)
            for place, x in enumerate((query, key))
        ]
        rows, columns = (
            torch.cat([x[i][:, keep[i]] for i in range(3)], 1)
            for x, keep in zip((query, key), kept, strict=True)
        )
        for gauge in ("softmax", "none"):
            sigma = torch.from_numpy(layer.pooled["logits", gauge])
            dense = singular_values(rows, columns, scale, gauge == "softmax")
            assert dense[:, 0].min() > 0.005  # no head of these models is idle
            assert ((sigma - dense).abs() <= 1e-5 * dense[:, :1]).all()
        assert layer.tokens.tolist() == kept[0].sum(1).tolist()


def test_a_module_that_runs_twice_has_a_layer_for_each_run() -> None:
    family = FAMILIES["albert"]
    found = ar.profile(family.build(), family.batch(), cut_inputs=0)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    assert [layer.name for layer in found.layers] == [name, f"{name}#2"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("clip", {"text_model", "vision_model"}),
        (
            "siglip",
            {"text_model.encoder.layers", "vision_model.encoder.layers", "vision_model.head"},
        ),
        ("bart", {"encoder", "decoder"}),
        ("detr", {"encoder", "decoder"}),
    ],
)
def test_the_parts_of_a_model_are_named(name: str, parts: set[str]) -> None:
    family = FAMILIES[name]
    found = ar.profile(family.build(), family.batch(), cut_inputs=0)
    assert set(found.to_frame()["part"]) == parts


def calls_of(family: Family) -> list[tuple[Site, Call]]:
    found: list[tuple[Site, Call]] = []
    Watcher(family.build()).see(family.batch(), lambda site, call: found.append((site, call)))
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_what_went_into_softmax_is_made_from_the_call(name: str) -> None:
    family = FAMILIES[name]
    truth = dense_attention(family.build("eager"), family.batch())
    calls = calls_of(family)
    biases = [call.bias for _, call in calls if call.bias is not None]
    assert bool(biases) == family.bias
    assert all(bias.abs().max() < 1e3 for bias in biases)  # what hides keys is no part of it
    for (site, call), exact in zip(calls, truth, strict=True):
        S = exact.key.shape[2]
        entered = exact.entered[..., :S]
        seen = entered > _HIDDEN
        key = call.key.double().repeat_interleave(site.heads // site.groups, 1)
        made = call.scale * call.query.double() @ key.mT
        assert call.softcap == family.softcap
        assert (call.sinks is not None) == family.sinks
        if call.softcap is not None:
            made = call.softcap * torch.tanh(made / call.softcap)
        if call.bias is not None:
            made = made + call.bias.double()
        truth_of = centred(entered, seen)
        difference = centred(made, seen) - truth_of
        assert difference.abs().max() <= 2e-5 * truth_of.abs().max().clamp(min=1)
        assert exact.entered.shape[-1] == S + int(family.sinks)
        if call.sinks is not None:
            some = seen.any(-1)  # a query that is padding sees nothing
            ours, theirs = (
                (sinks - logits.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True))[some]
                for sinks, logits in (
                    (call.sinks.double(), made),
                    (exact.entered[..., S:], entered),
                )
            )
            assert (ours - theirs).abs().max() <= 1e-4


def test_attention_in_blocks_is_named_and_not_profiled() -> None:
    from transformers import LongformerConfig, LongformerModel

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = LongformerConfig(**sizes, intermediate_size=20, vocab_size=60, attention_window=4)
    with pytest.raises(InputError, match=r"none of the attention.*LongformerSelfAttention.*blocks"):
        ar.profile(LongformerModel(config), FAMILIES["bert"].batch(), cut_inputs=0)


def test_latent_attention_has_values_of_another_size() -> None:
    family = FAMILIES["deepseek_v3"]
    found = ar.profile(family.build(), family.batch(), cut_inputs=0)
    assert [(layer.m_h, layer.m_v) for layer in found.layers] == [(10, 7), (10, 7)]
