"""A fixed part of the walk through the model types of transformers (all: benchmarks/zoo.py)."""

import pytest
import torch
from torch import nn
from walk import Counter, walked

COVERED = (
    *("aria_text", "audio-spectrogram-transformer", "bigbird_pegasus", "biogpt", "blenderbot"),
    *("canine", "chinese_clip", "clipseg", "conditional_detr", "convbert", "ctrl", "cvt"),
    *("data2vec-audio", "deepseek_v4", "dinov3_vit", "dpt", "ernie4_5", "flava", "fsmt"),
    *("funnel", "glm4_moe", "gpt_bigcode", "granitemoe", "groupvit", "ibert", "jetmoe"),
    *("layoutlmv3", "levit", "llava", "luke", "m2m_100", "mgp-str", "mllama", "mobilevit"),
    *("moonshine", "mt5", "mvp", "nemotron_h", "olmoe", "perceiver", "prophetnet", "pvt"),
    *("sew", "switch_transformers", "timesformer", "udop", "vilt", "wavlm", "zaya"),
)
#: Types of which some attention cannot be read, or that have none, with what is said of them
OTHERWISE = {
    "led": "partly",
    "pegasus_x": "partly",
    "longformer": "none",
    "mamba": "no softmax attention",
    "fnet": "no softmax attention",
    "rwkv": "no softmax attention",
    "poolformer": "no softmax attention",
}


@pytest.mark.slow
def test_nine_in_ten_types_with_softmax_attention_are_covered_and_nothing_is_silent() -> None:
    found = {kind: walked(kind) for kind in (*COVERED, *OTHERWISE)}
    # of these all can be built and run
    assert not {kind: one.why for kind, one in found.items() if one.verdict == "not run here"}
    assert not [kind for kind, one in found.items() if one.verdict == "silent"]
    whole = [kind for kind, one in found.items() if one.verdict.startswith("covered")]
    attending = [kind for kind, one in found.items() if one.attended]
    assert len(whole) > 0.9 * len(attending)
    assert sorted(whole) == sorted(COVERED)
    assert {kind: found[kind].verdict for kind in OTHERWISE} == OTHERWISE
    # what is not covered is named, with a reason
    named = [kind for kind, verdict in OTHERWISE.items() if verdict in ("partly", "none")]
    assert all(found[kind].why for kind in named)


def test_attention_that_torch_does_not_fuse_is_counted_too() -> None:
    q, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 7)
    with torch.no_grad(), Counter() as counter:
        nn.functional.scaled_dot_product_attention(q, q, v)
    assert counter.count == 1


class Several(nn.Module):
    """Two attentions, one of them with its weights copied, and a gate."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x @ x.mT).softmax(-1) @ x
        copied = torch.zeros(2, 5, 7)
        copied[:, :, :5] = (x @ x.mT).softmax(-1)
        x = copied[:, :, :5] @ x
        gate = nn.functional.linear(x, torch.ones(5, 4)).softmax(-1)
        return torch.bmm(gate.mT, x)


def test_attention_is_counted_below_autograd() -> None:
    with torch.no_grad(), Counter() as counter:
        Several()(torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)))
    assert counter.count == 2
