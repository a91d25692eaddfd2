"""`attnrate profile --against`, `--adapter`, and what is refused before a model is opened."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import cast

import numpy as np
import pytest
import torch
from warm_commands import attnrate

from attnrate.cli.completing import MATCHES
from attnrate.errors import InputError
from attnrate.spectra import adapters
from attnrate.spectra.adapters import adapter_of
from attnrate.spectra.matching import MATCHES as KNOWN_MATCHES

transformers = pytest.importorskip("transformers")

ADAPTER = """
    from attnrate.spectra.adapters.hooks import projections, watch_outputs
    from attnrate.spectra.capture import Call, Site

    class Mine:
        family = "mine"

        def __init__(self, factor: float = 1.0):
            self.factor = factor

        def sites(self, model):
            parts = [p for p in model.modules() if type(p).__name__ == "BertSelfAttention"]
            return [Site(f"mine.{i}", part, 2, 2, 12) for i, part in enumerate(parts)]

        def watch(self, model, sites, see=None, edit=None):
            return watch_outputs(sites, see, edit, projections, self.call)

        def call(self, site, q, k, v, given):
            return Call(q, k, v, scale=self.factor * 12 ** -0.5)

    class Greedy(Mine):
        def __init__(self, needed):
            pass

    class Nothing:
        family = "nothing"

    number = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models base, tuned and other, inputs, and a module with an adapter."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("models")
    config = transformers.BertConfig(
        vocab_size=35, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.BertModel(config)
    for layer in model.encoder.layer:
        for part in (layer.attention.self.query, layer.attention.self.key):
            part.weight.data *= 20
    model.save_pretrained(place / "base")
    query = model.encoder.layer[1].attention.self.query
    query.weight.data[12:22] = 0  # ten of twelve dimensions of the last head
    query.bias.data[12:22] = 0
    model.save_pretrained(place / "tuned")
    small = transformers.DistilBertConfig(
        vocab_size=35, dim=24, n_layers=1, n_heads=2, hidden_dim=8, max_position_embeddings=32
    )
    transformers.DistilBertModel(small).save_pretrained(place / "other")
    drawn = np.random.default_rng(0).integers(0, 35, (8, 20))
    np.savez(place / "ids.npz", input_ids=drawn, attention_mask=np.ones_like(drawn))
    (place / "hers.py").write_text(dedent(ADAPTER), encoding="utf-8")
    return place


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("hers", None)


@pytest.mark.slow
def test_two_models_are_compared_on_the_same_inputs(folder: Path, tmp_path: Path) -> None:
    words = ("profile", folder / "tuned", "--against", folder / "base")
    given = ("--inputs", folder / "ids.npz", "--out", tmp_path / "page")
    done = attnrate(*words, *given)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "tuned against base: of 4 heads 0 gained rank and 1 lost rank" in done.stdout
    assert "the same 8 inputs of both" in done.stdout
    assert {"index.html", "heads.csv", "comparison.json"} <= {
        path.name for path in (tmp_path / "page").iterdir()
    }
    answer = json.loads(attnrate(*words, *given, "--json").stdout)
    lost = [(row["layer"], row["head"]) for row in answer["heads"] if row["verdict"] == "lost"]
    assert lost == [(1, 1)]
    assert answer["counts"] == {"gained": 0, "lost": 1, "same": 3, "open": 0}
    assert answer["page"] == str(tmp_path / "page" / "index.html")


@pytest.mark.slow
def test_layers_of_other_names_are_compared_by_depth(folder: Path) -> None:
    words = ("profile", folder / "other", "--against", folder / "base")
    given = ("--inputs", folder / "ids.npz", "--json")
    refused = attnrate(*words, *given)
    assert refused.returncode == 2
    assert "--match depth" in refused.stderr
    answer = json.loads(attnrate(*words, *given, "--match", "depth").stdout)
    pairs = {(row["name"], row["name_before"]) for row in answer["heads"]}
    assert pairs == {("transformer.layer.0.attention", "encoder.layer.1.attention.self")}
    (left,) = answer["unmatched"]
    assert (left["model"], left["name"]) == ("before", "encoder.layer.0.attention.self")


@pytest.mark.slow
def test_an_adapter_of_ones_own_is_used(folder: Path) -> None:
    words = ("profile", folder / "base", "--inputs", folder / "ids.npz", "--json")
    heads = [
        json.loads(attnrate(*words, *more, folder=folder).stdout)["heads"]
        for more in ((), ("--adapter", "hers:Mine"))
    ]
    assert [row["name"] for row in heads[1]] == ["mine.0", "mine.0", "mine.1", "mine.1"]
    # it says of the attention what is found without it
    for one, two in zip(*heads, strict=True):
        assert two["sigma_1"] == pytest.approx(one["sigma_1"], rel=1e-5)
        assert two["rank99"] == one["rank99"]


EARLY = [
    (("--inputs", "no.npz", *words), said)
    for words, said in [
        (("--budget", "0"), "--budget must be a whole number of at least 1: got 0"),
        (("--budget", "-3"), "--budget must be a whole number of at least 1: got -3"),
        (("--layers", "-1"), "--layers must be a whole number of at least 0: got -1"),
        (("--layers", "0,-2"), "--layers must be a whole number of at least 0: got -2"),
        (("--layers", ","), "no layer was named"),
        (("--gauge", "hard"), "--gauge is not known: got 'hard'. Choose one of 'softmax', 'none'."),
        (("--tolerance", "0"), "--tolerance must be a share between 0 and 1: got 0.0"),
        (("--tolerance", "nan"), "--tolerance must be a share between 0 and 1: got nan"),
        (("--cut-inputs", "-1"), "--cut-inputs must be a whole number"),
        (("--match", "depth"), "--match is for --against"),
        (("--against", "nowhere", "--match", "deep"), "--match is not known: got 'deep'"),
        (("--against", "nowhere", "--budget", "4"), "does not go with '--budget'"),
        (("--against", "nowhere", "--cut-inputs", "4"), "does not go with '--cut-inputs'"),
        (("--adapter", "hers"), "--adapter must be MODULE:NAME"),
        (("--adapter", "hers.py:Mine"), "Did you mean hers:Mine?"),
        (("--adapter", "nobodys:Mine"), "--adapter: there is no module nobodys"),
        (("--adapter", "hers:Mien"), "Did you mean 'Mine'?"),
        (("--adapter", "hers:number"), "--adapter: there is no function or class number"),
        (("--adapter", "hers:Nothing"), "this one has no sites and no watch"),
        (("--adapter", "hers:Greedy"), "missing 1 required positional argument: 'needed'"),
    ]
]
WITHOUT_INPUTS = [
    (("--weights-only", "--against", "other"), "does not go with '--against'"),
    (("--weights-only", "--adapter", "hers:Mine"), "does not go with '--adapter'"),
]
# one Python for all of them; the model is never opened, or the list of what was opened says so
REFUSED = """
    import json, sys
    from attnrate.cli.commands import app
    from attnrate.errors import InputError
    from attnrate.spectra import load

    opened = []
    load.load_model = opened.append
    said = []
    for words in json.loads(sys.argv[1]):
        try:
            app(["profile", "no/such/model", *words], standalone_mode=False)
        except InputError as problem:
            said.append(str(problem))
        else:
            said.append("not refused")
    print(json.dumps([said, opened]))
"""


@pytest.fixture(scope="module")
def refused(folder: Path) -> list[str]:
    """What is said to each of the wrong requests."""
    asked = json.dumps([words for words, _ in (*EARLY, *WITHOUT_INPUTS)])
    command = [sys.executable, "-c", dedent(REFUSED), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    said, opened = json.loads(done.stdout)
    assert opened == []
    return cast(list[str], said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "said"), [(i, said) for i, (_, said) in enumerate((*EARLY, *WITHOUT_INPUTS))]
)
def test_wrong_words_are_refused_before_a_model_is_opened(
    number: int, said: str, refused: list[str]
) -> None:
    assert said in refused[number]
    assert "no/such/model" not in refused[number]


def test_the_absence_of_a_model_is_not_what_is_said_first(folder: Path) -> None:
    asked = ("profile", "no/such/model", "--inputs", folder / "ids.npz")
    done = attnrate(*asked, "--budget", "0")
    assert done.returncode == 2
    assert "--budget must be a whole number of at least 1" in done.stderr
    assert "no/such/model" not in done.stderr
    assert "no/such/model" in attnrate(*asked).stderr


@pytest.mark.slow
def test_a_second_model_that_is_not_whole_is_refused_before_the_work(
    folder: Path, tmp_path: Path
) -> None:
    done = attnrate(
        "profile", folder / "tuned", "--against", tmp_path, "--inputs", folder / "no.npz"
    )
    assert done.returncode == 2
    assert "the folder has no config.json" in done.stderr


@pytest.mark.usefixtures("here")
def test_an_adapter_is_known_for_the_time_of_the_command_only() -> None:
    before = [*adapters._ADAPTERS]
    with adapter_of("hers:Mine"):
        assert adapters._ADAPTERS[0].family == "mine"
        assert adapters._ADAPTERS[1:] == before
    assert before == adapters._ADAPTERS
    with pytest.raises(ZeroDivisionError), adapter_of("hers:Mine"):
        raise ZeroDivisionError
    assert before == adapters._ADAPTERS
    with pytest.raises(InputError, match="no sites and no watch"), adapter_of("hers:Nothing"):
        pass
    assert before == adapters._ADAPTERS
    with adapter_of(None):
        assert before == adapters._ADAPTERS


def test_the_words_of_match_are_those_that_a_shell_completes() -> None:
    assert MATCHES == KNOWN_MATCHES
