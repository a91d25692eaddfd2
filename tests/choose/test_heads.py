"""Heads: the smallest that is no worse than the largest, and the spectrum beside it."""

import math

import numpy as np
import pytest
import torch
from made_samples import row, series

from attnrate.choose.heads import Heads, head_jobs, heads_of
from attnrate.choose.judging import spectra_of
from attnrate.choose.planning import Course, head_sizes
from attnrate.choose.race import race_jobs
from attnrate.choose.winner import fit_winner


def fits(errors: dict[int, float]) -> list:
    drawn = np.random.default_rng(0)
    noise = 0.001 * drawn.normal(size=(5, 2, 2, 8))
    return [
        row("transformer", fold, seed, (e + noise[n, fold, seed]).tolist(), m_h)
        for n, (m_h, e) in enumerate(errors.items())
        for fold in (0, 1)
        for seed in (0, 1)
    ]


def test_the_smallest_head_that_is_no_worse_than_the_largest_is_advised() -> None:
    found = heads_of(fits({1: 2.0, 2: 1.3, 4: 1.005, 8: 1.0, 16: 1.0}), "transformer")
    assert found.advised == 4
    assert [each.enough for each in found.sizes] == [False, False, True, True, True]
    assert found.to_frame()["m_h"].tolist() == [1, 2, 4, 8, 16]


def test_a_size_below_one_that_is_worse_was_lucky_and_is_not_advised() -> None:
    found = heads_of(fits({1: 1.0, 2: 1.3, 4: 1.0, 8: 1.0, 16: 1.0}), "transformer")
    assert [each.enough for each in found.sizes] == [True, False, True, True, True]
    assert found.advised == 4


def test_an_error_far_above_that_of_the_largest_is_not_enough_however_wide_its_interval() -> None:
    wide = [row("transformer", 0, seed, [1.0, 30.0 * seed], 1) for seed in (0, 1)]
    largest = [row("transformer", 0, seed, [1.0, 1.0], 16) for seed in (0, 1)]
    found = heads_of([*wide, *largest], "transformer")
    assert found.sizes[0].difference.low < 0
    assert found.advised == 16


def test_a_size_whose_interval_reaches_beyond_a_tenth_more_is_not_shown_to_be_enough() -> None:
    def beside_ones(errors: list[float]) -> Heads:
        small, large = (
            [row("transformer", 0, seed, values, m_h) for seed in (0, 1)]
            for m_h, values in ((1, errors), (16, [1.0, 1.0]))
        )
        return heads_of([*small, *large], "transformer")

    narrow, wide = beside_ones([1.0, 1.0]), beside_ones([0.5, 1.5])
    assert narrow.sizes[0].ratio_high == pytest.approx(1)
    assert narrow.advised == 1
    # the same mean, and an interval that holds 0 but shows nothing
    assert wide.sizes[0].ratio == pytest.approx(1)
    assert wide.sizes[0].difference.low < 0 < wide.sizes[0].difference.high
    assert wide.sizes[0].ratio_high > 1.1
    assert wide.advised == 16


def test_where_the_largest_diverged_nothing_is_advised() -> None:
    rows = [row("transformer", 0, 0, [1.0, 1.0], 1), row("transformer", 0, 0, None, 16)]
    found = heads_of(rows, "transformer")
    assert found.advised is None
    assert math.isnan(found.sizes[0].ratio)
    assert found.sizes[1].diverged == 1


def test_head_sizes_are_powers_of_two_and_the_largest() -> None:
    assert head_sizes(16) == [1, 2, 4, 8, 16]
    assert head_sizes(12) == [1, 2, 4, 8, 12]


def test_the_largest_heads_are_the_fits_of_the_race() -> None:
    course = Course(10, 2, 2, 3000)
    of_race = race_jobs(series(), course, ["transformer"])
    of_heads = head_jobs(series(), course)
    assert len(of_heads) == 5 * len(of_race)
    assert {job.key for job in of_race} == {job.key for job in of_heads if job.m_h == 16}


def test_the_spectrum_is_that_of_the_logits_of_all_tokens_with_centred_keys() -> None:
    samples = series(rows=60)
    model = fit_winner(samples, "transformer", steps=3, parameters=3000, m_h=2, batch=8)
    held = np.arange(6)
    found = spectra_of(samples, held, model)
    assert [len(layer) for layer in found] == [2, 2]
    inside = model.model.model
    seen: dict[str, torch.Tensor] = {}
    for name in ("W_Q", "W_K"):
        getattr(inside, name).register_forward_hook(
            lambda _, __, out, name=name: seen.__setitem__(name, out.detach().double())
        )
    model(torch.from_numpy(samples.tokens(held)))
    keys = (seen["W_K"] - seen["W_K"].mean(1, keepdim=True)).flatten(0, 1)
    # of a window the last token alone is read, and so has a query
    logits = 2**-0.5 * seen["W_Q"].flatten(0, 1) @ keys.mT
    assert logits.shape == (6, 6 * 8)
    wanted = torch.linalg.svdvals(logits)[:2] / logits.numel() ** 0.5
    assert found[-1] == pytest.approx(wanted.tolist(), rel=1e-6)


def test_a_spectrum_has_a_value_for_each_row_of_a_head_however_few_the_samples() -> None:
    samples = series(rows=60)
    model = fit_winner(samples, "patches", steps=1, parameters=3000, batch=8)
    found = spectra_of(samples, np.arange(3), model)
    assert [len(layer) for layer in found] == [16, 16]
    assert found[-1][3:] == 13 * (0.0,)
