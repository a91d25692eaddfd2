"""A profile that is saved and opened again is the same, bit for bit; anything else is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from same_bits import differences

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.cut import Cut
from attnrate.spectra.estimate import Gram
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.saved import DATA
from attnrate.spectra.watching.unseen import Unseen

ODD = np.array([0.0, -0.0, 5e-324, 1e308, -1e-30, 1 / 3])


def numbers(seed: int, *shape: int, kind: type = np.float64) -> np.ndarray:
    """Numbers of that shape; some are zeros with a sign, subnormal or nearly too large."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape)
    some = rng.random(shape) < 0.2
    made[some] = rng.choice(ODD[:3] if kind is np.float32 else ODD, some.sum())
    return made.astype(kind)


SIZE = st.integers(1, 3)
TEXT = st.text(max_size=8)
# plain values: what is made of them is checked by beartype, which draws random numbers
LAYERS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**30),
        "sizes": st.tuples(SIZE, SIZE, SIZE, SIZE),
        "name": TEXT,
        "kind": st.sampled_from(["self", "cross"]),
        "m_v": st.integers(1, 9),
        "rotary": st.booleans(),
        "causal": st.booleans(),
        "run": SIZE,
        "scale": st.floats(allow_nan=False, allow_infinity=False),
        "stages": st.sampled_from([("logits",), ("logits", "plain")]),
        "held_out": st.booleans(),
        "cuts": st.sampled_from([(), (0.99,), (0.99, 0.999)]),
        "bias": st.sampled_from(["none", "own", "shared"]),
    }
)
PROFILES = st.fixed_dictionaries(
    {
        "model": TEXT,
        "family": TEXT,
        "gauge": st.sampled_from(["softmax", "none"]),
        "layers": st.lists(LAYERS, min_size=1, max_size=3),
        "made_by": st.dictionaries(TEXT, TEXT | st.booleans() | st.none(), max_size=3),
        "unseen": st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=2),
        "digest": st.none() | TEXT,
    }
)


def layer_of(number: int, drawn: dict[str, Any], shared: np.ndarray) -> LayerSpectra:
    seed, stages = drawn["seed"], drawn["stages"]
    groups, each, m_h, inputs = drawn["sizes"]
    heads = groups * each

    def gram(count: int, more: int) -> Gram:
        parts = (count, m_h, m_h), (count, m_h), (count,)
        spread, mean, vectors = (numbers(seed + more, *part) for part in parts)
        return Gram(*map(torch.from_numpy, (spread, mean, np.abs(vectors))))

    def cut(more: int) -> Cut:
        rank = np.broadcast_to(np.arange(heads), (inputs, heads))
        return Cut(rank, *(numbers(seed + more + each, inputs, heads) for each in range(3)))

    own = numbers(seed, heads, 2, 3, kind=np.float32)
    return LayerSpectra(
        number=3 * number,
        name=f"{number}{drawn['name']}",
        heads=heads,
        groups=groups,
        m_h=m_h,
        tokens=np.arange(1, inputs + 1),
        sigma={
            (stage, gauge): numbers(seed + place, inputs, heads, m_h, kind=np.float32)
            for place, stage in enumerate(stages)
            for gauge in ("softmax", "none")
        },
        moments={stage: (gram(heads, 1), gram(groups, 2)) for stage in stages},
        query=gram(heads, 3 if drawn["held_out"] else 1),
        key=gram(groups, 4 if drawn["held_out"] else 2),
        cuts={share: cut(5) for share in drawn["cuts"]},
        bias={"none": None, "own": own, "shared": shared[:heads]}[drawn["bias"]],
        **{name: drawn[name] for name in ("kind", "m_v", "rotary", "causal", "run", "scale")},
    )


def profile_of(drawn: dict[str, Any]) -> ar.Profile:
    shared = numbers(7, 9, 4, 4, kind=np.float32)
    made = {
        "layers": tuple(layer_of(n, each, shared) for n, each in enumerate(drawn["layers"])),
        "unseen": tuple(Unseen(*each) for each in drawn["unseen"]),
    }
    return ar.Profile(**drawn | made)


@given(drawn=PROFILES)
@settings(max_examples=40)
def test_every_field_comes_back_bit_for_bit(
    drawn: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = profile_of(drawn)
    folder = tmp_path_factory.mktemp("saved")
    assert found.save(folder, page=False) == folder / DATA
    assert differences(ar.load_profile(folder), found) == []


@pytest.fixture(scope="module")
def found() -> ar.Profile:
    torch.manual_seed(0)
    model = ar.Transformer(2, 1, n=10, m_h=4, m_v=3, heads=2, layers=2)
    return ar.profile(model, torch.rand(6, 9, 2), name="small", cut_inputs=2)


@pytest.fixture
def folder(found: ar.Profile, tmp_path: Path) -> Path:
    found.save(tmp_path / "saved", page=False)
    return tmp_path / "saved"


def test_an_opened_profile_gives_the_same_table_and_advice(found: ar.Profile, folder: Path) -> None:
    again = ar.load_profile(folder)
    assert differences(again, found) == []
    assert again.to_frame().equals(found.to_frame())
    assert str(ar.advise(again)) == str(ar.advise(found))


def test_a_bias_that_layers_share_is_kept_once(found: ar.Profile, tmp_path: Path) -> None:
    bias = np.random.default_rng(0).random((2, 50, 50))
    many = tuple(
        replace(found.layers[0], number=number, name=str(number), bias=bias.copy())
        for number in range(12)
    )
    path = replace(found, layers=many).save(tmp_path / "saved", page=False)
    assert path.stat().st_size < 2 * bias.nbytes
    layers = ar.load_profile(tmp_path / "saved").layers
    assert layers[0].bias is layers[11].bias


def test_a_saved_profile_replaces_an_earlier_one(found: ar.Profile, folder: Path) -> None:
    replace(found, model="another").save(folder, page=False)
    assert ar.load_profile(folder).model == "another"


def test_a_page_is_opened_too_and_not_left_with_the_numbers_of_another(
    found: ar.Profile, tmp_path: Path
) -> None:
    found.save(tmp_path / "page")
    assert differences(ar.load_profile(tmp_path / "page"), found) == []
    with pytest.raises(InputError, match="has the page of an earlier profile"):
        replace(found, model="another").save(tmp_path / "page", page=False)
    assert ar.load_profile(tmp_path / "page").model == "small"


def test_a_folder_of_something_else_is_not_written_to(found: ar.Profile, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="was not made by attnrate profile"):
        found.save(tmp_path, page=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_no_folder_of_a_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "profile.json").write_text("{}")
    for path, words in {
        "": "a profile is opened from a folder: got ''",
        tmp_path / "nowhere": "there is no such folder",
        tmp_path: "has no moments.safetensors.*Pass a folder that Profile.save",
        tmp_path / "file": "this is a file.*Pass the folder",
        tmp_path / "old": "attnrate 0.1.0, which kept no moments.*Profile the model again",
        "a\0b": "no such folder|cannot be opened",
        5: "a profile is opened from a folder: got 5",
    }.items():
        with pytest.raises(InputError, match=words):
            ar.load_profile(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_truncated_file_is_refused(folder: Path, kept: int) -> None:
    whole = (folder / DATA).read_bytes()
    (folder / DATA).write_bytes(whole[:kept])
    with pytest.raises(InputError, match=r"moments\.safetensors is truncated or damaged"):
        ar.load_profile(folder)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / DATA).rename(tmp_path / "elsewhere.safetensors")
    (folder / DATA).symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(InputError, match="leads out of its folder"):
        ar.load_profile(folder)


def test_weights_of_a_model_are_no_profile(tmp_path: Path) -> None:
    save_file({"weight": np.ones(3)}, tmp_path / DATA)
    with pytest.raises(InputError, match="holds no profile of attnrate"):
        ar.load_profile(tmp_path)


def rewritten(folder: Path, change: Any) -> None:
    """Change the arrays and facts of a saved profile."""
    from safetensors import safe_open

    arrays = load_file(folder / DATA)
    with safe_open(folder / DATA, framework="np") as file:
        facts = json.loads(file.metadata()["attnrate"])
    changed = change(arrays, facts)
    said = changed if isinstance(changed, list) else facts
    save_file(arrays, folder / DATA, {"attnrate": json.dumps(said)})


LIES: dict[str, Any] = {
    "another format": lambda a, f: f.update(format=2),
    "no model": lambda a, f: f.pop("model"),
    "gauge": lambda a, f: f.update(gauge="sum"),
    "digest": lambda a, f: f.update(digest=5),
    "no layers": lambda a, f: f.update(layers=[]),
    "layers are no list": lambda a, f: f.update(layers={"0": {}}),
    "a layer is no table": lambda a, f: f["layers"].append(3),
    "two of a name": lambda a, f: f["layers"][1].update(name=f["layers"][0]["name"]),
    "two of a number": lambda a, f: f["layers"][1].update(number=0),
    "heads beyond memory": lambda a, f: f["layers"][0].update(heads=2**62, groups=1),
    "heads that are no number": lambda a, f: f["layers"][0].update(heads=True),
    "heads that share no keys": lambda a, f: f["layers"][0].update(groups=3),
    "a negative number": lambda a, f: f["layers"][0].update(number=-1),
    "a scale that is infinite": lambda a, f: f["layers"][0].update(scale=float("inf")),
    "a name that is a number": lambda a, f: f["layers"][0].update(name=5),
    "stages": lambda a, f: f["layers"][0].update(moments=["logits", "logits"]),
    "no stages": lambda a, f: f["layers"][0].update(moments=[]),
    "spectra": lambda a, f: f["layers"][0].update(sigma=[]),
    "spectra of no stage": lambda a, f: f["layers"][0].update(sigma=[1, 2]),
    "shares": lambda a, f: f["layers"][0].update(cuts=[0.99, "x"]),
    "a share twice": lambda a, f: f["layers"][0].update(cuts=[0.99, 0.99]),
    "a missing cut": lambda a, f: f["layers"][0].update(cuts=[0.9, 0.99, 0.999]),
    "a missing bias": lambda a, f: f["layers"][0].update(bias=True),
    "unseen": lambda a, f: f.update(unseen=[["a", "b"]]),
    "made by": lambda a, f: f.update(made_by={"attnrate": [1]}),
    "same": lambda a, f: f.update(same={"0.key.mean": "nowhere"}),
    "same that is no name": lambda a, f: f.update(same={"0.key.mean": ["0.key.mean"]}),
    "an array is missing": lambda a, f: a.pop("0.tokens"),
    "an array of another type": lambda a, f: a.update({"0.tokens": np.ones(6)}),
    "moments of another type": lambda a, f: a.update(
        {"1.query.spread": a["1.query.spread"].astype(np.float32)}
    ),
    "an array of another shape": lambda a, f: a.update({"1.query.mean": np.ones((2, 5))}),
    "no inputs": lambda a, f: a.update({"0.tokens": np.ones(0, int)}),
    "not finite": lambda a, f: a["1.query.mean"].fill(np.nan),
    "a negative count": lambda a, f: a["0.query.count"].fill(-1.0),
    "not a table": lambda a, f: [1],
    "too deep": lambda a, f: json.loads("[" * 900 + "]" * 900),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_is_refused_in_words(folder: Path, lie: str) -> None:
    rewritten(folder, LIES[lie])
    with pytest.raises(InputError, match=r"no profile that attnrate has written|another format"):
        ar.load_profile(folder)


@pytest.mark.parametrize("facts", ["", "[" * 100_000, "5", "{"])
def test_facts_that_are_no_json_are_refused(folder: Path, facts: str) -> None:
    save_file(load_file(folder / DATA), folder / DATA, {"attnrate": facts})
    with pytest.raises(InputError, match=r"facts cannot be read"):
        ar.load_profile(folder)


def test_a_folder_may_be_moved_and_called_anything(folder: Path) -> None:
    moved = folder.rename(folder.with_name("moved to ünïcode"))
    assert ar.load_profile(moved).model == "small"
