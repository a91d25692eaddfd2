"""A profile that was interrupted goes on where it was, and ends with the same bits."""

import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import differences
from torch import nn
from warm_commands import program

import attnrate as ar
from attnrate.errors import AccuracyWarning, InputError, StoreError
from attnrate.files import alone
from attnrate.spectra import resume
from attnrate.spectra.layer import Collected

Batch = torch.Tensor
BATCHES = 6


def model(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ar.Transformer(2, 1, n=10, m_h=4, m_v=3, heads=2, layers=2)


def inputs(count: int = BATCHES, seed: int = 3) -> list[Batch]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(3, 9, 2, generator=generator) for _ in range(count)]


class Stopped(KeyboardInterrupt):
    """An interruption of the test's own."""


def until(given: Iterable[Batch], number: int) -> Iterator[Batch]:
    """Some batches, and an interruption before the one of that number is looked at."""
    for place, batch in enumerate(given):
        if place == number:
            raise Stopped
        yield batch


def interrupted(folder: Path, **asked: Any) -> None:
    """Begin a profile and stop it: the fifth batch is asked for while the fourth is at work."""
    with pytest.raises(Stopped):
        ar.profile(model(), until(inputs(), 4), resume=folder, **{"cut_inputs": 4, **asked})


def runs(of: nn.Module) -> list[int]:
    """The sizes of the batches on which a model is run from now on."""
    found: list[int] = []
    of.register_forward_pre_hook(lambda _part, args: found.append(len(args[0])))
    return found


@pytest.fixture(scope="module")
def whole() -> ar.Profile:
    return ar.profile(model(), inputs(), cut_inputs=4)


CHILD = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
import torch
import attnrate as ar
from attnrate.spectra import resume
import test_resume
torch.set_num_threads(int(sys.argv[3]))
resume.EVERY = resume.RARELY = 0.0
def given():
    for number, batch in enumerate(test_resume.inputs()):
        if number == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch
ar.profile(test_resume.model(), given(), resume=sys.argv[2], cut_inputs=4)
"""


def test_after_a_kill_finished_batches_are_not_run_again(tmp_path: Path, whole: ar.Profile) -> None:
    folder = tmp_path / "state"
    here = Path(__file__).parent
    paths = ":".join([str(here), str(here.parent / "tools"), *sys.path])
    words = [paths, str(folder), str(torch.get_num_threads())]
    (tmp_path / "child.py").write_text(CHILD)
    done = program(tmp_path / "child.py", *words)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (folder / "state.safetensors").exists()
    again = model()
    ran = runs(again)
    found = ar.profile(again, inputs(), resume=folder, cut_inputs=4)
    # three batches were finished; cuts are measured on three inputs of the first batch and one
    # of the second
    assert ran == [3, 3, 3, 3, 1]
    assert differences(found, whole) == []
    assert not folder.exists()


def test_an_interruption_keeps_what_is_finished(tmp_path: Path, whole: ar.Profile) -> None:
    folder = tmp_path / "deep" / "state"
    interrupted(folder)
    again = model()
    ran = runs(again)
    assert differences(ar.profile(again, inputs(), resume=folder, cut_inputs=4), whole) == []
    assert len(ran) == 3 + 2
    assert [*folder.parent.iterdir()] == []


def test_a_run_may_be_interrupted_many_times(tmp_path: Path, whole: ar.Profile) -> None:
    for number in (1, 2, 3, 5):
        with pytest.raises(Stopped):
            ar.profile(model(), until(inputs(), number), resume=tmp_path / "s", cut_inputs=4)
    assert (
        differences(ar.profile(model(), inputs(), resume=tmp_path / "s", cut_inputs=4), whole) == []
    )


def test_what_is_interrupted_while_cuts_are_measured_has_all_spectra(
    tmp_path: Path, whole: ar.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr("attnrate.spectra.profile.losses", stop)
        with pytest.raises(Stopped):
            ar.profile(model(), inputs(), resume=tmp_path / "s", cut_inputs=4)
    again = model()
    ran = runs(again)
    assert (
        differences(ar.profile(again, inputs(), resume=tmp_path / "s", cut_inputs=4), whole) == []
    )
    assert ran == [3, 1]


def test_a_piece_that_was_half_added_is_not_kept(
    tmp_path: Path, whole: ar.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def stop(self: Collected, piece: ar.LayerSpectra) -> None:
        calls.append(piece)
        if len(calls) == 4:  # the second layer of the third batch
            raise Stopped
        add(self, piece)

    add = Collected.add
    monkeypatch.setattr(resume, "EVERY", 0.0)
    monkeypatch.setattr(resume, "RARELY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Collected, "add", stop)
        with pytest.raises(Stopped):
            ar.profile(model(), inputs(), resume=tmp_path / "s", cut_inputs=4)
    again = model()
    ran = runs(again)
    assert (
        differences(ar.profile(again, inputs(), resume=tmp_path / "s", cut_inputs=4), whole) == []
    )
    assert len(ran) == 4 + 2


def test_the_state_is_written_every_few_seconds_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(resume.time, "monotonic", lambda: now[0])
    state = tmp_path / "s" / "state.safetensors"
    seen = []

    def given() -> Iterator[Batch]:
        for batch in inputs():
            seen.append(state.stat().st_mtime_ns if state.exists() else None)
            now[0] += 6.0
            yield batch

    ar.profile(model(), given(), resume=tmp_path / "s", cut_inputs=0)
    # the n-th batch is added 6 (n + 1) seconds after the start, when the next one was looked at
    written = [one != other for one, other in zip([None, *seen], seen, strict=False)]
    assert written == [False, False, True, False, True, False]


class Two(nn.Module):
    """Attends in the text always, in pictures unless they are black; these come first."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(4, 2, batch_first=True)
        self.read = nn.MultiheadAttention(4, 2, batch_first=True)
        self.linear_attention = LinearAttention()

    def forward(self, text: Batch, pixels: Batch) -> Batch:
        if bool(pixels.any()):
            seen = self.linear_attention(pixels)
            text = text + self.look(seen, seen, seen)[0].mean(1, keepdim=True)
        result: Batch = self.read(text, text, text)[0]
        return result


class LinearAttention(nn.Module):
    """Attention without softmax."""

    def forward(self, x: Batch) -> Batch:
        return x @ (x.mT @ x)


def test_layers_that_run_on_some_batches_alone_keep_their_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    both = Two()
    text, pixels = torch.randn(3, 5, 4), torch.randn(3, 7, 4)
    black = torch.zeros_like(pixels)
    given = [
        {"text": text, "pixels": black},
        {"text": 2 * text, "pixels": pixels},
        {"text": 3 * text, "pixels": black},
    ] * 2

    def stopped() -> Iterator[dict[str, Batch]]:
        yield from given[:4]
        raise Stopped

    with pytest.warns(AccuracyWarning, match="linear_attention"):
        whole = ar.profile(both, given, cut_inputs=2)
    with pytest.raises(Stopped):
        ar.profile(both, stopped(), cut_inputs=2, resume=tmp_path / "s")
    with pytest.warns(AccuracyWarning, match="linear_attention"):
        found = ar.profile(both, given, cut_inputs=2, resume=tmp_path / "s")
    assert [(layer.number, layer.name) for layer in found.layers] == [(0, "read"), (1, "look")]
    assert "multiplies without softmax" in found.unseen[0].why
    assert differences(found, whole) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": inputs(seed=4)}, "inputs differ.*first in batch 1, counted from 1"),
        ({"inputs": [*inputs(2), *inputs(seed=4)]}, "first in batch 3"),
        ({"inputs": inputs(2)}, "first in batch 2"),  # of which none would be held out
        ({"inputs": [each.double() for each in inputs()]}, "first in batch 1"),
        ({"model": model(1)}, "interrupted run in this folder was of a model with other weights"),
        ({"model": nn.Sequential(model())}, "a model of another class: got 'Transformer'"),
        ({"model": model().double()}, r"another number format.*got \['torch.float32 cpu'\]"),
        ({"layers": [0]}, "was of other layers: got 'all'"),
        ({"cut_inputs": 0}, r"another number of inputs for cuts \(cut_inputs\): got 4"),
    ],
)
def test_another_run_is_not_mixed_in(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    folder = tmp_path / "state"
    interrupted(folder)
    asked = {"model": model(), "inputs": inputs(), "cut_inputs": 4, **change}
    with pytest.raises(InputError, match=words):
        ar.profile(**asked, resume=folder)
    found = ar.profile(model(), inputs(), resume=folder, cut_inputs=4)  # nothing was spoilt
    assert len(found.tokens) == 3 * BATCHES


def test_inputs_that_end_too_early_are_refused(tmp_path: Path) -> None:
    interrupted(tmp_path / "s", cut_inputs=0)
    with pytest.raises(
        InputError, match=r"end earlier.*3 batches are finished; batches now: got 2"
    ):
        ar.profile(model(), inputs(2), resume=tmp_path / "s", cut_inputs=0)


def test_a_wrong_request_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="layers must be"):
        ar.profile(model(), inputs(), layers=[9], resume=tmp_path / "s")
    assert [*tmp_path.iterdir()] == []


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    of_a_page = tmp_path / "page"
    ar.profile(model(), inputs()).save(of_a_page, page=False)
    for folder in (tmp_path, of_a_page):
        before = sorted(folder.iterdir())
        with pytest.raises(InputError, match="was not made by attnrate profile --resume"):
            ar.profile(model(), inputs(), resume=folder)
        assert sorted(folder.iterdir()) == before
    with pytest.raises(InputError, match="this is a file"):
        ar.profile(model(), inputs(), resume=tmp_path / "mine.txt")
    with pytest.raises(InputError, match="resume must be the path of a folder: got 5"):
        ar.profile(model(), inputs(), resume=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: whole[:-7],
        lambda whole: whole.replace(b'\\"count\\": 3', b'\\"count\\": 2'),
        lambda whole: whole.replace(b'\\"order\\": [', b'\\"other\\": ['),
        lambda whole: whole.replace(b'\\"memory\\": {', b'\\"mellow\\": {'),
        lambda whole: whole.replace(b'\\"request\\":', b'\\"requesu\\":'),
        lambda whole: whole.replace(b'"batches":', b'"butches":'),
        lambda whole: whole.replace(b'\\"kind\\": \\"state', b'\\"kind\\": \\"stave'),
    ],
)
def test_a_state_that_is_damaged_is_refused(tmp_path: Path, spoil: Any) -> None:
    folder = tmp_path / "state"
    interrupted(folder)
    file = folder / "state.safetensors"
    before = file.read_bytes()
    file.write_bytes(spoil(before))
    assert file.read_bytes() != before
    with pytest.raises(InputError, match=r"state\.safetensors is (not what|truncated)"):
        ar.profile(model(), inputs(), resume=folder, cut_inputs=4)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    interrupted(folder)
    with (
        alone(folder / "state.lock", wait=False),
        pytest.raises(StoreError, match="another process is at work here"),
    ):
        ar.profile(model(), inputs(), resume=folder, cut_inputs=4)


def test_a_model_whose_weights_are_not_in_memory_is_known_by_its_class(
    tmp_path: Path, whole: ar.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnrate.spectra.profile.weights_digest", lambda _: None)
    interrupted(tmp_path / "s")
    found = ar.profile(model(), inputs(), resume=tmp_path / "s", cut_inputs=4)
    assert differences(found, replace(whole, digest=None)) == []
