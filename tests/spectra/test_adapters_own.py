"""ViT and Seq2Seq under the profile: spectra of logits formed by hand, padding left out."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from attnrate.models.multihead import Multihead
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.spectra.profile import profile
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [10, 11, 2, 0, 0, 0], [3, 4, 15, 16, 2, 0]])
TARGET = torch.tensor([[1, 12, 13, 14, 6], [1, 15, 3, 0, 0], [1, 9, 8, 7, 0]])
SIZES = {"width": 12, "layers": 2, "heads": 3, "m_h": 5, "m_v": 4, "m_ff": 16}


def spread(model: torch.nn.Module) -> Any:
    """Weights large enough that no head is idle."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        near = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
        torch.nn.init.normal_(parameter, near, 0.35)
    return model.double().eval()


def logits(part: Multihead, x: Tensor, memory: Tensor) -> Tensor:
    """(heads, T, S) before softmax, of one input."""
    q = (x @ part.W_Q.weight.T + part.W_Q.bias).reshape(len(x), part.heads, part.m_h)
    k = (memory @ part.W_K.weight.T + part.W_K.bias).reshape(len(memory), part.heads, part.m_h)
    return torch.einsum("thm,shm->hts", q, k) / part.m_h**0.5


def sigma(matrix: Tensor, m_h: int) -> np.ndarray:
    """Singular values without what softmax cannot see, over √(T S)."""
    matrix = matrix - matrix.mean(-1, keepdim=True)
    values = torch.linalg.svdvals(matrix / (matrix.shape[-2] * matrix.shape[-1]) ** 0.5)
    return functional.pad(values, (0, m_h))[..., :m_h].detach().numpy()


def test_a_seq2seq_has_the_spectra_of_its_sentences_without_padding() -> None:
    model = spread(Seq2Seq("cpu", vocabulary=20, **SIZES, moved=2))
    prof = profile(model, {"source": SOURCE, "target": TARGET}, cut_inputs=0)
    names = [layer.name for layer in prof.layers]
    assert names[:2] == ["encoder_layers.0.attention", "encoder_layers.1.attention"]
    assert names[2:4] == ["decoder_layers.0.attention", "decoder_layers.0.across"]
    assert [layer.kind for layer in prof.layers] == ["self"] * 3 + ["cross", "self", "cross"]
    for number in range(3):
        # one sentence alone, which needs no padding
        source = SOURCE[number][SOURCE[number] != 0][None].roll(-2, 1)
        target = TARGET[number][TARGET[number] != 0][None]
        x = model._placed(source)
        one, two = model.encoder_layers
        memory = model.encoder_norm(two(one(x, padding()), padding()))[0]
        first = model.decoder_layers[0]
        y = model._placed(target)
        normed = first.norm_1(y)[0]
        truth = {
            0: logits(one.attention, one.norm_1(x)[0], one.norm_1(x)[0]),
            2: logits(first.attention, normed, normed),
            3: logits(first.across, first.norm_2(y + first.attention(first.norm_1(y)))[0], memory),
        }
        if source.shape[1] == 3:  # moved by 2 of 3 tokens
            assert source[0].tolist() == [2, 10, 11]
        for layer, matrix in truth.items():
            exact = sigma(matrix, 5)
            for head in range(3):
                found = prof.sigma(layer, head)[number]
                assert np.abs(found - exact[head]).max() <= 1e-5 * exact[head][0]


def padding() -> Any:
    from attnrate.models.multihead import NO_PADDING

    return NO_PADDING


@pytest.mark.parametrize("pool", ["mean", "class"])
def test_a_vit_has_the_spectra_of_its_images(pool: str) -> None:
    model = spread(ViT("cpu", image=12, patch=4, pool=pool, **SIZES))
    images = torch.randn(4, 3, 12, 12, dtype=torch.float64)
    prof = profile(model, images, cut_inputs=2)
    assert [layer.name for layer in prof.layers] == ["layers.0.attention", "layers.1.attention"]
    tokens = model.patches(images)
    if pool == "class":
        tokens = torch.cat([model.class_token.expand(4, -1, -1), tokens], 1)
    layer = model.layers[0]
    x = layer.norm_1(tokens + model.positions)
    for number in range(4):
        exact = sigma(logits(layer.attention, x[number], x[number]), 5)
        for head in range(3):
            found = prof.sigma(0, head)[number]
            assert np.abs(found - exact[head]).max() <= 1e-5 * exact[head][0]
    # a whole head is no cut at all
    assert {"rank_99", "m_h"} & {*prof.to_frame().columns}


def test_watching_changes_no_bit_and_edits_reach_the_model() -> None:
    model = spread(Seq2Seq("cpu", vocabulary=20, **SIZES))
    watcher = Watcher(model)
    plain = model(SOURCE, TARGET)
    with watcher.open(len(SOURCE), lambda *_: None, lambda _, query: query):
        assert torch.equal(model(SOURCE, TARGET), plain)
    with watcher.open(
        len(SOURCE), edit=lambda site, query: 0 * query if site.kind == "cross" else query
    ):
        assert not torch.allclose(model(SOURCE, TARGET), plain)
    assert torch.equal(model(SOURCE, TARGET), plain)


def test_cuts_of_cross_attention_are_measured() -> None:
    model = spread(Seq2Seq("cpu", vocabulary=20, **SIZES))
    prof = profile(model, {"source": SOURCE, "target": TARGET}, cut_inputs=1)
    assert all(layer.cuts for layer in prof.layers)
    frame = prof.to_frame()
    assert len(frame) == 6 * 3
    assert np.isfinite(frame.select_dtypes("number").to_numpy()).any()
