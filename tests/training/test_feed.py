"""Feeds: every item once, the same batches for the same seed, and no item in a wrong place."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models.decoding import Specials
from attnrate.models.seq2seq import Seq2Seq
from attnrate.training.feed import (
    Ahead,
    Batch,
    Images,
    Pairs,
    Parts,
    flipped_and_cropped,
    normalised,
)


def pictures(count: int = 10, size: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 256, (count, size, size, 3), dtype=np.uint8)


def test_an_augmented_image_is_a_moved_and_perhaps_mirrored_one() -> None:
    images = pictures(200)
    found = flipped_and_cropped(images, np.random.default_rng(1), border=2)
    moves = set()
    for image, seen in zip(images, found, strict=True):
        framed = np.pad(image, ((2, 2), (2, 2), (0, 0)))
        fits = {
            (mirrored, top, left)
            for mirrored in (False, True)
            for top in range(5)
            for left in range(5)
            if np.array_equal(
                seen, framed[top : top + 6, left : left + 6][:, :: -1 if mirrored else 1]
            )
        }
        assert len(fits) == 1
        moves |= fits
    assert len(moves) > 45  # of 50, each with a chance of 98 %


def test_normalised_images_have_channels_first() -> None:
    images = pictures()
    x = normalised(images)
    assert x.dtype == torch.float32
    assert x[3, 1, 2, 5].item() == pytest.approx((images[3, 2, 5, 1] - 123.0) / 62.1, rel=1e-5)


def test_training_images_come_once_an_epoch_in_another_order() -> None:
    feed = Images(pictures(), np.arange(10), batch=3, seed=4)
    orders = [[label for _, y in feed.batches(epoch) for label in y.tolist()] for epoch in (0, 1)]
    assert len({*orders[0]}) == len(orders[0]) == 9
    assert orders[0] != orders[1]
    assert all(
        torch.equal(a, b)
        for one, two in zip(feed.batches(0), feed.batches(0), strict=True)
        for a, b in zip(one, two, strict=True)
    )


def test_test_images_come_in_their_order_and_all_of_them() -> None:
    feed = Images(pictures(), np.arange(10), batch=3, augment=False)
    assert [y.tolist() for _, y in feed.batches(0)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert feed.steps(0) == 4


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40),
    st.integers(26, 90),
    st.integers(0, 3),
)
def test_every_pair_comes_once_and_no_batch_is_too_large(
    lengths: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    # a sentence is its own number, repeated
    sources = [[10 + i] * s for i, (s, _) in enumerate(lengths)]
    targets = [[10 + i] * t for i, (_, t) in enumerate(lengths)]
    feed = Pairs(sources, targets, Specials(), tokens)
    seen = []
    for source, target in feed.batches(epoch):
        assert len(source) * (source.shape[1] + target.shape[1] - 1) <= tokens
        for row, other in zip(source.tolist(), target.tolist(), strict=True):
            number = row[0] - 10
            assert [token for token in row if token] == [*sources[number], 2]
            assert [token for token in other if token] == [1, *targets[number], 2]
            seen.append(number)
    assert sorted(seen) == [*range(len(lengths))]
    assert feed.steps(epoch) == len([*feed.batches(epoch)])


def test_batches_hold_sentences_of_like_length() -> None:
    random = np.random.default_rng(0)
    rows = [[5] * int(n) for n in random.integers(1, 40, 500)]
    feed = Pairs(rows, rows, Specials(), 400)
    shares = [(source != 0).float().mean() for source, _ in feed.batches(0)]
    assert torch.stack(shares).mean() > 0.9


def test_the_loss_of_pairs_is_cross_entropy_over_real_tokens() -> None:
    torch.manual_seed(0)
    model = Seq2Seq("cpu", vocabulary=20, width=8, layers=1, heads=1, m_h=4, m_ff=8).eval()
    feed = Pairs([[5, 6], [7]], [[8], [9, 10, 11]], Specials(), 60)
    ((source, target),) = feed.batches(0)
    outcome = feed.outcome(model, (source, target))
    chances = model(source, target).log_softmax(-1)
    terms = [
        -chances[row, place, target[row, place + 1]]
        for row in range(2)
        for place in range(target.shape[1] - 1)
        if target[row, place + 1] != 0
    ]
    assert outcome.count == len(terms) == 6
    assert outcome.units == 6 + 5
    torch.testing.assert_close(outcome.loss, torch.stack(terms).mean())


class Endless(Images):
    def batches(self, epoch: int) -> Iterator[Batch]:
        while True:
            yield from super().batches(epoch)


def test_the_thread_ends_when_the_loop_breaks_off() -> None:
    feed = Endless(pictures(), np.arange(10), batch=5)
    before = threading.active_count()
    with Ahead(feed, 0) as ahead:
        for _, _ in pairwise(ahead):
            break
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


class Late(Images):
    def batches(self, epoch: int) -> Iterator[Batch]:
        for batch in super().batches(epoch):
            time.sleep(0.05)
            yield batch


def test_waiting_is_counted() -> None:
    with Ahead(Late(pictures(), np.arange(10), batch=5), 0) as ahead:
        assert len([*ahead]) == 2
    assert 0.08 < ahead.waited < 2


def test_wrong_feeds_are_told() -> None:
    with pytest.raises(InputError, match="as many labels as images"):
        Images(pictures(), np.arange(9))
    with pytest.raises(InputError, match="larger than the 10 images"):
        Images(pictures(), np.arange(10), batch=11)
    with pytest.raises(InputError, match="longest pair, 8 tokens"):
        Pairs([[3] * 5], [[3]], Specials(), 7)
    with pytest.raises(InputError, match="for a model that translates"):
        Pairs([[3]], [[3]], Specials()).outcome(
            torch.nn.Linear(1, 1), (torch.ones(1, 1), torch.ones(1, 1))
        )


def test_parts_of_an_epoch_hold_every_batch_once() -> None:
    whole = Images(pictures(30), np.arange(30) % 2, 4)
    parts = Parts(whole, 3)
    for epoch in (0, 1):
        found = [y.tolist() for part in range(3) for _, y in parts.batches(3 * epoch + part)]
        assert sorted(found) == sorted(y.tolist() for _, y in whole.batches(epoch))
        assert sum(parts.steps(3 * epoch + part) for part in range(3)) == whole.steps(epoch)
