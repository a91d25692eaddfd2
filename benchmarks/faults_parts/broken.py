"""Checkpoints, stores, folders and inputs that are broken or lie, opened by their commands."""

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.figures.figure import (
    Curves,
    Figure,
    Graph,
    Line,
    Matrix,
    Series,
    Table,
    Violins,
)
from faults_parts import scene
from faults_parts.calls import call, edges, warm
from faults_parts.links import LINKS, run_link
from faults_parts.spoil import (
    Spoil,
    a_folder,
    a_link_to_itself,
    flipped,
    hostile_sql,
    index_that_leads_away,
    json_of_another_kind,
    json_with_a_wrong_value,
    npz_that_lies,
    replaced_by_noise,
    safetensors_that_lie,
    side_files,
    truncated,
)
from faults_parts.tally import Seen, judged

_SECONDS = 20.0
_BYTES: tuple[Spoil, ...] = (
    flipped,
    flipped,
    truncated,
    replaced_by_noise,
    a_folder,
    a_link_to_itself,
)
_JSON: tuple[Spoil, ...] = (
    *(json_with_a_wrong_value, json_with_a_wrong_value, json_with_a_wrong_value),
    *(json_of_another_kind, flipped, truncated, a_folder, a_link_to_itself),
)


@dataclass(frozen=True)
class Kind:
    """A file that can be broken: where it is, how it is spoiled, and the commands that open it."""

    name: str
    weight: float
    make: Callable[[Path, Path], None]
    file: str
    spoils: tuple[Spoil, ...]
    commands: tuple[tuple[str, ...], ...]
    lasting: bool = False


def _model(name: str) -> Callable[[Path, Path], None]:
    def make(folder: Path, source: Path) -> None:
        shutil.copytree(source / name, folder / "model")

    return make


def _nothing(folder: Path, source: Path) -> None:
    pass


def _store(folder: Path, source: Path) -> None:
    shutil.copy(source / "spec.sqlite", folder / "spec.sqlite")


def _reproduction(folder: Path, source: Path) -> None:
    shutil.copytree(source / "reproduction", folder / "run")


def _training(folder: Path, source: Path) -> None:
    shutil.copytree(source / "training", folder / "run")


def _finished_training(folder: Path, source: Path) -> None:
    shutil.copytree(source / "trained", folder / "run")


def _photos(folder: Path, source: Path) -> None:
    shutil.copytree(source / "photos", folder / "pictures")


_WEIGHTS = ("profile", "model", "--weights-only")
_ON_IDS = ("profile", "model", "--inputs", "ids.npz", "--limit", "2", "--cut-inputs", "0")
_ON_TEXT = ("profile", "model", "--text", "text.txt", "--limit", "2", "--cut-inputs", "0")
_ON_PHOTOS = ("--images", "photos", "--limit", "2", "--cut-inputs", "0")
_TRAIN = ("train", "cifar10", "--limit", "128", "--epochs", "2", "--threads", "1", "--out", "run")
_SWEEPS = (
    ("sweep", "spec.toml", "--status", "--export", "t.csv"),
    ("sweep", "spec.toml", "--export", "t.csv"),
)
_SAFE = (safetensors_that_lie, safetensors_that_lie, safetensors_that_lie, *_BYTES)
KINDS = (
    Kind("weights", 70, _model("bert"), "model/model.safetensors", _SAFE, (_WEIGHTS, _ON_IDS)),
    Kind("config.json", 50, _model("bert"), "model/config.json", _JSON, (_WEIGHTS, _ON_IDS)),
    Kind("tokenizer", 20, _model("bert"), "model/tokenizer.json", _JSON, (_ON_TEXT,)),
    Kind(
        *("index", 40, _model("shards"), "model/model.safetensors.index.json"),
        (index_that_leads_away, index_that_leads_away, *_JSON),
        (_WEIGHTS, _ON_IDS),
    ),
    Kind(
        *("own model", 60, _model("vit"), "model/model.safetensors", _SAFE),
        (_WEIGHTS, ("profile", "model", *_ON_PHOTOS)),
    ),
    Kind(
        "arrays",
        60,
        _nothing,
        "ids.npz",
        (npz_that_lies, npz_that_lies, *_BYTES),
        (("profile", "bert", *_ON_IDS[2:]),),
    ),
    Kind(
        "images",
        20,
        _photos,
        "pictures/1.png",
        _BYTES,
        (("profile", "vit", "--images", "pictures", *_ON_PHOTOS[2:]),),
    ),
    Kind("text", 10, _nothing, "text.txt", _BYTES, (("profile", "bert", *_ON_TEXT[2:]),)),
    Kind("spec", 10, _nothing, "spec.toml", _BYTES, (_SWEEPS[0],)),
    Kind("store", 40, _store, "spec.sqlite", _BYTES, _SWEEPS),
    Kind("store by SQL", 60, _store, "spec.sqlite", (hostile_sql,), _SWEEPS, lasting=True),
    Kind("store's side", 15, _store, "spec.sqlite", (side_files,), _SWEEPS, lasting=True),
    Kind(
        "record",
        15,
        _reproduction,
        "run/records/propositions.json",
        _JSON,
        (("report", "run"), ("report", "run", "--against", "run")),
    ),
    Kind(
        "kept record",
        25,
        _reproduction,
        "run/records/mixing-rank.json",
        (*_JSON, json_with_a_wrong_value, json_with_a_wrong_value),
        (("report", "run"), ("report", "run", "--against", "run")),
    ),
    Kind(
        "mark",
        10,
        _reproduction,
        "run/attnrate.json",
        _JSON,
        (("report", "run"), ("reproduce", "propositions", "--out", "run")),
    ),
    Kind(
        "its store",
        15,
        _reproduction,
        "run/trials.sqlite",
        (*_BYTES, hostile_sql, hostile_sql),
        (("report", "run"), ("reproduce", "propositions", "--out", "run")),
    ),
    Kind("checkpoint", 35, _training, "run/checkpoints/epoch-00001.safetensors", _SAFE, (_TRAIN,)),
    Kind("training's mark", 10, _training, "run/attnrate.json", _JSON, (_TRAIN,)),
    Kind("trained model", 20, _finished_training, "run/model.safetensors", _SAFE, (_TRAIN,)),
    Kind("its result", 15, _finished_training, "run/result.json", _JSON, (_TRAIN,)),
)


def prepare(place: Path, source: Path) -> None:
    """What needs work to be made, made once: a store, a reproduction, trainings."""
    from unittest.mock import patch

    from attnrate.experiments.record import save_record
    from attnrate.experiments.run import planned
    from attnrate.fitting.store import Store
    from attnrate.fitting.sweep import _sized
    from attnrate.fitting.trial import run_trial
    from attnrate.folders import write_mark
    from attnrate.training import train as training
    from attnrate.training.train import train

    with Store(source / "spec.sqlite") as kept:
        for one in _sized(source / "spec.toml", run_trial)[:5]:
            result = {"error": 0.5, "standard_error": 0.1, "diverged": False}
            kept.add(one.job, result, 1.0, "faults")
    run = source / "reproduction"
    write_mark(run, "reproduce", {"preset": "quick"})
    (run / "records").mkdir()
    with Store(run / "trials.sqlite") as kept:
        for one in planned("propositions", "quick").jobs:
            kept.add(one.job, {"checks": []}, 1.0, "faults")
    record = Record("propositions", "t", "p", "quick", 1, 1, 1.0, {})
    save_record(record, run / "records" / "propositions.json")
    # its work is not in the store, so that the page takes the record as it is
    save_record(_full_record(), run / "records" / "mixing-rank.json")
    with photographs():
        given = {"limit": 128, "epochs": 2, "threads": 1}
        train("cifar10", source / "trained", **given)
        with patch.object(training, "_kept", _stop), _stopped():
            train("cifar10", source / "training", **given)
    steps = source / "training" / "checkpoints"
    (steps / "epoch-00002.safetensors").unlink()
    assert (steps / "epoch-00001.safetensors").is_file()
    for path in source.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _full_record() -> Record:
    """A record with a figure of every kind of panel, a table and a claim."""
    axes = ("panel", "x", "y")
    series = (Series("one", (1, 2), (0.5, 0.25), (0.4, 0.2), (0.6, 0.3)),)
    panels = (
        Curves(*axes, series, "linear", "log", (Line("line", y=0.3),)),
        Violins(*axes, "label", (1, 2), ((0.1, 0.2, 0.3), (0.2, 0.3, 0.4)), series),
        Matrix(*axes, ((0.0, 1.0), (1.0, 0.0)), label="shade"),
        Graph("panel", ((0.0, 0.0),), ((1.0, 1.0),), ((0, 0, 1.0),), (True,)),
    )
    claim = Claim("a", "Sec. 1", "so it is", "mixing-rank", "holds", "a number", 1.0, 0.5, 1.5)
    said = Conclusion(
        ("A paragraph.",),
        (Figure("figure", "title", "caption", panels),),
        (Table("table", ("name", "value"), (("a", 1.0), ("b", None))),),
        (claim,),
    )
    return Record("mixing-rank", "t", "p", "quick", 1, 1, 1.0, {"commit": "a"}, said)


class _StopError(Exception):
    """A training that is left before it is done."""


def _stop(*_: object) -> None:
    raise _StopError


def _stopped() -> object:
    from contextlib import suppress

    return suppress(_StopError)


def photographs() -> object:
    """Made-up images instead of CIFAR-10, as long as the context lasts."""
    from unittest.mock import patch

    from attnrate.training import images as images_room

    drawn = np.random.default_rng(0)
    labels = np.arange(256) % 10
    images = drawn.integers(0, 50, (256, 32, 32, 3)) + 20 * labels[:, None, None, None]
    images = images.astype(np.uint8)
    data = images_room.Photographs(images[:128], labels[:128], images[128:], labels[128:])
    return patch.object(images_room, "photographs", lambda train, test: data)


def run_cases(place: Path, seed: int, first: int, count: int) -> Iterator[Seen]:
    """Spoil and open the files from number `first` on; links come after them."""
    source = place / "source"
    if not (source / "ready").exists():
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(place.parent / "scene", source)
        prepare(place, source)
        (source / "ready").touch()
    os.chdir(scene.work_place(place / f"warm-{first}", source))
    warm(scene.RIGHT)
    os.chdir(place)
    with edges_of_files():
        for number in range(first, count):
            draw = random.Random(f"{seed}/files/{number}")
            folder = scene.work_place(place / f"case-{number}", source)
            os.chdir(folder)
            start = time.perf_counter()
            if number % 8 == 7:
                which = (number // 8) % len(LINKS)
                seen = run_link(LINKS[which], number, folder, source)
            else:
                seen = _one(number, draw, folder, source)
            seconds = time.perf_counter() - start
            os.chdir(place)
            shutil.rmtree(folder, ignore_errors=True)
            yield Seen(**{**vars(seen), "seconds": seconds})


def edges_of_files() -> object:
    """Sweeps stop before their workers, downloads before their clients; trainings are real."""
    from contextlib import ExitStack
    from unittest.mock import patch

    from attnrate.training import epochs
    from attnrate.training import train as training

    real = training._on_images, epochs._epoch
    held = ExitStack()
    held.enter_context(edges())
    held.enter_context(patch.object(training, "_on_images", real[0]))
    held.enter_context(patch.object(epochs, "_epoch", real[1]))
    held.enter_context(photographs())
    return held


def _one(number: int, draw: random.Random, folder: Path, source: Path) -> Seen:
    (kind,) = draw.choices(KINDS, [each.weight for each in KINDS])
    kind.make(folder, source)
    path = folder / kind.file
    what = f"{kind.file}: {draw.choice(kind.spoils)(path, draw)}"
    before = _rows(path) if kind.lasting else set()
    faults: list[str] = []
    code: int | None = 0
    said = ""
    for words in kind.commands:
        done = call([*words], _SECONDS)
        found = judged(done.code, done.err) if not done.overtime else ("over time",)
        faults += found
        code = max(code or 0, done.code or 0)
        if found:
            said += f"attnrate {' '.join(words)}\n{done.err[-2500:]}"
    if scene.precious_lost(folder):
        faults.append("overwritten")
    if (folder / "owned").exists() or (folder.parent / "evil").exists():
        faults.append("overwritten")
        said += "a pickle was opened, or a file written outside"
    if kind.lasting and before - _rows(path):
        faults.append("lost")
    return Seen("files", kind.name, number, what, code, tuple(dict.fromkeys(faults)), said)


def _rows(path: Path) -> set[str]:
    """Keys of the finished trials that a store holds, as far as plain SQLite can read it."""
    try:
        opened = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        kind = opened.execute("SELECT type FROM sqlite_master WHERE name = 'trial'").fetchone()
        keys = opened.execute("SELECT key FROM trial") if kind == ("table",) else []
        found = {row[0] for row in keys}
    except sqlite3.Error:
        return set()
    opened.close()
    return found
