"""Weights on disk: the same model bit for bit, with one block of it in memory at a time."""

import gc
import weakref

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.errors import InputError
from attnrate.spectra import offloaded, placement
from attnrate.spectra.batches import at_rest, not_finite, run
from attnrate.spectra.load import load_model
from attnrate.spectra.offloaded import is_on_disk, weights
from attnrate.spectra.profile import profile

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
TEXT = {**SIZES, "intermediate_size": 32, "vocab_size": 40, "pad_token_id": 0}
PIXELS = {**SIZES, "intermediate_size": 32, "image_size": 12, "patch_size": 4}
PAIR = {
    **{"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 40},
    **{f"{part}_attention_heads": 2 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 16 for part in ("encoder", "decoder")},
}
IDS = {"input_ids": torch.arange(24).reshape(2, 12)}
IMAGES = {"pixel_values": torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))}
FAMILIES = {
    "Bert": (TEXT, IDS),
    "MPNet": (TEXT, IDS),
    "Llama": (TEXT, IDS),
    "Bart": (PAIR, IDS),  # one embedding for two parts
    "Albert": ({**TEXT, "embedding_size": 16}, IDS),  # one block, run several times
    # weights that are used without calling the module that they are in
    "SiglipVision": (PIXELS, IMAGES),
    "DebertaV2": ({**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, IDS),
    # tensors that transformers joins when it reads them
    "Mixtral": ({**TEXT, "num_local_experts": 4, "num_key_value_heads": 2}, IDS),
}


def made(family, folder):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family][0])
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    return folder


def output(model, batch):
    with at_rest(model):
        return run(model, batch)[0]


@pytest.fixture(params=[0, 2**24], ids=["nothing small", "small parts in memory"])
def small(request, monkeypatch):
    """Parts outside the blocks on disk as well, as in large models, or in memory."""
    monkeypatch.setattr(offloaded, "_SMALL", request.param)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_output_is_that_of_the_model_in_memory_bit_for_bit(family, tmp_path, capfd):
    folder, batch = made(family, tmp_path / "model"), FAMILIES[family][1]
    capfd.readouterr()
    plain = load_model(folder)
    loaded = load_model(folder, device_map="auto", offload=tmp_path / "off")
    assert capfd.readouterr() == ("", "")
    assert is_on_disk(loaded.model)
    assert not is_on_disk(plain.model)
    wanted = output(plain.model, batch)
    for _ in range(2):
        assert torch.equal(output(loaded.model, batch), wanted)
    count = sum(value.numel() for value in plain.model.parameters())
    assert f"with {count:,} parameters in float32 on cpu with weights on disk" in str(loaded)


@pytest.mark.usefixtures("small")
def test_one_block_is_in_memory_at_a_time(tmp_path):
    folder = made("MPNet", tmp_path / "model")
    loaded = load_model(folder, device_map="auto", offload=tmp_path / "off")
    blocks = loaded.model.encoder.layer
    seen = []

    def look(block, *_):
        held = [any(not value.is_meta for value in one.parameters()) for one in blocks]
        seen.append((block, [one for one, here in zip(blocks, held, strict=True) if here]))

    for block in blocks:
        block.attention.attn.q.register_forward_hook(lambda *_, block=block: look(block))
    output(loaded.model, IDS)
    assert seen == [(block, [block]) for block in blocks]
    assert all(value.is_meta for value in blocks.parameters())


@pytest.mark.usefixtures("small")
def test_a_profile_is_the_same_number_for_number(tmp_path):
    folder = made("MPNet", tmp_path / "model")
    plain, disk = load_model(folder), load_model(folder, device_map="auto", offload=tmp_path)
    wanted, found = profile(plain, IDS, cut_inputs=1), profile(disk, IDS, cut_inputs=1)
    assert found.to_frame().equals(wanted.to_frame())
    assert str(found) == str(wanted)


def test_weights_on_disk_come_in_the_number_format_that_was_asked_for(tmp_path):
    folder = made("Bert", tmp_path / "model")
    loaded = load_model(folder, dtype="bfloat16", device_map="auto", offload=tmp_path)
    assert {value.dtype for _, value in weights(loaded.model)} == {torch.bfloat16}
    wanted = output(load_model(folder, dtype="bfloat16").model, IDS)
    assert torch.equal(output(loaded.model, IDS), wanted)


def test_only_tensors_that_had_to_change_are_written_and_go_with_the_model(tmp_path):
    kept = {}
    for family in ("Bert", "Mixtral"):
        off = tmp_path / family
        model = made(family, tmp_path / "model")
        kept[family] = load_model(model, device_map="auto", offload=off)
    written = [path.name for path in tmp_path.glob("*/*/*.safetensors")]
    assert len(written) == 6  # two joined tensors for each of the three layers
    assert all(".mlp.experts." in name for name in written)
    kept.clear()
    gc.collect()
    assert not [*(tmp_path / "Bert").iterdir(), *(tmp_path / "Mixtral").iterdir()]


def edited(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_missing_tensors_and_those_that_are_not_finite_are_named(tmp_path):
    name = "encoder.layer.1.attention.self.key.weight"
    folder = edited(
        made("Bert", tmp_path / "model"), lambda held: held[name].view(-1)[7:8].fill_(torch.nan)
    )
    with pytest.raises(InputError, match="1 tensors of the model hold nan or inf") as caught:
        load_model(folder, device_map="auto", offload=tmp_path / "off")
    assert caught.value.value == [name]
    edited(folder, lambda held: held.pop(name))
    with pytest.raises(InputError, match="1 tensors of the model are missing"):
        load_model(folder, device_map="auto", offload=tmp_path / "off")
    assert not [*(tmp_path / "off").iterdir()]


def test_of_weights_on_disk_one_is_in_memory_while_they_are_looked_at(tmp_path, monkeypatch):
    loaded = load_model(made("Bert", tmp_path / "model"), device_map="auto", offload=tmp_path)
    on_disk = sum(value.is_meta for value in loaded.model.parameters())
    looked_at = []
    alive = []

    def look(value):
        looked_at.append(weakref.ref(value))
        alive.append(sum(one() is not None for one in looked_at))
        return True

    monkeypatch.setattr("attnrate.spectra.batches.is_finite", look)
    assert not_finite(loaded.model) == []
    assert on_disk == 3 * 16 + 5  # of three layers and of the embedding
    assert len(alive) == len([*loaded.model.parameters()])
    assert set(alive) == {1}


def test_without_a_folder_what_fits_into_memory_stays_there(tmp_path):
    loaded = load_model(made("Bert", tmp_path / "model"), device_map="auto")
    assert not is_on_disk(loaded.model)
    assert "parameters in float32 on cpu, from" in str(loaded)


def test_without_a_folder_the_rest_is_read_from_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_SHARE", 0)
    folder = made("Bert", tmp_path / "model")
    loaded = load_model(folder, device_map="auto")
    assert is_on_disk(loaded.model)
    assert torch.equal(output(loaded.model, IDS), output(load_model(folder).model, IDS))
    with pytest.raises(InputError, match=r"cannot open.*Pass offload, a folder, as well"):
        load_model(made("Mixtral", tmp_path / "mixtral"), device_map="auto")


def test_large_blocks_of_memory_go_back_at_once_only_while_the_model_runs(tmp_path, monkeypatch):
    folder = made("MPNet", tmp_path / "model")
    sizes = []
    monkeypatch.setattr(offloaded, "_setting_of_blocks", lambda: sizes.append)
    loaded = load_model(folder, device_map="auto", offload=tmp_path)
    assert sizes == []
    loaded.model.pooler.register_forward_hook(lambda *_: sizes.append("runs"))
    output(loaded.model, IDS)
    assert sizes == [2**20, "runs", 2**25]
    sizes.clear()
    with pytest.raises(InputError, match="could not be run"):
        output(loaded.model, {"input_ids": torch.full((1, 3), 999)})
    assert sizes == [2**20, 2**25]


def test_without_such_a_setting_nothing_is_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(offloaded.ctypes, "CDLL", lambda name: object())
    assert offloaded._setting_of_blocks() is None
    folder = made("MPNet", tmp_path / "model")
    loaded = load_model(folder, device_map="auto", offload=tmp_path)
    assert torch.equal(output(loaded.model, IDS), output(load_model(folder).model, IDS))
