"""The commands that are killed and starved: tiny work for each, and what of it is finished."""

import hashlib
import io
import json
import os
import sqlite3
import stat
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faults_parts import scene

Found = dict[str, str]
#: The fits of a race of six models with one seed on two folds; heads may come after them
_FITS = 12
_APT_CACHE = """
for name in sys.argv[3:]:
    for file in sorted(shop.glob(name + "_*.deb")):
        data = file.read_bytes()
        print("Package:", name + "\\nVersion: 1.0-1\\nArchitecture: all")
        print("Size:", len(data), "\\nSHA256:", hashlib.sha256(data).hexdigest() + "\\n")
"""
_APT_GET = """
name, version = sys.argv[-1].split("=")
time.sleep(0.3)
file = name + "_" + version + "_all.deb"
pathlib.Path(file).write_bytes((shop / file).read_bytes())
"""


@dataclass(frozen=True)
class Work:
    """A command on tiny work, in a folder of its own.

    `finished` tells what is done so far, by name with a digest; at the end of an undisturbed run
    and of one that was killed on the way it holds the same names.
    """

    name: str
    words: Callable[[Path], list[str]]
    finished: Callable[[Path], Found]
    cache: str = "cache"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _weights(path: Path) -> str:
    """A digest of the tensors alone: the times of epochs, which stand beside them, differ."""
    data = path.read_bytes()
    return hashlib.sha256(data[8 + int.from_bytes(data[:8], "little") :]).hexdigest()[:16]


def _stored(store: Path) -> Found:
    """The trials of a store by key, with the moment at which each was finished."""
    if not store.exists():
        return {}
    opened = sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)
    try:
        return dict(opened.execute("SELECT key, finished FROM trial"))
    except sqlite3.OperationalError:  # not made yet
        return {}
    finally:
        opened.close()


def _sweep(folder: Path) -> list[str]:
    (folder / "spec.toml").write_text(scene.spec(steps=120, seeds=3))
    return ["sweep", "spec.toml", "--workers", "1"]


def _sweep_done(folder: Path) -> Found:
    return _stored(folder / "spec.sqlite")


def _reproduce(folder: Path) -> list[str]:
    return ["reproduce", "mixing-rank", "--out", "run", "--workers", "1"]


def _reproduce_done(folder: Path) -> Found:
    found = _stored(folder / "run" / "trials.sqlite")
    page = folder / "run" / "index.html"
    return found | ({"page": "whole"} if page.exists() else {})


def _train(folder: Path) -> list[str]:
    more = ["--threads", "1", "--precision", "float32", "--out", "run"]
    return ["train", "cifar10", "--limit", "128", "--epochs", "6", *more]


def _train_done(folder: Path) -> Found:
    run = folder / "run"
    if (run / "result.json").exists():
        epochs = len(json.loads((run / "result.json").read_text())["epochs"])
        model = {"model": _weights(run / "model.safetensors")}
    else:
        names = [path.stem for path in (run / "checkpoints").glob("epoch-*.safetensors")]
        epochs, model = max((int(name[6:]) for name in names), default=0), {}
    return {f"epoch {number}": "" for number in range(epochs)} | model


def _profile(folder: Path) -> list[str]:
    if not (folder / "ids.npz").exists():
        scene.ids(folder / "ids.npz")
        (folder / "bert").symlink_to(folder.parents[1] / "scene" / "bert")
    return ["profile", "bert", "--inputs", "ids.npz", "--limit", "2", "--out", "page"]


def _profile_done(folder: Path) -> Found:
    page = folder / "page"
    if not page.exists():
        return {}
    files = sorted(str(path.relative_to(page)) for path in page.rglob("*") if path.is_file())
    return {name: "" for name in files if not name.startswith(".")}


def _choose(folder: Path) -> list[str]:
    if not (folder / "data.csv").exists():
        scene.table(folder / "data.csv")
    race = ["--full", "--minutes", "0.001", "--seeds", "1", "--folds", "2", "--workers", "1"]
    return ["choose", "data.csv", "--target", "y", "--window", "8", *race, "--out", "answer"]


def _choose_done(folder: Path) -> Found:
    # the finished fits stand beside the folder until it is whole, which then has the answer
    if (folder / "answer").exists():
        return {f"fit {number}": "" for number in range(_FITS)} | {"answer": "whole"}
    fits = _stored(folder / "answer.fits.sqlite")
    return {f"fit {number}": "" for number in range(min(_FITS, len(fits)))}


def _data(folder: Path) -> list[str]:
    return ["data", "translation", "--json"]


def _data_done(folder: Path) -> Found:
    kept = folder / "cache" / "attnrate-cache" / "translation"
    return {
        str(path.relative_to(kept)): _digest(path)
        for path in kept.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


WORKS = (
    Work("sweep", _sweep, _sweep_done),
    Work("reproduce", _reproduce, _reproduce_done),
    Work("train", _train, _train_done, cache="shared"),
    Work("profile", _profile, _profile_done),
    Work("choose", _choose, _choose_done),
    Work("data", _data, _data_done),
)


def made_up_cifar10(cache: Path) -> None:
    """Arrays with CIFAR-10's shapes, labels and mean colours, where the cache has the real ones."""
    folder = cache / "attnrate-cache" / "cifar10"
    folder.mkdir(parents=True)
    for split, count in (("train", 50_000), ("test", 10_000)):
        images = np.empty((count, 32, 32, 3), np.uint8)
        for channel, mean in enumerate((125.3, 123.0, 113.9)):
            low = int(mean)
            images[..., channel] = low
            images[: round((mean - low) * count), ..., channel] = low + 1
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", np.arange(count) % 10)


def toy_debian(programs: Path, shop: Path) -> None:
    """Packages with German catalogues, enough for a set of pairs, and programs that know them."""
    import polib

    shop.mkdir()
    for name, body in (("apt-cache", _APT_CACHE), ("apt-get", _APT_GET)):
        path = programs / name
        head = f"import hashlib, pathlib, sys, time\nshop = pathlib.Path({str(shop)!r})"
        path.write_text(f"#!{sys.executable}\n{head}\n{body}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    counts = {"subversion": 600, "audacity-data": 600, "nano": 21_000, "git": 21_000}
    number = 0
    for package, count in counts.items():
        catalogue = polib.MOFile()
        catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8"}
        for _ in range(count):
            number += 1
            word = "".join(chr(97 + int(digit)) for digit in f"{number:06}")
            catalogue.append(
                polib.POEntry(
                    msgid=f"The file {word} is not the one that you have",
                    msgstr=f"Die Datei {word} ist nicht die, die Sie haben",
                )
            )
        _write_deb(shop / f"{package}_1.0-1_all.deb", package, catalogue.to_binary())


def _write_deb(path: Path, name: str, data: bytes) -> None:
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w:gz", compresslevel=1) as tar:
        entry = tarfile.TarInfo(f"./usr/share/locale/de/LC_MESSAGES/{name}.mo")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    with path.open("wb") as out:
        out.write(b"!<arch>\n")
        for member, content in (("debian-binary", b"2.0\n"), ("data.tar.gz", tape.getvalue())):
            head = f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
            out.write(head.encode() + content + b"\n" * (len(content) % 2))


def environment(work: Work, folder: Path, shared: Path) -> dict[str, str]:
    """The variables of a command: its cache is its own, but for the images, which are large."""
    cache = shared if work.cache == "shared" else folder / "cache"
    return {**os.environ, "ATTNRATE_CACHE": str(cache)}
