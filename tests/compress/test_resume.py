"""A compression that was killed goes on where it was, and ends with the same bits."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from safetensors.torch import load_file, save_file
from same_bits import differences
from small_models import small
from torch import nn
from warm_commands import program

import attnrate as ar
from attnrate.compress import resume, rotary_run, run
from attnrate.compress.resume import Repairs, forget
from attnrate.errors import InputError, StoreError
from attnrate.files import alone
from attnrate.progress import Progress

Asked = dict[str, Any]
MARK = "attnrate.json"


def asked_for(kind: str) -> Asked:
    """A model of content or rotary heads, inputs, and what is asked for."""
    if kind == "rotary":
        model: nn.Module = tiny_llama(torch.float32)
        return {"model": model, "inputs": {"input_ids": tokens(10, 20)}, "size": 8, "repair": 6}
    one = small("bert")
    inputs = {key: torch.cat([value] * 4) for key, value in one.batch.items()}
    return {"model": one.model, "inputs": inputs, "size": 3, "repair": 6, "together": 8}


def compressed(asked: Asked, folder: Path | None = None, **changes: Any) -> ar.Compressed:
    return ar.compress(**{"timing": 0, "resume": folder, **asked, **changes})


def unlike(one: ar.Compressed, other: ar.Compressed) -> list[str]:
    """Where two results differ in any bit."""
    found = differences(dict(one.model.state_dict()), dict(other.model.state_dict()))
    for name in ("layers", "change_cut", "change", "measured", "outputs"):
        found += differences(getattr(one, name), getattr(other, name), name)
    return found


class Stopped(KeyboardInterrupt):
    """An interruption of the test's own."""


def stopping(text: str, stop: Callable[[], None]) -> Callable[..., None]:
    """What `Progress.at` is in a run that ends when a text would be shown."""
    at = Progress.at

    def shown(self: Progress, said: Any, share: float | None = None) -> None:
        if isinstance(said, str) and said.startswith(text):
            stop()
        at(self, said, share)

    return shown


def interrupted(folder: Path, asked: Asked, text: str = "repair: layer 2 of 2, step 3") -> None:
    """Begin a compression, and stop it when that text would be shown."""

    def stop() -> None:
        raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "at", stopping(text, stop))
        with pytest.raises(Stopped):
            compressed(asked, folder)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.safetensors"))


@pytest.fixture(scope="module")
def whole() -> dict[str, ar.Compressed]:
    return {kind: compressed(asked_for(kind)) for kind in ("content", "rotary")}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are shown from now on."""
    found: list[str] = []
    at = Progress.at

    def shown(self: Progress, text: Any, share: float | None = None) -> None:
        found.append(text)
        at(self, text, share)

    monkeypatch.setattr(Progress, "at", shown)
    return found


CHILD = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
import torch
import test_resume
from attnrate.progress import Progress
folder, kind, text, threads = sys.argv[2:]
torch.set_num_threads(int(threads))
Progress.at = test_resume.stopping(text, lambda: os.kill(os.getpid(), signal.SIGKILL))
test_resume.compressed(test_resume.asked_for(kind), folder)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text", "finished", "goes_on"),
    [
        ("content", "repair: layer 2 of 2, step 3", 1, "repair: layer 2 of 2, step 1 of 6"),
        ("rotary", "repair: layer 2 of 2, step 5", 1, "repair: layer 2 of 2, step 1 of 6"),
        ("content", "all layers together: step 6", 3, "all layers together: step 5 of 8"),
    ],
)
def test_after_a_kill_what_is_finished_is_not_done_again_and_all_bits_are_the_same(
    kind: str,
    text: str,
    finished: int,
    goes_on: str,
    tmp_path: Path,
    whole: dict[str, ar.Compressed],
    said: list[str],
) -> None:
    folder = tmp_path / "state"
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent / "tools"), *sys.path])
    words = [paths, str(folder), kind, text, str(torch.get_num_threads())]
    (tmp_path / "child.py").write_text(CHILD)
    done = program(tmp_path / "child.py", *words, models=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(files(folder)) == finished
    found = compressed(asked_for(kind), folder)
    steps = [one for one in said if one.startswith(("repair: layer", "all layers"))]
    assert steps[0] == goes_on
    assert unlike(found, whole[kind]) == []


@pytest.mark.parametrize("kind", ["content", "rotary"])
def test_a_finished_run_repairs_nothing_again(
    kind: str, tmp_path: Path, whole: dict[str, ar.Compressed], said: list[str]
) -> None:
    asked, folder = asked_for(kind), tmp_path / "deep" / "state"
    assert unlike(compressed(asked, folder), whole[kind]) == []
    together = ["together-8.safetensors"] if kind == "content" else []
    layers = [f"layer-{layer.name}.safetensors" for layer in whole[kind].layers]
    assert files(folder) == sorted([*layers, *together])
    said.clear()
    assert unlike(compressed(asked, folder), whole[kind]) == []
    assert not [one for one in said if ", step " in one]
    forget(folder)
    assert [*folder.parent.iterdir()] == []


def test_layers_in_the_middle_may_be_missing_and_some_layers_are_kept_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(run, "_AT_ONCE", 1)
    monkeypatch.setattr(rotary_run, "_AT_ONCE", 1)
    model = tiny_llama(torch.float32, num_hidden_layers=4)
    for asked in ({**asked_for("rotary"), "model": model}, asked_for("content")):
        one = compressed(asked, tmp_path / "state")
        lost = [files(tmp_path / "state")[place] for place in (0, 2) if place < len(one.layers)]
        for name in lost:
            (tmp_path / "state" / name).unlink()
        said.clear()
        assert unlike(compressed(asked, tmp_path / "state"), one) == []
        begun = [text for text in said if text.endswith(", step 1 of 6")]
        count = len(one.layers)
        numbers = range(count - len(lost) + 1, count + 1)
        assert begun == [f"repair: layer {n} of {count}, step 1 of 6" for n in numbers]
        forget(tmp_path / "state")


def test_what_has_no_part_in_a_repair_may_change(tmp_path: Path, said: list[str]) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    said.clear()
    changes = {"values": True, "together": 2, "metric": lambda _model: 1.0}
    found = compressed(asked, folder, **changes)
    assert "repair: layer 1 of 2, step 1 of 6" not in said
    assert unlike(found, compressed(asked, **changes)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 4}, "was of other sizes: got {'encoder.layer.0.attention.self': 3, "),
        ({"sizes": [3, 4]}, r"of other sizes: got {'encoder.layer.1.attention.self': 3}\. Repeat"),
        ({"repair": 5}, r"another number of steps for each layer \(repair\): got 6"),
        ({"seed": 1}, "another seed: got 0"),
        ({"shared": "layer"}, r"other pairs in common \(shared\): got 'head'"),
        ({"model": "weights"}, "a model with other weights: got '"),
        ({"model": "class"}, "a model of another class: got 'BertModel'"),
        ({"model": "format"}, r"another number format .*got \['torch.float32 cpu'\]"),
        ({"inputs": "others"}, "other inputs: got '"),
    ],
)
def test_the_folder_of_another_run_is_refused_with_what_differs(
    change: Asked, words: str, tmp_path: Path, whole: dict[str, ar.Compressed]
) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    model = small("bert").model
    if change.get("model") == "weights":
        nn.init.ones_(model.encoder.layer[1].output.dense.bias)
    ways = {"weights": model, "class": small("mpnet").model, "format": model.double()}
    others = {key: value.flip(0) for key, value in asked["inputs"].items()}
    change = {key: ways.get(str(value), value) for key, value in change.items()}
    if "inputs" in change:
        change["inputs"] = others
    if "sizes" in change:
        change["size"] = None
    before = files(folder)
    with pytest.raises(InputError, match=words):
        compressed(asked, folder, **change)
    assert files(folder) == before
    assert unlike(compressed(asked, folder), whole["content"]) == []  # nothing was spoilt


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    monkeypatch.setattr(
        resume, "provenance", lambda: {"attnrate": "9.9", "torch": torch.__version__}
    )
    with pytest.raises(InputError, match="was of another version of attnrate: got"):
        compressed(asked, folder)


def test_a_run_that_was_stopped_before_anything_was_finished_stands_in_nobodys_way(
    tmp_path: Path, whole: dict[str, ar.Compressed]
) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked, "repair: layer 1 of 2, step 2")
    assert [*tmp_path.iterdir()] == []
    # as a kill leaves it: a mark, a lock, and half a file
    folder.mkdir()
    mark = {"made_by": "attnrate compress --resume", "format": 1, "request": {"seed": 9}}
    (folder / MARK).write_text(json.dumps(mark))
    (folder / "state.lock").touch()
    (folder / ".layer-encoder.safetensors.x1y2").write_bytes(b"half a file")
    assert unlike(compressed(asked, folder), whole["content"]) == []
    assert not [*folder.glob(".*")]


def test_a_wrong_request_leaves_no_folder_behind(tmp_path: Path) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    with pytest.raises(InputError, match="have the size 8"):
        compressed(asked, folder, size=9)
    with pytest.raises(InputError, match=r"there is none for '.*Pass repair=200, or together=100"):
        compressed(asked, folder, repair=0, together=0)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    asked = asked_for("content")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="was not made by attnrate compress --resume"):
        compressed(asked, tmp_path)
    with pytest.raises(InputError, match="this is a file"):
        compressed(asked, tmp_path / "mine.txt")
    with pytest.raises(InputError, match="resume must be the path of a folder: got 5"):
        compressed(asked, resume=5)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def spoilt(kind: str, folder: Path) -> Path:
    """Spoil a file of a run."""
    path = folder / files(folder)[0]
    data = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(data[:-9])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "foreign":
        save_file({"X": torch.ones(3)}, path)
    elif kind == "renamed":
        path.write_bytes(data.replace(b'\\"name\\": \\"encoder', b'\\"name\\": \\"decoder'))
    elif kind == "added":
        path = folder / "model.safetensors"
        save_file({"X": torch.ones(3)}, path)
    elif kind == "mark":
        path = folder / MARK
        mark = json.loads(path.read_text())
        del mark["request"]["seed"]
        path.write_text(json.dumps(mark))
    elif kind == "sizes":
        path = folder / MARK
        path.write_text(json.dumps({**json.loads(path.read_text()), "sizes": None}))
    return path


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("truncated", r"layer-.*\.safetensors is truncated or damaged"),
        ("empty", r"layer-.*\.safetensors is truncated or damaged"),
        ("foreign", "it holds no repair of attnrate"),
        ("renamed", "it has the name of another file"),
        ("added", r"model.safetensors is not what a run with this request has left"),
        ("mark", "it does not say what was asked for"),
        ("sizes", "it does not say the sizes"),
    ],
)
def test_what_is_damaged_or_foreign_is_refused_by_name(
    kind: str, why: str, tmp_path: Path, whole: dict[str, ar.Compressed]
) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    path = spoilt(kind, folder)
    with pytest.raises(InputError, match=why) as raised:
        compressed(asked, folder)
    assert str(path) in str(raised.value)
    assert "Move it away" in str(raised.value)
    if path.name != MARK:
        path.unlink()
        assert unlike(compressed(asked, folder), whole["content"]) == []


def test_a_layer_of_another_run_and_tensors_of_another_shape_are_refused(tmp_path: Path) -> None:
    asked = asked_for("content")
    for name, seed in (("one", 0), ("two", 1)):
        interrupted(tmp_path / name, {**asked, "seed": seed})
    (name,) = files(tmp_path / "one")
    theirs = (tmp_path / "one" / name).read_bytes()
    (tmp_path / "two" / name).write_bytes(theirs)
    with pytest.raises(InputError, match="it is of another request"):
        compressed({**asked, "seed": 1}, tmp_path / "two")
    with Repairs(tmp_path / "three", {}) as kept:
        kept.begin({"a": 3})
        kept.keep("a", {"X": torch.ones(3)})
        assert torch.equal(kept.recall("a", {"X": torch.zeros(3)})["X"], torch.ones(3))
        for other in ({"X": torch.ones(4)}, {"X": torch.ones(3).double()}, {"Y": torch.ones(3)}):
            with pytest.raises(InputError, match="its tensors have other shapes"):
                kept.recall("a", other)


def test_tensors_of_the_same_content_do_not_share_memory(tmp_path: Path) -> None:
    both = {"X": torch.ones(3), "Y": torch.ones(3)}
    with Repairs(tmp_path / "state", {}) as kept:
        kept.begin({"a": 3})
        kept.keep("a", both)
        assert len(load_file(tmp_path / "state" / "layer-a.safetensors")) == 1
        found = kept.recall("a", both)
    assert found is not None
    found["X"] += 1
    assert found["Y"].tolist() == [1, 1, 1]


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    with alone(folder / "state.lock", wait=False):
        with pytest.raises(StoreError, match="another process is at work here"):
            compressed(asked, folder)
        forget(folder)
        assert len(files(folder)) == 1


def test_a_full_disk_is_said_and_what_is_finished_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, ar.Compressed]
) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    write = resume.write_packed

    def full(path: Path, *rest: Any) -> None:
        if "layer.1" in path.name:
            raise OSError(28, "No space left on device")
        write(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(resume, "write_packed", full)
        with pytest.raises(StoreError, match=r"could not be written \(No space left on device\)"):
            compressed(asked, folder)
    assert len(files(folder)) == 1
    assert unlike(compressed(asked, folder), whole["content"]) == []


def test_files_of_others_stay_when_a_run_is_forgotten(tmp_path: Path) -> None:
    asked, folder = asked_for("content"), tmp_path / "state"
    interrupted(folder, asked)
    (folder / "notes.txt").write_text("mine")
    forget(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
