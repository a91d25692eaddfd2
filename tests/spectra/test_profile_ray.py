"""Profiles on a Ray cluster: the numbers of a local one, also when a machine is lost."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray_nodes import importable, needs_ray, two_nodes
from same_bits import differences
from torch import nn

import attnrate as ar
from attnrate.errors import InputError, WorkerError
from attnrate.spectra.adapters import register, registered, unregister
from attnrate.spectra.dealt import threads_of
from attnrate.spectra.digest import formats_of, weights_digest
from attnrate.spectra.gather import Gathered, Piece, piece_of
from attnrate.spectra.picked import Picked
from attnrate.spectra.placement import Precision
from attnrate.spectra.runners import runner_of
from attnrate.spectra.watching.watcher import Memory, Watcher
from attnrate.spectra.worker import NO_MODEL, Answer, Source, measure
from attnrate.training.checkpoint import Checkpoint, keep_model

FOLDER = str(Path(__file__).parent)


def off(one: ar.Profile, other: ar.Profile) -> float:
    """The largest difference of pooled spectra and moments, in units of the largest value."""
    worst = 0.0
    for mine, theirs in zip(one.layers, other.layers, strict=True):
        assert (mine.number, str(mine)) == (theirs.number, str(theirs))
        grams = [(mine.query, theirs.query), (mine.key, theirs.key)]
        grams += [
            two
            for stage in theirs.moments
            for two in zip(mine.moments[stage], theirs.moments[stage], strict=True)
        ]
        pairs = [
            (getattr(one, part.name).numpy(), getattr(other, part.name).numpy())
            for one, other in grams
            for part in fields(one)
        ]
        pairs += [(mine.pooled[key], theirs.pooled[key]) for key in theirs.pooled]
        for got, wanted in pairs:
            worst = max(worst, float(np.abs(got - wanted).max() / np.abs(wanted).max()))
    return worst


def same(one: ar.Profile, other: ar.Profile) -> None:
    """State that two profiles agree: single inputs bit for bit, what is summed to rounding."""
    assert (one.digest, one.unseen, one.family) == (other.digest, other.unseen, other.family)
    assert off(one, other) < 1e-13
    for mine, theirs in zip(one.layers, other.layers, strict=True):
        for name in ("tokens", "sigma", "bias"):
            assert differences(getattr(mine, name), getattr(theirs, name)) == []
        for share, cut in theirs.cuts.items():
            assert np.abs(mine.cuts[share].weights - cut.weights).max() < 1e-6


@needs_ray
@pytest.mark.slow
def test_a_cluster_that_loses_a_node_gives_the_profile_of_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    with two_nodes(FOLDER, monkeypatch) as cluster:
        from profile_standin import Sticks

        torch.manual_seed(0)
        model = Sticks(tmp_path, cluster.second.node_id)
        given = [torch.rand(3, 9, 2) for _ in range(12)]

        def lose_the_node() -> None:
            patience = time.monotonic() + 120
            while not (tmp_path / model.stuck).exists() and time.monotonic() < patience:
                time.sleep(0.01)
            cluster.remove_node(cluster.second, allow_graceful=False)

        losing = threading.Thread(target=lose_the_node)
        losing.start()
        found = ar.profile(model, given, engine="ray", cut_inputs=4)
        losing.join()
    begun = {path.name for path in tmp_path.iterdir()}
    assert len(begun) == 2
    assert model.stuck in begun
    same(found, ar.profile(model, given, cut_inputs=4))


class Other(nn.Module):
    """A class that no other process can import."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = ar.Transformer(2, 1, n=10, m_h=4, m_v=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


@pytest.fixture
def vit(tmp_path: Path) -> ar.LoadedModel:
    """A model of ours in a folder; it needs no transformers, which take long to import."""
    sizes = {"image": 8, "patch": 2, "channels": 1, "classes": 2, "width": 8, "layers": 2}
    model = ar.ViT(**sizes, heads=2)
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    facts = {"settings": {"model": {"class": "ViT", **sizes, "heads": 2}}}
    keep_model(tmp_path / "vit", Checkpoint(1, weights, facts))
    return ar.load_model(tmp_path / "vit")


def images(count: int = 7) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(2, 1, 8, 8, generator=generator) for _ in range(count)]


class Stopped(KeyboardInterrupt):
    """An interruption of the test's own."""


@needs_ray
@pytest.mark.slow
def test_workers_open_the_model_from_its_folder_or_are_sent_it(
    vit: ar.LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    importable(FOLDER, monkeypatch)
    local = ar.profile(vit, images(), cut_inputs=2)
    with runner_of("ray", 2).session():
        same(ar.profile(vit, iter(images()), cut_inputs=2, engine="ray", workers=2), local)
        shutil.rmtree(vit.folder)
        found = ar.profile(vit, images(), cut_inputs=2, layers=[1], engine="ray", workers=2)
        same(found, ar.profile(vit, images(), cut_inputs=2, layers=[1]))

        def stopped() -> Iterator[torch.Tensor]:
            yield from images()[:4]
            raise Stopped

        with pytest.raises(Stopped):
            ar.profile(vit, stopped(), cut_inputs=2, resume=tmp_path / "s")
        asked: dict[str, Any] = {"resume": tmp_path / "s", "engine": "ray", "workers": 2}
        same(ar.profile(vit, images(), cut_inputs=2, **asked), local)

        wide = torch.rand(2, 1, 8, 9)
        with pytest.raises(InputError, match=r"must have the shape.*got \(2, 1, 8, 9\)"):
            ar.profile(vit, [*images(), wide], engine="ray", workers=2)
    assert not ray.is_initialized()


def source_of(
    digest: str | None,
    path: str | None,
    formats: list[str] | None = None,
    dtype: Precision = "float32",
) -> Source:
    there = ["torch.float32 cpu"] if formats is None else formats
    threads = torch.get_num_threads()
    return Source(digest, there, path, "cpu", dtype, (), Picked(None), Memory(), threads)


def test_a_worker_says_what_the_driver_would_have_seen(vit: ar.LoadedModel) -> None:
    chunk = [(batch, []) for batch in images(3)]
    watcher, gathered = Watcher(vit.model), Gathered()
    for batch, held in chunk:
        gathered.add(piece_of(watcher, batch, held, Picked(None), gathered.order))
    digest = ar.profile(vit, images(1), cut_inputs=0).digest
    source = source_of(digest, str(vit.folder))
    answer = measure(source, chunk, [])
    assert isinstance(answer, Answer)
    assert differences(answer.piece(), gathered.piece()) == []
    assert answer.memory == watcher.memory()


@pytest.mark.parametrize(
    ("digest", "path"), [("of others", "vit"), (None, "nowhere"), (None, None)]
)
def test_a_worker_that_does_not_find_the_same_weights_asks_for_them(
    vit: ar.LoadedModel, tmp_path: Path, digest: str | None, path: str | None
) -> None:
    where = None if path is None else str(tmp_path / path)
    assert measure(source_of(digest, where), [], []) == NO_MODEL


def test_a_worker_does_not_take_the_same_weights_in_another_number_format(
    vit: ar.LoadedModel,
) -> None:
    digest = weights_digest(vit.model)
    assert weights_digest(vit.model.double()) == digest
    other = source_of(digest, str(vit.folder), formats_of(vit.model))
    assert measure(other, [], []) == NO_MODEL


def test_a_worker_opens_the_model_in_the_number_format_of_the_run(vit: ar.LoadedModel) -> None:
    digest = weights_digest(vit.model)
    half = vit.model.to(torch.bfloat16)
    rounded = weights_digest(half)
    assert rounded != digest
    narrow = source_of(rounded, str(vit.folder), formats_of(half), "bfloat16")
    assert isinstance(measure(narrow, [], []), Answer)


@pytest.mark.parametrize(
    ("cpus", "workers", "threads"),
    [
        ([8], None, 8),  # one worker on one machine
        ([8, 8, 8], None, 8),
        ([16, 4], None, 4),  # four of them on the larger machine
        ([0, 8], None, 8),  # a head node that does no work
        ([], None, 1),
        ([8], 2, 4),
        ([8], 3, 2),
        ([6, 2], 2, 3),  # four threads would leave room for one worker
        ([4, 4], 1, 4),  # one worker is on one machine
        ([2, 2], 9, 1),
    ],
)
def test_workers_share_the_cores(cpus: list[int], workers: int | None, threads: int) -> None:
    assert threads_of(cpus, workers) == threads


def test_layers_are_numbered_in_the_order_of_the_batches_wherever_they_ran() -> None:
    (layer,) = ar.profile(Other(), torch.rand(2, 5, 2), cut_inputs=0).layers
    # a worker that first meets d calls it number 2, as another one does with c
    pieces = [
        Piece(1, ("a", "b"), (replace(layer, name="b", number=1),)),
        Piece(1, ("a", "b", "d"), (replace(layer, name="d", number=2),)),
        Piece(1, ("a", "b", "c"), (replace(layer, name="c", number=2),)),
    ]
    gathered = Gathered()
    for piece in pieces:
        gathered.add(piece)
    found = gathered.piece()
    assert (found.batches, found.order) == (3, ("a", "b", "d", "c"))
    assert [(layer.number, layer.name) for layer in found.layers] == [(1, "b"), (2, "d"), (3, "c")]


def test_adapters_of_the_users_own_are_known_apart() -> None:
    class Mine:
        family = "mine"

        def sites(self, model: nn.Module) -> list[Any]:
            return []

        def watch(self, *_: Any) -> Any:
            raise AssertionError

    mine = Mine()
    assert registered() == []
    register(mine)
    try:
        assert registered() == [mine]
    finally:
        unregister(mine)


@needs_ray
def test_a_cluster_that_is_not_there_is_an_error_before_the_model_runs() -> None:
    model = Other()
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    with pytest.raises(WorkerError, match=r"127\.0\.0\.1:1"):
        ar.profile(model, torch.rand(2, 5, 2), engine="ray://127.0.0.1:1")


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'ray"):
        ar.profile(Other(), torch.rand(2, 5, 2), engine="ray")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"engine": "rai"}, "engine is not known: got 'rai'. Did you mean 'ray'"),
        ({"engine": 5}, "engine is not known: got 5"),
        ({"engine": "ray", "workers": 0}, "workers must be a whole number of at least 1"),
        ({"workers": 2}, "workers is for the engine ray.*Leave out workers"),
    ],
)
def test_wrong_requests(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ar.profile(Other(), torch.rand(2, 5, 2), **asked)
