"""What models share: samples of a target go in as they come, sizes are counted and matched."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.fitting.fit import fit
from attnrate.models import GRU, Transformer, feed_forward, nearest_size
from attnrate.models.base import MODELS
from attnrate.models.build import build_model
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.targets import error_of, spectral_target

TARGET = spectral_target(1.0, 2, length=6)


@pytest.mark.parametrize("kind", MODELS.words())
@pytest.mark.parametrize("own", [torch.float32, torch.float64])
def test_samples_of_any_precision_go_into_a_model_and_come_out_in_its_own(
    kind: str, own: torch.dtype
) -> None:
    torch.manual_seed(0)
    model = build_model({"kind": kind}, TARGET).to(own)
    x = TARGET.sample(3, 0)
    for dtype in (torch.float16, torch.float32, torch.float64):
        y = model(x.to(dtype))
        assert y.dtype == own
        assert torch.equal(y, model(x.to(dtype).to(own)))
    assert error_of(model, TARGET, n=4).value > 0


@pytest.mark.parametrize("kind", MODELS.words())
def test_whole_numbers_are_refused_by_every_kind(kind: str) -> None:
    model = build_model({"kind": kind}, TARGET)
    with pytest.raises(InputError, match="inputs must hold floats"):
        model(torch.zeros(2, 6, 1, dtype=torch.int64))


def test_images_of_any_precision_go_into_a_vit() -> None:
    model = ViT(image=8, patch=4, width=8, layers=1, heads=1, m_h=4, m_ff=8)
    images = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    assert model(images).dtype == torch.float32
    assert torch.equal(model(images), model(images.float()))


def test_a_module_of_the_user_is_measured_in_its_own_precision() -> None:
    model = nn.Linear(1, 1)
    assert error_of(model, TARGET, n=8) == error_of(model, TARGET, n=8, dtype=torch.float32)
    assert fit(TARGET, model, steps=2).error > 0


def test_a_text_model_has_no_floats_to_cast() -> None:
    model = Seq2Seq(vocabulary=9, width=8, layers=1, heads=1, m_h=4, m_ff=8).eval()
    tokens = torch.tensor([[3, 4, 2]])
    assert model(tokens, tokens).shape == (1, 3, 9)


def test_the_nearest_size_has_about_as_many_parameters() -> None:
    wanted = Transformer(1, 1, m_h=4).parameter_count()

    def count(hidden: int) -> int:
        return GRU(1, 1, hidden).parameter_count()

    best = nearest_size(count, wanted)
    assert abs(count(best) - wanted) <= min(abs(count(best + k) - wanted) for k in (-1, 1))
    with pytest.raises(InputError, match="no rival is as small"):
        nearest_size(count, 1)


def test_a_network_has_the_sizes_that_it_is_asked_for() -> None:
    network = feed_forward(2, 3, width=5, depth=2)
    assert [p.shape for p in network.parameters() if p.ndim == 2] == [(5, 2), (5, 5), (3, 5)]
    with pytest.raises(InputError, match="width must be a whole number"):
        feed_forward(2, 3, width=0, depth=2)


def test_an_array_is_refused_where_a_tensor_is_needed() -> None:
    """In a process of its own, since the shapes of annotations are checked in this one."""
    code = """
        import attnrate as ar, numpy as np
        for model in (ar.Transformer(1, 1, m_h=2), ar.GRU(1, 1, hidden=2), ar.LinearRNN(1, 1)):
            try:
                model(np.zeros((2, 4, 1)))
            except ar.InputError as problem:
                print(problem)
    """
    ended = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 3
    assert all("must be a torch tensor" in line and "torch.as_tensor" in line for line in lines)
