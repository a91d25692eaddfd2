"""Opening a model: what is whole comes as it was saved; what is not is refused and named."""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.errors import InputError
from attnrate.spectra import pretrained
from attnrate.spectra.load import load_model

transformers = pytest.importorskip("transformers")


def small(**changes):
    settings = {
        "vocab_size": 40,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 32,
        "max_position_embeddings": 20,
    }
    return settings | changes


def a_bert(**changes):
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**small(**changes))).eval()


@pytest.fixture
def folder(tmp_path):
    a_bert().save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def edit(folder, change):
    """Change the tensors of a folder."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def output(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state


IDS = torch.arange(12).reshape(2, 6)


def test_a_folder_gives_the_model_that_was_saved(folder):
    loaded = load_model(folder)
    assert (loaded.name, loaded.longest) == ("bert", 20)
    assert not loaded.model.training
    assert torch.equal(output(loaded.model, IDS), output(a_bert(), IDS))
    assert load_model(str(folder / "model.safetensors")).folder == folder


def test_a_sharded_checkpoint_is_the_same_model(tmp_path):
    a_bert().save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert torch.equal(output(load_model(tmp_path).model, IDS), output(a_bert(), IDS))


def test_half_precision_comes_as_float32(tmp_path):
    a_bert().bfloat16().save_pretrained(tmp_path)
    assert {tensor.dtype for tensor in load_model(tmp_path).model.parameters()} == {torch.float32}


def test_the_head_of_a_task_is_not_needed_and_a_pooler_may_be_missing(tmp_path):
    config = transformers.BertConfig(**small())
    masked = transformers.BertForMaskedLM(config).eval()
    masked.save_pretrained(tmp_path)
    assert torch.equal(output(load_model(tmp_path).model, IDS), output(masked.bert, IDS))


@pytest.mark.parametrize("family", ["Roberta", "MPNet"])
def test_positions_behind_the_padding_are_counted(tmp_path, family):
    config = getattr(transformers, f"{family}Config")(**small(pad_token_id=1))
    model = getattr(transformers, f"{family}Model")(config).eval()
    model.save_pretrained(tmp_path)
    longest = load_model(tmp_path).longest
    assert longest == 18
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_nothing_is_said_on_the_terminal(tmp_path, capfd):
    transformers.BertForMaskedLM(transformers.BertConfig(**small())).save_pretrained(tmp_path)
    capfd.readouterr()
    load_model(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_folder_without_settings_is_refused(folder):
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"no config\.json.*It has model\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize("text", ["{", "[]", "\0"])
def test_broken_settings_are_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        load_model(folder)


def test_settings_that_ask_for_code_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('run')")
    with pytest.raises(InputError, match=r"code of its own.*live torch.*--weights-only"):
        load_model(folder)


@pytest.mark.parametrize("change", [{"model_type": "nothing"}, {"hidden_size": 48}])
def test_settings_that_fit_no_weights_are_refused(folder, change):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(InputError, match="transformers cannot open the model"):
        load_model(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.ckpt", "m.pkl"])
def test_pickled_checkpoints_are_refused_with_the_safe_way(folder, name):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / name)
    for source in (folder, folder / name):
        with pytest.raises(InputError, match=r"pickled.*weights_only=True"):
            load_model(source)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"truncated or corrupt.*model\.safetensors"):
        load_model(folder)


def test_missing_shards_are_named(tmp_path):
    a_bert().save_pretrained(tmp_path, max_shard_size="10KB")
    gone = sorted(tmp_path.glob("*.safetensors"))[1]
    gone.unlink()
    with pytest.raises(InputError, match=f"1 of .* files.*{gone.name}"):
        load_model(tmp_path)


def test_an_index_that_leads_elsewhere_or_promises_too_much_is_refused(tmp_path):
    a_bert().save_pretrained(tmp_path, max_shard_size="10KB")
    index = tmp_path / "model.safetensors.index.json"
    whole = json.loads(index.read_text())
    first = next(iter(whole["weight_map"].values()))
    for name, file, match in (("x", "../y.safetensors", "elsewhere"), ("x", first, "not in their")):
        index.write_text(json.dumps({"weight_map": whole["weight_map"] | {name: file}}))
        with pytest.raises(InputError, match=match):
            load_model(tmp_path)
    index.write_text("{}")
    with pytest.raises(InputError, match="no weight_map"):
        load_model(tmp_path)


def test_missing_tensors_are_named_and_not_made_up(folder):
    name = "encoder.layer.1.attention.self.key.weight"
    edit(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(InputError, match="1 tensors of the model are missing") as caught:
        load_model(folder)
    assert any(name in found for found in caught.value.value)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_tensor_that_is_not_finite_is_named(folder, bad):
    name = "encoder.layer.0.attention.self.query.weight"
    edit(folder, lambda tensors: tensors[name].view(-1)[7:8].fill_(bad))
    with pytest.raises(InputError, match="nan or inf") as caught:
        load_model(folder)
    assert caught.value.value == [name]


@pytest.mark.parametrize("source", [None, 3, "", "./nothing", "/no/such/folder", "a/b/c", "\0"])
def test_what_is_no_folder_and_no_hub_name_is_refused(source):
    with pytest.raises(InputError, match="folder"):
        load_model(source)


def test_a_hub_name_without_a_network_offers_a_local_folder(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"the hub did not give.*local folder"):
        load_model("nobody/nothing-of-that-name")


def test_other_files_are_no_models(tmp_path):
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(InputError, match="no model"):
        load_model(tmp_path / "notes.txt")
    with pytest.raises(InputError, match=r"no config\.json"):
        load_model(tmp_path)


def test_a_folder_without_a_tokenizer_says_so(folder):
    with pytest.raises(InputError, match=r"no tokenizer.*npz"):
        load_model(folder).tokenizer()


def llama_to_gguf(model, path):
    """Write a Llama as llama.cpp stores it: rows of queries and keys in pairs of the rotation."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("toy")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)

    def paired(weight, heads):
        split = weight.reshape(heads, 2, -1, weight.shape[1])
        return split.transpose(1, 2).reshape(weight.shape)

    names = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for name, tensor in model.state_dict().items():
        if "q_proj" in name:
            tensor = paired(tensor, config.num_attention_heads)
        elif "k_proj" in name:
            tensor = paired(tensor, config.num_key_value_heads)
        if name.startswith("layers."):
            _, number, part = name.split(".", 2)
            new = f"blk.{number}.{parts[part.removesuffix('.weight')]}.weight"
        else:
            new = names[name]
        writer.add_tensor(new, tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_gives_the_model_it_was_made_from(tmp_path, capfd):
    pytest.importorskip("gguf")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **small(hidden_size=32, num_attention_heads=4), num_key_value_heads=2
    )
    model = transformers.LlamaModel(config).eval()
    llama_to_gguf(model, tmp_path / "toy.gguf")
    capfd.readouterr()
    for source in (tmp_path, tmp_path / "toy.gguf"):
        loaded = load_model(source)
        assert (loaded.gguf, loaded.longest) == ("toy.gguf", 20)
        torch.testing.assert_close(output(loaded.model, IDS), output(model, IDS))
    assert capfd.readouterr() == ("", "")
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"several \.gguf"):
        load_model(tmp_path)
    with pytest.raises(InputError, match="cannot open"):
        load_model(tmp_path / "other.gguf")


def test_without_the_package_gguf_that_is_said_and_not_config_json(tmp_path, monkeypatch):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(pretrained, "is_installed", lambda name: False)
    with pytest.raises(
        InputError, match=r"a \.gguf file needs gguf, .*pip install .*'gguf"
    ) as caught:
        load_model(tmp_path)
    assert "config.json" not in str(caught.value)


def test_a_package_that_transformers_misses_is_named(folder, monkeypatch):
    def lacks(*_, **__):
        raise ImportError("BertModel requires the tiktoken library")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", lacks)
    with pytest.raises(
        InputError, match=r"not installed \(BertModel requires the tiktoken.*pip ins"
    ):
        load_model(folder)


def test_without_transformers_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"needs transformers, .*pip install .*'transformers"):
        load_model(folder)
