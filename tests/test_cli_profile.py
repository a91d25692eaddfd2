"""`attnrate profile` as a user meets it: what it prints, what it writes, how it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from ray_nodes import needs_ray
from warm_commands import attnrate

from attnrate import load_profile

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    config = transformers.BertConfig(
        vocab_size=35, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "ids.npz"
    drawn = np.random.default_rng(0).integers(0, 35, (6, 12))
    np.savez(path, input_ids=drawn, attention_mask=np.ones_like(drawn))
    return path


@pytest.mark.slow
def test_it_prints_a_table_a_summary_and_advice_and_writes_a_page(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page"
    state = tmp_path / "state"
    done = attnrate("profile", model, "--inputs", ids, "--out", out, "--resume", state, new=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "4 heads of size 12; 6 inputs of 12 tokens" in done.stdout
    assert "of any head's attention" in done.stdout
    kept = {"index.html", "profile.json", "heads.csv", "moments.safetensors"}
    assert kept <= {path.name for path in out.iterdir()}
    assert str(load_profile(out)) in done.stdout
    assert not state.exists()
    again = attnrate("profile", model, "--inputs", ids, "--out", out, "--layers", "1", "--json")
    answer = json.loads(again.stdout)
    assert [row["layer"] for row in answer["heads"]] == [1, 1]
    assert {row["name"] for row in answer["heads"]} == {"encoder.layer.1.attention.self"}
    assert answer["page"] == str(out / "index.html")


@pytest.mark.slow
def test_weights_on_disk_give_the_same_answer(model: Path, ids: Path, tmp_path: Path) -> None:
    words = ("profile", model, "--inputs", ids, "--cut-inputs", "2", "--json")
    on_disk = ("--device-map", "auto", "--offload", tmp_path / "off", "--device", "auto")
    plain, disk = (attnrate(*words, *more) for more in ((), on_disk))
    assert (disk.returncode, disk.stderr) == (0, "")
    heads = [json.loads(done.stdout)["heads"] for done in (plain, disk)]
    assert heads[0] == heads[1]


@pytest.mark.slow
def test_weights_only_needs_no_inputs(model: Path) -> None:
    answer = json.loads(attnrate("profile", model, "--weights-only", "--json", new=True).stdout)
    assert len(answer["heads"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs inputs of one kind: got 'none'"),
        (("--text", "a.txt", "--images", "b"), "needs inputs of one kind: got ['--text'"),
        (("--inputs", "nowhere.npz"), "nowhere.npz"),
        (("--inputs", "IDS", "--layers", "7"), "layers must be a whole number"),
        (("--inputs", "IDS", "--layers", "head"), "no layer has this name: got 'head'"),
        (("--inputs", "IDS", "--gauge", "hard"), "gauge is not known: got 'hard'"),
        (("--inputs", "IDS", "--tolerance", "2"), "tolerance must be a share between 0 and 1"),
        (("--inputs", "IDS", "--budget", "0"), "budget must be a whole number"),
        (("--inputs", "IDS", "--budget", "9", "--tolerance", "0.1"), "only one of budget"),
        (("--text", "IDS"), "tokenizer"),
        (("--weights-only", "--inputs", "IDS"), "takes no inputs and only prints"),
        (("--weights-only", "--layers", "0"), "--weights-only looks at all layers"),
        (("--weights-only", "--budget", "9", "--layers", "0"), "'--budget and --layers'"),
        (("--inputs", "IDS", "--heads", "2"), "--heads is for --weights-only"),
        (("--inputs", "IDS", "--layout", "stacked"), "--layout is for --weights-only"),
        (("--weights-only", "--layout", "rows"), "--layout is not known: got 'rows'"),
        (("--weights-only", "--layout", "stacked"), "and here they are apart"),
        ((), "--weights-only shows what can be known from the weights alone"),
        (("--inputs", "IDS", "--length", "9"), "--length is for --text"),
        (("--inputs", "IDS", "--budget", "1"), "budget must be a whole number of at least 2"),
        (("--inputs", "IDS", "--cut-inputs", "-1"), "--cut-inputs must be a whole number"),
        (("--inputs", "IDS", "--device", "gpu"), "--device is not known to torch: got 'gpu'"),
        (("--inputs", "IDS", "--dtype", "half"), "--dtype is not known: got 'half'. Choose one of"),
        (("--inputs", "IDS", "--device-map", "all"), "--device-map is not known: got 'all'"),
        (("--inputs", "IDS", "--offload", "off"), 'Pass --device-map ("auto") as well'),
        (("--weights-only", "--device", "cpu"), "does not go with '--device'"),
        (("--inputs", "IDS", "--engine", "rai"), "--engine is not known: got 'rai'. Did you mean"),
        (("--inputs", "IDS", "--workers", "2"), "--workers is for the engine ray"),
        (("--inputs", "IDS", "--engine", "ray", "--workers", "0"), "--workers must be a whole"),
    ],
)
def test_wrong_requests_are_refused_in_words(
    model: Path, ids: Path, words: tuple[str, ...], said: str
) -> None:
    done = attnrate("profile", model, *(ids if word == "IDS" else word for word in words))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("option", ["--out", "--resume"])
def test_a_folder_that_is_not_ours_is_left_alone(
    model: Path, ids: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = attnrate("profile", model, "--inputs", ids, option, tmp_path)
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@needs_ray
def test_a_cluster_is_looked_for_before_a_model_is_opened(tmp_path: Path, ids: Path) -> None:
    words = ("--inputs", ids, "--engine", "ray://127.0.0.1:1")
    done = attnrate("profile", tmp_path / "nowhere", *words)
    assert done.returncode == 1
    assert "Ray cannot be reached at ray://127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    done = attnrate("profile", tmp_path, "--text", tmp_path / "a.txt")
    assert done.returncode == 2
    assert "config.json" in done.stderr
