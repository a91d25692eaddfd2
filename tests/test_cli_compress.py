"""`attnrate compress` as a user meets it: what it prints, what it writes, how it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from rotary_tiny import tiny_llama, tokens
from small_models import small
from thin_families import DECODER, POSITIONS, TEXT
from warm_commands import attnrate

import attnrate as ar


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small("bert").model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "ids.npz"
    drawn = np.random.default_rng(0).integers(3, 50, (10, 12))
    np.savez(path, input_ids=drawn, attention_mask=np.ones_like(drawn))
    return path


def test_it_writes_a_smaller_model_and_says_what_it_costs(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / "thin"
    words = "--size", 4, "--values", "--repair", 3, "--timing", 0.01, "--json"
    done = attnrate("compress", model, "--inputs", ids, "--out", out, *words, new=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    opened = ar.load_model(out).model
    assert answer["report"][0]["parameters"] == sum(x.numel() for x in opened.parameters())
    assert [row["size"] for row in answer["report"]] == [8, 4, 4]
    assert "queries and keys of 4 dimensions instead of 8" in answer["summary"]
    assert answer["folder"] == str(out)
    # two inputs are held out, which have no neighbours to speak of
    assert [row["measure"] for row in answer["quality"]] == ["embedding_change", "embedding_cosine"]
    assert [row["work"] for row in answer["times"]] == ["batch"]
    assert answer["rivals"] == []
    assert len(answer["notes"]) == 2


def test_a_language_model_is_written_with_its_head_for_plain_transformers(
    ids: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "stock"
    tiny_llama(torch.float32).save_pretrained(whole)
    arrays = tmp_path / "ids.npz"
    np.savez(arrays, input_ids=tokens(10, 20).numpy())
    words = "--size", 8, "--values", "--format", "llama", "--timing", 0
    done = attnrate("compress", whole, "--inputs", arrays, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    assert "bytes per token in the cache instead of 384" in done.stdout
    assert "\ncut + 4-bit keys  " in done.stdout
    assert done.stdout.endswith(f"the folder: {out}\n")
    assert hasattr(ar.load_model(out, head=True).model, "lm_head")


@pytest.mark.parametrize(
    ("name", "settings", "inputs"),
    [
        ("GPT2LMHeadModel", DECODER, ("input_ids",)),
        ("BertForSequenceClassification", TEXT, ("input_ids",)),
        ("T5ForConditionalGeneration", POSITIONS, ("input_ids", "decoder_input_ids")),
        ("BertModel", TEXT, ("input_ids",)),
    ],
)
def test_a_model_keeps_the_head_that_its_folder_has(
    name: str, settings: dict[str, Any], inputs: tuple[str, ...], tmp_path: Path
) -> None:
    made: Any = getattr(transformers, name)
    made(made.config_class(**settings)).save_pretrained(tmp_path / "whole")
    np.savez(tmp_path / "ids.npz", **dict.fromkeys(inputs, tokens(10, 20).numpy() % 50))
    out = tmp_path / "thin"
    words = "--inputs", tmp_path / "ids.npz", "--size", 4, "--timing", 0, "--json"
    done = attnrate("compress", tmp_path / "whole", "--out", out, *words)
    assert done.returncode == 0, done.stderr
    assert type(ar.load_model(out).model).__name__ == name
    assert "head" not in done.stderr


def test_a_head_whose_weights_are_not_there_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    transformers.BertModel(transformers.BertConfig(**TEXT)).save_pretrained(tmp_path / "whole")
    config = tmp_path / "whole/config.json"
    said = json.loads(config.read_text()) | {"architectures": ["BertForMaskedLM"]}
    config.write_text(json.dumps(said))
    np.savez(tmp_path / "ids.npz", input_ids=tokens(10, 20).numpy() % 50)
    words = "--inputs", tmp_path / "ids.npz", "--size", 4, "--timing", 0
    done = attnrate("compress", tmp_path / "whole", "--out", tmp_path / "thin", *words)
    assert done.returncode == 0, done.stderr
    assert "opened without the head of BertForMaskedLM" in done.stderr
    assert type(ar.load_model(tmp_path / "thin").model).__name__ == "BertModel"


def test_sizes_reach_a_target_by_measurement_and_the_curves_are_in_the_answer(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / "thin"
    words = "--average", 6, "--multiple-of", 2, "--json"
    done = attnrate("compress", model, "--inputs", ids, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    # 2 layers of 4 sizes, and all at once
    assert len(answer["curves"]) >= 9
    chosen = {row["part"]: row["size"] for row in answer["curves"] if row["chosen"]}
    assert {row["part"]: row["size"] for row in answer["report"]} == chosen
    assert chosen["model"] <= 12


def test_a_profile_of_a_decoder_says_the_sizes_of_the_model_with_its_head(tmp_path: Path) -> None:
    whole, kept, out = tmp_path / "whole", tmp_path / "profile", tmp_path / "thin"
    tiny_llama(torch.float32).save_pretrained(whole)
    arrays = tmp_path / "ids.npz"
    np.savez(arrays, input_ids=tokens(10, 20).numpy())
    found = ar.profile(ar.load_model(whole), {"input_ids": tokens(10, 20)}, cut_inputs=2)
    found.save(kept, page=False)
    advice = ar.advise(found, tolerance=0.4)
    words = "--profile", kept, "--tolerance", 0.4, "--multiple-of", 4, "--json"
    done = attnrate("compress", whole, "--inputs", arrays, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    sizes = [row["size"] for row in json.loads(done.stdout)["report"][1:]]
    assert sizes == [min(12, -(-layer.size // 4) * 4) for layer in advice.layers]


@pytest.mark.slow
def test_an_encoder_is_written_for_onnxruntime_and_a_decoder_is_refused_before_the_cut(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    out, words = tmp_path / "thin", ("--size", 4, "--values", "--format", "onnx")
    done = attnrate("compress", model, "--inputs", ids, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"the folder: {out}\n")
    session = onnxruntime.InferenceSession(out / "model.onnx")
    with np.load(ids) as arrays:
        hidden = session.run(None, dict(arrays))[0]
    assert hidden.shape == (10, 12, 24)
    whole, out = tmp_path / "whole", tmp_path / "none"
    tiny_llama(torch.float32).save_pretrained(whole)
    arrays = tmp_path / "tokens.npz"
    np.savez(arrays, input_ids=tokens(10, 20).numpy())
    done = attnrate("compress", whole, "--inputs", arrays, "--out", out, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is for encoders, and 'LlamaForCausalLM' writes token by token" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "4", "--keep", "0.5"], "only one of --size, --keep, --loss,"),
        (["--loss", "0"], "--loss must be a share between 0 and 1"),
        (["--multiple-of", "3", "--size", "4"], "must be multiples of 3: got 4. Pass --size 6"),
        # 2 layers of 3 heads, 4 bytes: keys of 2 and values of 8
        (["--bytes", "100"], "--bytes must be from 240, the least that these heads can be cut to"),
        (["--size", "0"], "--size must be a whole number of at least 1"),
        (["--keep", "2"], "--keep must be a share between 0 and 1"),
        (["--format", "gguf"], "--format is not known"),
        (["--format", "llama"], "--format llama needs values"),
        (["--repair", "-1"], "--repair must be a whole number of at least 0"),
        (["--timing", "-1"], "--timing must be a number of seconds, at least 0"),
        (["--size", "12"], "have the size 8"),
        (["--multiple-of", "1000"], "got 1000. Pass --multiple-of 8 or less, or none."),
        (["--format", "llama", "--values"], "is for rotary decoders with a language head, not for"),
    ],
)
def test_wrong_requests_end_with_2_and_write_nothing(
    words: list[str], said: str, model: Path, ids: Path, tmp_path: Path
) -> None:
    out = tmp_path / "thin"
    done = attnrate("compress", model, "--inputs", ids, "--out", out, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert not out.exists()


def test_a_folder_that_is_there_and_inputs_that_are_not_are_refused(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    done = attnrate("compress", model, "--inputs", ids, "--out", tmp_path)
    assert done.returncode == 2
    assert "--out must be a new folder" in done.stderr
    done = attnrate("compress", model, "--out", tmp_path / "thin")
    assert done.returncode == 2
    assert "a cut needs inputs of one kind" in done.stderr


def test_finished_layers_stay_until_the_model_is_written(
    model: Path, ids: Path, tmp_path: Path
) -> None:
    state, blocked = tmp_path / "state", tmp_path / "file"
    blocked.write_text("no folder")
    words = "--size", 4, "--repair", 3, "--together", 2, "--timing", 0, "--resume", state
    done = attnrate("compress", model, "--inputs", ids, "--out", blocked / "thin", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "could not be written" in done.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in state.glob("*.safetensors")}
    assert len(kept) == 3
    again = attnrate("compress", model, "--inputs", ids, "--out", tmp_path / "thin", *words)
    assert again.returncode == 0, again.stderr
    assert ar.load_model(tmp_path / "thin").model is not None
    assert not state.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume", "STATE"], "--resume keeps what is finished of a repair, and there is none"),
        (["--resume", "FILE", "--repair", "2"], "the output must be a folder, this is a file"),
        (["--resume", "OUT", "--repair", "2"], "--resume must not be the folder of the smaller"),
        (["--resume", "OUT/state", "--repair", "2"], "--resume must not be the folder of the"),
    ],
)
def test_a_folder_in_which_nothing_can_be_kept_is_refused_before_the_work(
    words: list[str], said: str, model: Path, ids: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    places = {"STATE": "state", "FILE": "file", "OUT": "thin", "OUT/state": "thin/state"}
    words = [str(tmp_path / places[word]) if word in places else word for word in words]
    out = tmp_path / "thin"
    done = attnrate("compress", model, "--inputs", ids, "--out", out, "--size", 4, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
