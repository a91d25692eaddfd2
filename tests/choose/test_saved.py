"""An answer goes to disk and back: the same numbers bit for bit, and nothing damaged is opened."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_choices import frame, linear_choice, new_tokens, raced_choice, refused_choice
from made_samples import panel, series

from attnrate.choose.ladder import ladder
from attnrate.choose.outliers import Bounds
from attnrate.choose.page import write
from attnrate.choose.result import Choice
from attnrate.choose.rung_model import RungModel
from attnrate.choose.saved import load_choice
from attnrate.choose.using import tokens_of
from attnrate.errors import InputError, StoreError

FRESH = """
import sys
import numpy as np
from attnrate.choose.saved import load_choice
for folder in sys.argv[1:]:
    found = load_choice(folder + "/answer")
    np.save(folder + "/y.npy", found.predict(np.load(folder + "/x.npy")))
"""


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "save_figure", lambda figure, folder: None)


@pytest.fixture(scope="module")
def linear() -> Choice:
    return linear_choice()


@pytest.fixture(scope="module")
def raced() -> Choice:
    return raced_choice()


def test_what_was_saved_predicts_the_same_bits_in_a_fresh_process(
    linear: Choice, raced: Choice, tmp_path: Path
) -> None:
    places = [tmp_path / name for name in ("class", "transformer")]
    for place, choice in zip(places, (linear, raced), strict=True):
        choice.save(place / "answer")
        np.save(place / "x.npy", new_tokens(choice))
    subprocess.run([sys.executable, "-c", FRESH, *map(str, places)], check=True, timeout=120)
    for place, choice in zip(places, (linear, raced), strict=True):
        assert np.array_equal(np.load(place / "y.npy"), choice.predict(new_tokens(choice)))


def test_what_was_saved_says_the_same(linear: Choice, raced: Choice, tmp_path: Path) -> None:
    for number, choice in enumerate((linear, raced)):
        opened = load_choice(choice.save(tmp_path / str(number)).parent)
        assert str(opened) == str(choice)
        assert opened.about == choice.about
        assert (opened.verdict, opened.because) == (choice.verdict, choice.because)
        assert (opened.winner, opened.m_h) == (choice.winner, choice.m_h)
        assert choice.bounds is not None
        assert np.array_equal(opened.bounds.low, choice.bounds.low)
        assert np.array_equal(opened.bounds.high, choice.bounds.high)


def test_a_frame_is_predicted_from_as_by_the_answer_itself(linear: Choice, tmp_path: Path) -> None:
    opened = load_choice(linear.save(tmp_path / "answer").parent)
    new = frame(40, seed=3)
    assert np.array_equal(opened.predict(new), linear.predict(new))
    with pytest.raises(InputError, match="lacks columns"):
        opened.predict(new[["load"]])
    with pytest.raises(InputError, match=r"the shape \(N, 8, 1\)"):
        opened.predict(np.zeros((2, 7, 1)))


def test_an_answer_without_a_model_is_opened_and_predicts_nothing(tmp_path: Path) -> None:
    opened = load_choice(refused_choice().save(tmp_path / "answer").parent)
    assert opened.verdict == "cannot-tell"
    assert opened.model is None
    with pytest.raises(InputError, match="no model to predict by"):
        opened.predict(frame())


def test_a_model_of_an_earlier_answer_is_not_taken_for_that_of_a_later_one(
    linear: Choice, tmp_path: Path
) -> None:
    linear.save(tmp_path / "answer")
    refused_choice().save(tmp_path / "answer")
    assert load_choice(tmp_path / "answer").model is None


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), min_size=1, max_size=1
    )
)
def test_bounds_come_back_as_they_were(ends: list[tuple[float, float]]) -> None:
    low, high = (np.array(each) for each in zip(*ends, strict=True))
    choice = replace(CHOICE, bounds=Bounds(np.minimum(low, high), np.maximum(low, high)))
    assert choice.bounds is not None
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "save_figure", lambda figure, folder: None)
        opened = load_choice(choice.save(Path(folder) / "answer").parent)
    # an end of -inf below or inf above is no end; a bound of the other sign cannot be met
    for mine, other, none in (
        (opened.bounds.low, choice.bounds.low, -np.inf),
        (opened.bounds.high, choice.bounds.high, np.inf),
    ):
        assert np.array_equal(mine, np.where(np.isfinite(other), other, none))


CHOICE = linear_choice()


@pytest.mark.parametrize("samples", [series(horizon=2), panel()], ids=["series", "panel"])
def test_every_class_of_the_ladder_goes_to_a_file_and_back(samples, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    x = samples.tokens(np.arange(20))
    for number, (name, model) in enumerate(ladder(samples, progress=False).models.items()):
        opened = RungModel.load(model.save(tmp_path / f"{number}.safetensors"))
        assert np.array_equal(opened(x), model(x)), name
        assert (opened.length, opened.horizon, opened.whole) == (
            model.length,
            model.horizon,
            model.whole,
        )


def change(arrays: dict[str, np.ndarray], facts: dict[str, object], fault: str) -> None:
    if fault == "a part is missing":
        del arrays["theta"]
    elif fault == "known values are missing":
        del arrays["known.0"]
    elif fault == "other rows":
        arrays["theta"] = arrays["theta"][:-1]
    elif fault == "no numbers":
        arrays["theta"][0] = np.nan
    elif fault == "half as many bits":
        arrays["scale"] = arrays["scale"].astype(np.float32)
    elif fault == "a scale of zero":
        arrays["scale"][0] = 0.0
    elif fault == "columns that are not there":
        arrays["columns"][0] = 10**6
    elif fault == "columns before the first":
        arrays["columns"][0] = -1
    elif fault == "values out of order":
        arrays["known.0"] = arrays["known.0"][::-1].copy()
    elif fault == "no length":
        facts["length"] = 0
    elif fault == "a length in words":
        facts["length"] = "8"
    elif fault == "an odd horizon":
        facts["horizon"] = 3
    else:
        facts.clear()


FAULTS = [
    *("a part is missing", "known values are missing", "other rows", "no numbers"),
    *("half as many bits", "a scale of zero", "columns that are not there"),
    *("columns before the first", "values out of order", "no length", "a length in words"),
    *("an odd horizon", "no facts"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_of_the_ladder_that_was_changed_is_refused(fault: str, tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save

    model = ladder(series(horizon=2), progress=False).models["additive"]
    path = model.save(tmp_path / "model.safetensors")
    with safe_open(path, framework="np") as file:
        facts = json.loads(file.metadata()["attnrate"])
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    change(arrays, facts, fault)
    path.write_bytes(save(arrays, {"attnrate": json.dumps(facts)}))
    with pytest.raises(StoreError, match="no whole model"):
        RungModel.load(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_with_changed_bytes_is_refused_or_is_still_a_model(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, 600))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(bytes(content))
        try:
            opened = RungModel.load(path)
        except StoreError:
            return
        found = opened(np.zeros((1, opened.length, len(opened.known))))
        assert found.shape[0] == 1


def whole() -> bytes:
    assert isinstance(CHOICE.model, RungModel)
    with TemporaryDirectory() as folder:
        return CHOICE.model.save(Path(folder) / "model.safetensors").read_bytes()


WHOLE = whole()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("choose.json", None),
        ("choose.json", b""),
        ("choose.json", b"{}"),
        ("choose.json", b"\xff\xfe"),
        ("choose.json", b"[" * 100_000),
        ("model.safetensors", None),
        ("model.safetensors", b"no model"),
    ],
    ids=["none", "empty", "no fields", "no text", "deep", "no model", "text for a model"],
)
def test_a_damaged_folder_is_refused(
    linear: Choice, tmp_path: Path, name: str, content: bytes | None
) -> None:
    place = linear.save(tmp_path / "answer").parent
    (place / name).unlink() if content is None else (place / name).write_bytes(content)
    with pytest.raises(StoreError, match="no whole"):
        load_choice(place)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("verdict", "yes"),
        ("because", "a"),
        ("m_h", "two"),
        ("model", "pickle"),
        ("bounds", {"low": [], "high": []}),
        ("about", None),
    ],
    ids=str,
)
def test_an_answer_that_was_changed_is_refused(
    linear: Choice, tmp_path: Path, field: str, value: object
) -> None:
    place = linear.save(tmp_path / "answer").parent
    kept = json.loads((place / "choose.json").read_text(encoding="utf-8"))
    kept[field] = value
    (place / "choose.json").write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(StoreError, match="no whole answer"):
        load_choice(place)


def test_a_model_of_another_answer_is_refused(
    linear: Choice, raced: Choice, tmp_path: Path
) -> None:
    place, other = (
        each.save(tmp_path / name).parent for each, name in ((linear, "a"), (raced, "b"))
    )
    (place / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(StoreError, match="no whole model"):
        load_choice(place)
    longer = replace(raced, about=replace(raced.about, window=7))
    with pytest.raises(StoreError, match="another answer"):
        load_choice(longer.save(tmp_path / "c").parent)


def test_folders_of_others_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_choice(tmp_path / "nowhere")
    (tmp_path / "a.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="a file, not a folder"):
        load_choice(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"Choice\.save or attnrate choose"):
        load_choice(tmp_path)
    for wrong in (7, None, ""):
        with pytest.raises(InputError, match="opened from a folder"):
            load_choice(wrong)  # type: ignore[arg-type]


def test_new_data_that_are_no_tokens_are_refused_with_what_is_read() -> None:
    def refuse(x: object, said: str) -> None:
        with pytest.raises(InputError, match=said):
            tokens_of(x, 2, ("a", "b"))  # type: ignore[arg-type]

    refuse(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), "must be numbers.*reads a, b")
    refuse(pd.DataFrame({"a": [1.0], "b": [1.0]}), "2 rows of a window")
    refuse([["x"]], "must be numbers")
    refuse([[1.0], [1.0, 2.0]], "must be numbers")
    refuse(np.zeros((0, 2, 2)), "no samples")
    refuse(np.full((1, 2, 2), np.nan), "4 values that are missing")
    grown = torch.ones(1, 2, 2, requires_grad=True)
    assert tokens_of(grown, 2, ("a", "b")).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]
