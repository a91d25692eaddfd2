"""Families as data: what a `Family` needs, what is refused, sizes held to what was said."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BloomConfig,
    BloomModel,
    GemmaConfig,
    GemmaModel,
    OPTConfig,
    OPTModel,
    T5Config,
    T5EncoderModel,
)

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra import adapters
from attnrate.spectra.adapters import register, unregister
from attnrate.spectra.adapters.families import Family
from attnrate.spectra.adapters.hooks import watch_outputs
from attnrate.spectra.capture import Adapter, Call, Site

Tensor = torch.Tensor
IDS = torch.arange(24).reshape(3, 8) % 50
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 50}


@contextmanager
def known(adapter: Any) -> Iterator[None]:
    register(adapter)
    try:
        yield
    finally:
        unregister(adapter)


def opt() -> nn.Module:
    torch.manual_seed(0)
    return OPTModel(OPTConfig(**SMALL, ffn_dim=16, word_embed_proj_dim=32)).eval()


def test_an_unknown_class_of_transformers_is_told_the_line_that_may_do() -> None:
    with pytest.raises(InputError, match=r"Family\('mine', \('OPTAttention',\)\)"):
        ar.profile(opt(), {"input_ids": IDS})


def test_one_line_makes_a_family_known_with_spectra_as_by_hand() -> None:
    model = opt()
    before = model(input_ids=IDS).last_hidden_state
    with known(Family("opt", ("OPTAttention",))):
        prof = ar.profile(model, {"input_ids": IDS}, cut_inputs=0)
    assert torch.equal(model(input_ids=IDS).last_hidden_state, before)
    seen: list[Tensor] = []
    part = model.get_submodule(prof.layers[0].name)
    hook = part.register_forward_pre_hook(
        lambda _, args, given: seen.append(args[0] if args else given["hidden_states"]),
        with_kwargs=True,
    )
    model(input_ids=IDS)
    hook.remove()
    q, k = (getattr(part, name)(seen[0][1]).unflatten(-1, (4, 8)) for name in ("q_proj", "k_proj"))
    logits = (q[:, 2] @ k[:, 2].mT) / 8**0.5
    logits = (logits - logits.mean(-1, keepdim=True)).detach() / 8
    assert np.allclose(prof.sigma(0, 2)[1], torch.linalg.svdvals(logits), atol=1e-6)


@pytest.mark.parametrize(
    ("family", "model", "words"),
    [
        (
            Family("t5", ("T5Attention",)),
            lambda: T5EncoderModel(T5Config(d_model=16, num_layers=1, d_kv=4, vocab_size=50)),
            "neither attention_head_size nor head_dim.*'T5Attention'",
        ),
        (
            Family("bloom", ("BloomAttention",)),
            lambda: BloomModel(BloomConfig(hidden_size=16, n_layer=1, n_head=2, vocab_size=50)),
            "neither attention_head_size|was seen at work.*needs hooks",
        ),
    ],
)
def test_a_class_that_a_family_cannot_describe_is_named_with_the_way_out(
    family: Family, model: Any, words: str
) -> None:
    with known(family), pytest.raises(InputError, match=words):
        ar.profile(model(), {"input_ids": IDS})


def test_a_name_in_place_of_names_is_refused() -> None:
    with pytest.raises(InputError, match=r"classes must be tuple.*'OPTAttention'"):
        Family("opt", "OPTAttention")  # type: ignore[arg-type]


def test_a_rotary_family_that_shows_nothing_before_the_rotation_says_so() -> None:
    torch.manual_seed(0)
    sizes = {**SMALL, "intermediate_size": 16, "num_key_value_heads": 2, "head_dim": 8}
    model = GemmaModel(GemmaConfig(**sizes)).eval()
    with known(Family("gemma", ("GemmaAttention",), rotary=True)):
        prof = ar.profile(model, {"input_ids": IDS}, cut_inputs=0)
    assert prof.sigma(0, 0).shape == (3, 8)
    with pytest.raises(InputError, match=r"gemma does not show .* before the rotation"):
        prof.sigma(0, 0, stage="plain")


class Grouped(nn.Module):
    """Four query heads of size 3 that share two key heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(5, 12), nn.Linear(5, 6), nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, 3)).transpose(1, 2) for part in self.children())
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(-2)[..., :5]


class GroupedAdapter:
    family = "grouped"
    site = Site("", nn.Identity(), heads=4, groups=2, m_h=3, streams=(None, None))

    def sites(self, model: nn.Module) -> list[Site]:
        return [
            replace(self.site, name=path, module=part)
            for path, part in model.named_modules()
            if isinstance(part, Grouped)
        ]

    def watch(self, model: nn.Module, sites: list[Site], see: Any = None, edit: Any = None) -> Any:
        return watch_outputs(sites, see, edit, lambda part: tuple(part.children()), self.call)

    def call(self, site: Site, q: Tensor, k: Tensor, v: Tensor, given: dict[str, Any]) -> Call:
        return Call(q, k, v, scale=1.0)


def test_hooks_take_keys_that_several_heads_share() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Grouped()), torch.randn(2, 7, 5)
    with known(GroupedAdapter()):
        prof = ar.profile(model, x, cut_inputs=0)
    part = model[0]
    q, k = part.q(x[1])[:, 9:], part.k(x[1])[:, 3:]
    logits = (q @ k.mT).detach()
    logits = (logits - logits.mean(-1, keepdim=True)) / 7
    assert np.allclose(prof.sigma(0, 3)[1], torch.linalg.svdvals(logits)[:3], atol=1e-6)


def test_an_adapter_whose_calls_have_other_sizes_than_its_sites_is_refused() -> None:
    wrong = GroupedAdapter()
    wrong.site = replace(wrong.site, m_h=5)
    with known(wrong), pytest.raises(InputError, match="4 heads of queries of size 5, but its"):
        ar.profile(nn.Sequential(Grouped()), torch.randn(2, 7, 5))


def test_every_file_with_adapters_is_found() -> None:
    names = {adapter.family for adapter in adapters._ADAPTERS}
    assert {"bert", "llama", "whisper"} < names
    assert all(isinstance(adapter, Adapter) for adapter in adapters._ADAPTERS)
