"""What is refused of a model before it is cut, and what a model of 16 bits does not lose."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import thin_families
import torch
from normed_tiny import tiny_normed
from rotary_tiny import tiny_llama, tokens
from small_models import small

import attnrate as ar
from attnrate.compress import sound
from attnrate.compress.measured import Measurements

TEXT = {"input_ids": tokens(10, 40)}


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_weights_that_are_not_finite_are_refused_by_name(name: str) -> None:
    model: Any = small("bert").model if name == "bert" else tiny_llama(torch.float32)
    path = [
        each
        for each, _ in model.named_parameters()
        if each.endswith(("query.weight", "q_proj.weight"))
    ][-1]
    with torch.no_grad():
        model.get_parameter(path)[0, 0] = torch.nan
    with pytest.raises(ar.InputError, match=rf"1 tensors of the model hold nan or inf.*{path}"):
        ar.compress(model, TEXT, size=4)


def test_outputs_that_are_not_finite_are_refused() -> None:
    model = tiny_llama(torch.float32)
    with torch.no_grad():
        model.lm_head.weight.mul_(1e38).mul_(1e3).clamp_(-3e38, 3e38)
    with pytest.raises(ar.InputError, match="outputs of this 'LlamaForCausalLM' hold nan or inf"):
        ar.compress(model, TEXT, size=4)


def test_a_change_that_is_not_finite_does_not_pay() -> None:
    made = ar.compress(small("own-vit").model, torch.randn(10, 3, 8, 8), size=4, timing=0)
    for change in (float("nan"), float("inf")):
        against = replace(made, change=change, measured=Measurements((), (), (), ())).against
        assert against == "the output is not finite on inputs that the cut has not seen"


def test_weights_on_disk_are_refused_with_the_way_out(tmp_path: Path) -> None:
    small("bert").model.save_pretrained(tmp_path / "whole")
    loaded = ar.load_model(tmp_path / "whole", device_map="auto", offload=tmp_path / "disk")
    with pytest.raises(ar.InputError, match=r"on disk cannot be cut.*without device_map"):
        ar.compress(loaded, TEXT, size=4)


def test_a_device_without_float64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound, "device_of", lambda _: torch.device("mps"))
    with pytest.raises(ar.InputError, match=r"no numbers in float64.*Pass device=cpu"):
        ar.compress(small("bert").model, TEXT, size=4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "gpt2", "qwen3"])
def test_models_of_16_bits_lose_no_layer(name: str, dtype: torch.dtype) -> None:
    if name == "qwen3":
        model: Any = tiny_normed("qwen3", dtype)
    else:
        model = thin_families.made(name).to(dtype)
    done = ar.compress(model, TEXT, size=6, timing=0, together=2)
    assert done.left == ()
    assert len(done.layers) == 2
    assert 0 < done.change < 1


@pytest.mark.parametrize("sizes", [[12, 6], [12, 12]])
def test_a_layer_with_norms_that_stays_whole_is_in_the_cache(sizes: list[int]) -> None:
    done = ar.compress(tiny_normed("qwen3", torch.float32), TEXT, sizes=sizes, timing=0)
    assert [layer.in_cache for layer in done.layers] == [True, True]
    assert done.has_cache
    assert not any("keeps no keys" in note for note in done.measured.notes)
