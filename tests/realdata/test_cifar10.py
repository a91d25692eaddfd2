"""CIFAR-10 as it is published: the right images with the right labels."""

import numpy as np
import pytest

from attnrate.data.cifar10 import CLASSES, check, cifar10

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def data(real):
    pytest.importorskip("PIL")
    return real("attnrate data cifar10", cifar10)


def test_the_numbers_are_the_published_ones(data):
    check(data)
    assert data.train_images.dtype == data.test_images.dtype == np.uint8
    # the first images of data_batch_1 and test_batch as everybody has them
    assert [CLASSES[k] for k in data.train_labels[:5]] == [
        "frog",
        "truck",
        "truck",
        "deer",
        "automobile",
    ]
    assert [CLASSES[k] for k in data.test_labels[:5]] == ["cat", "ship", "ship", "airplane", "frog"]
    np.testing.assert_array_equal(data.train_images[0, 0, 0], [59, 62, 63])


def test_the_splits_share_no_image(data):
    train = {image.tobytes() for image in data.train_images}
    assert not any(image.tobytes() in train for image in data.test_images)
    assert len(train) == 50_000
