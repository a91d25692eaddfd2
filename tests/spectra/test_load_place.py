"""Where a model is opened: on devices and in number formats that are there, others are refused."""

import json
import sys

import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra import placement
from attnrate.spectra.batches import at_rest, run
from attnrate.spectra.load import LoadedModel, load_model
from attnrate.spectra.offloaded import device_of
from attnrate.spectra.placement import Placement, as_placement, require_computes, require_place
from attnrate.spectra.profile import profile

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
TEXT = {**SIZES, "intermediate_size": 32, "vocab_size": 40}
IDS = {"input_ids": torch.arange(24).reshape(2, 12)}


def a_bert():
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**TEXT)).eval()


@pytest.fixture
def folder(tmp_path):
    a_bert().save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def half(tmp_path):
    a_bert().bfloat16().save_pretrained(tmp_path / "half")
    return tmp_path / "half"


def changed(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def formats(loaded):
    return {value.dtype for value in loaded.model.parameters()}


def test_without_a_request_the_model_is_in_float32_on_the_cpu(half):
    loaded = load_model(half)
    assert formats(loaded) == {torch.float32}
    assert (loaded.device, loaded.dtype) == (CPU, torch.float32)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("auto", torch.bfloat16),
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("float16", torch.float16),
    ],
)
def test_a_number_format_is_that_of_the_checkpoint_or_the_one_asked_for(half, asked, found):
    loaded = load_model(half, dtype=asked)
    assert formats(loaded) == {found}
    assert f"in {str(found)[6:]} on cpu, from" in str(loaded)


def test_auto_reads_the_first_tensor_where_the_settings_say_nothing(half):
    config = json.loads((half / "config.json").read_text())
    del config["dtype"]
    (half / "config.json").write_text(json.dumps(config))
    assert formats(load_model(half, dtype="auto")) == {torch.bfloat16}


def test_pixels_are_given_in_the_format_of_a_model_of_half_precision(tmp_path):
    config = transformers.ViTConfig(**SIZES, intermediate_size=20, image_size=12, patch_size=4)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    loaded = load_model(tmp_path, dtype="bfloat16")
    with at_rest(loaded.model):
        made = run(loaded.model, {"pixel_values": torch.randn(2, 3, 12, 12)})
    assert made.last_hidden_state.dtype == torch.bfloat16


def test_bfloat16_changes_the_spectra_by_its_rounding_alone(half):
    exact, rounded = (
        profile(load_model(half, dtype=dtype), IDS, cut_inputs=0) for dtype in ("float32", "auto")
    )
    # The weights are the same numbers. Embedding, normalisation and product round queries and keys
    # of the first layer, each by at most 2⁻⁹ of a number: 6 · 2⁻⁹ of the logits in all (Weyl).
    for head in range(3):
        wanted, found = exact.pooled(0, head), rounded.pooled(0, head)
        assert 0 < abs(found - wanted).max() < 6 * 2**-9 * wanted[0]


def test_auto_takes_what_is_there(monkeypatch):
    assert require_place("device", "auto") == CPU
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert require_place("device", "auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert require_place("device", "auto") == torch.device("cuda")


@pytest.mark.parametrize("device", ["gpu", "meta", 3.5, "cpu:one", ""])
def test_a_device_that_cannot_compute_is_refused_before_anything_is_opened(tmp_path, device):
    with pytest.raises(InputError, match=r"device.*'cpu'"):
        load_model(tmp_path / "nowhere", device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_refused(folder):
    with pytest.raises(InputError, match=r"CUDA.*'cuda'\. Usable here: 'cpu'"):
        load_model(folder, device="cuda")


@pytest.mark.parametrize("name", ["dtype", "device_map"])
def test_words_that_are_not_known_are_refused_with_those_that_are(folder, name):
    with pytest.raises(InputError, match=f"{name} is not known: got 'most'.*'auto'"):
        load_model(folder, **{name: "most"})


def test_a_number_format_that_the_device_lacks_is_refused(folder):
    with pytest.raises(InputError, match=r"'cpu' cannot compute in.*'float8_e4m3fn'.*float32"):
        require_computes(CPU, torch.float8_e4m3fn)
    with pytest.raises(InputError, match="'float8_e4m3fn'"):
        load_model(changed(folder, dtype="float8_e4m3fn"), dtype="auto")
    for dtype in (torch.float32, torch.bfloat16):
        require_computes(CPU, dtype)


def test_numbers_beyond_float16_are_refused_with_the_way_out(folder, tmp_path):
    model = a_bert()
    with torch.no_grad():
        model.encoder.layer[0].attention.self.query.weight[0, 0] = 70_000
    model.save_pretrained(tmp_path / "wide")
    with pytest.raises(InputError, match=r"query\.weight.*65504.*bfloat16") as caught:
        load_model(tmp_path / "wide", dtype="float16")
    assert len(caught.value.value) == 1
    assert load_model(tmp_path / "wide", dtype="bfloat16").dtype == torch.bfloat16


def test_a_folder_for_weights_needs_a_device_map(folder, tmp_path):
    with pytest.raises(InputError, match=r"offload needs a device map.*Pass device_map"):
        load_model(folder, offload=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_to_is_refused(folder, tmp_path):
    (tmp_path / "file").write_text("words")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="offload must be a folder that can be written to"):
            load_model(folder, device_map="auto", offload=place)
    for place in (3, ""):
        with pytest.raises(InputError, match="offload must be the path of a folder"):
            load_model(folder, device_map="auto", offload=place)


def test_a_wrong_model_leaves_no_folder_behind(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        load_model(tmp_path, device_map="auto", offload=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_read_as_a_whole_does_not_go_with_a_device_map(tmp_path, monkeypatch):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"a \.gguf file is read into memory as a whole.*Leave"):
        load_model(tmp_path, device_map="auto")
    monkeypatch.setattr("attnrate.spectra.load.holds_model", lambda folder: True)
    with pytest.raises(InputError, match="a folder of attnrate train is read into memory"):
        load_model(tmp_path, device_map="auto")


def test_without_accelerate_a_device_map_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(placement, "is_installed", lambda name: False)
    with pytest.raises(InputError, match=r"needs accelerate, .*Leave device_map out.*pip install"):
        load_model(folder, device_map="auto")


FREE = {0: 100, 1: 200, "cpu": 1000}
ALL = {0: 90, 1: 180, "cpu": 900}


@pytest.mark.parametrize(
    ("device", "offload", "memory"),
    [
        ("cuda", None, ALL),
        ("cuda", ".", ALL | {"cpu": 0}),
        ("cuda:1", None, {1: 180, "cpu": 900}),
        ("cpu", None, {"cpu": 900}),
    ],
)
def test_weights_may_take_the_memory_of_the_device_and_then_of_the_cpu(
    monkeypatch, tmp_path, device, offload, memory
):
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setattr(accelerate.utils, "get_max_memory", lambda: FREE)
    place = None if offload is None else tmp_path
    found = Placement(torch.device(device), None, True, place).options()
    assert found == {"device_map": "auto", "max_memory": memory}


def test_on_the_cpu_a_folder_for_weights_leaves_all_of_them_on_disk(tmp_path):
    placed = as_placement(CPU, "float32", "auto", tmp_path)
    assert placed.options() == {"device_map": {"": "disk"}}
    assert as_placement(CPU, "auto", None, None).options() == {}


def test_a_model_whose_weights_were_never_loaded_is_refused(tmp_path):
    with torch.device("meta"):
        empty = transformers.BertModel(transformers.BertConfig(**TEXT))
    for work in (lambda: run(empty, IDS), lambda: profile(empty, IDS)):
        with pytest.raises(InputError, match=r"on no device \(meta\).*word_embeddings.*load_model"):
            work()
    half_loaded = a_bert()
    half_loaded.encoder.layer[1].to("meta")
    with pytest.raises(InputError, match=r"16 of its weights.*encoder\.layer\.1\."):
        device_of(half_loaded)


def test_a_model_without_weights_computes_on_the_cpu(tmp_path):
    assert device_of(nn.Identity()) == CPU
    assert LoadedModel(nn.Identity(), "none", tmp_path, None).dtype == torch.float32


def test_without_transformers_the_device_is_looked_at_first(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match="device is not known to torch"):
        load_model(folder, device="gpu")
