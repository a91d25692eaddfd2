"""Profiles of models whose attention is known, and requests that cannot be met."""

import numpy as np
import pytest
import torch
from torch import nn

import attnrate as ar
from attnrate.errors import AccuracyWarning, InputError
from attnrate.spectra.batches import NotEnoughMemoryError
from attnrate.spectra.profile import _held_out, profile

transformers = pytest.importorskip("transformers")


def llama(**changes) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{
            "hidden_size": 24,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 2,
            "intermediate_size": 16,
            "vocab_size": 50,
            **changes,
        }
    )
    model = transformers.LlamaModel(config).eval()
    for parameter in model.parameters():
        parameter.data *= 5
    return model


def tokens(inputs: int = 4, length: int = 12) -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 50, (inputs, length), generator=drawn)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.fixture(scope="module")
def found():
    return profile(llama(), tokens())


def test_the_compiled_transformer_has_the_spectrum_of_its_coupling():
    # Closed form: ρ has σ_k = k^-1, and the compiled model of m_h = 6 has them as its logits'.
    target = ar.spectral_target(1.0, 6)
    model = ar.compile_target(target, m_h=6)
    x = torch.rand(400, 32, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = profile(model, x, cut_inputs=0)
    assert np.allclose(found.pooled(0, 0)[:6], 1 / np.arange(1, 7), rtol=0.05)
    assert found.pooled(0, 0)[6:] == pytest.approx(0, abs=1e-6)


def test_shapes_and_order(found):
    assert found.sigma(0, 3).shape == (4, 6)
    assert found.pooled(1, 2).shape == (6,)
    assert (np.diff(found.sigma(1, 0), axis=1) <= 0).all()
    assert len(found.to_frame()) == 8
    assert found.sigma("layers.1.self_attn", 0).tolist() == found.sigma(1, 0).tolist()


def test_a_stage_before_the_rotation_differs_and_has_the_same_size_without_gauge(found):
    assert not np.allclose(found.pooled(0, 0), found.pooled(0, 0, stage="plain"))


def test_taking_the_rows_means_out_never_adds_energy(found):
    for head in range(4):
        gauged, whole = found.pooled(0, head), found.pooled(0, head, gauge="none")
        assert (gauged <= whole + 1e-9).all()


def test_batches_make_no_difference():
    batch = tokens(5)
    parts = [{name: value[at] for name, value in batch.items()} for at in (slice(2), slice(2, 5))]
    whole, split = profile(llama(), batch), profile(llama(), iter(parts))
    for key in whole.layers[1].sigma:
        assert np.allclose(whole.layers[1].sigma[key], split.layers[1].sigma[key], atol=1e-6)
        assert np.allclose(whole.layers[1].pooled[key], split.layers[1].pooled[key], atol=1e-6)


def test_cuts_are_made_from_inputs_on_which_they_are_not_measured():
    found = profile(llama(), tokens(6), cut_inputs=2)
    # of six inputs the first two are measured, four make the cuts
    assert found.layers[0].query.count.tolist() == [4 * 12] * 4
    assert found.layers[0].cuts[0.99].weights.shape == (2, 4)


@pytest.mark.parametrize(
    ("sizes", "wanted", "taken"),
    [
        ([6], 2, [2]),
        ([6], 8, [3]),
        ([1], 8, [0]),
        ([4, 4, 4], 8, [4, 4, 0]),
        ([4, 4], 8, [4, 0]),
        ([4, 4], 3, [3, 0]),
        ([1, 1, 1], 8, [1, 1, 0]),
        ([4, 2], 0, [0, 0]),
    ],
)
def test_some_inputs_are_always_left_to_make_cuts_from(sizes, wanted, taken):
    given = [torch.zeros(size, 2) for size in sizes]
    assert [len(held) for _, held in _held_out(given, wanted)] == taken


def test_the_model_is_left_as_it_was():
    model = llama(attention_dropout=0.5).train()
    model.layers[0].eval()
    modes = [part.training for part in model.modules()]
    profile(model, tokens())
    assert [part.training for part in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())


def test_layers_by_number_and_name():
    last = profile(llama(), tokens(), layers=1)
    assert [layer.name for layer in last.layers] == ["layers.1.self_attn"]
    assert last.sigma(1, 0).tolist() == last.sigma("layers.1.self_attn", 0).tolist()
    with pytest.raises(InputError, match=r"no profiled layer has this number: got 0. Known: 1"):
        last.sigma(0, 0)
    both = profile(llama(), tokens(), layers=["layers.1.self_attn", 0])
    assert [layer.name for layer in both.layers] == ["layers.0.self_attn", "layers.1.self_attn"]


def test_it_says_what_it_saw(found):
    text = str(found)
    assert "8 heads of size 6; 4 inputs of 12 tokens" in text
    assert "Before the rotary embedding" in text
    assert found.plot(1, 2).axes[0].get_title().endswith("head 2: 4 inputs")


def test_a_position_bias_is_told_apart():
    torch.manual_seed(0)
    config = transformers.MPNetConfig(
        hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8
    )
    model = transformers.MPNetModel(config).eval()
    batch = tokens()
    found = profile(model, batch)
    values = model.encoder.compute_position_bias(torch.zeros(1, 12, 1)).detach().double()[0, 1]
    centred = values - values.mean(-1, keepdim=True)
    wanted = torch.linalg.svdvals(centred) / 12
    assert np.allclose(found.bias(0, 1), wanted, atol=1e-7)
    assert found.to_frame().bias_rms[1] == pytest.approx(float(centred.square().mean().sqrt()))
    with torch.no_grad():
        model.encoder.relative_attention_bias.weight *= 100
    assert np.allclose(profile(model, batch).sigma(0, 0), found.sigma(0, 0), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": []}, "there are no inputs"),
        ({"inputs": "text"}, "must be a list of texts, and not one text"),
        ({"inputs": 3}, "of no kind that a model takes"),
        ({"inputs": {}}, "no entries"),
        ({"inputs": {"input_ids": torch.zeros(0, 3)}}, "input_ids is empty"),
        ({"inputs": {"wrong": torch.zeros(2, 3)}}, "could not be run on these inputs"),
        ({"gauge": "hard"}, "gauge is not known"),
        ({"layers": [7]}, "layers must be a whole number"),
        ({"layers": "attention"}, "no layer has this name"),
        ({"layers": []}, "no layer was named"),
        ({"cut_inputs": -1}, "cut_inputs must be"),
        ({"model": "folder"}, "must be a torch.nn.Module"),
        ({"model": nn.Linear(2, 2), "inputs": torch.zeros(3, 2)}, "no softmax attention that ran"),
    ],
)
def test_wrong_requests(change, words):
    asked = {"model": llama(), "inputs": tokens(), **change}
    with pytest.raises(InputError, match=words):
        profile(**asked)


def test_inputs_of_nothing_but_padding_are_named():
    batch = tokens()
    batch["attention_mask"][2] = 0
    with pytest.raises(InputError, match=r"nothing but padding.*\[2\]"):
        profile(llama(), batch)


def test_weights_that_are_not_finite_are_named():
    model = llama()
    model.layers[1].self_attn.k_proj.weight.data[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"layers\.1\.self_attn\.k_proj\.weight"):
        profile(model, tokens())


def test_inputs_longer_than_the_positions():
    config = transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, n_positions=10, vocab_size=50)
    with pytest.raises(InputError, match="longer than the model's 10 positions: got 12"):
        profile(transformers.GPT2Model(config), tokens())


def test_values_that_are_not_finite():
    x = torch.zeros(2, 5, 1)
    x[1, 2] = torch.inf
    with pytest.raises(InputError, match=r"not finite: got 'inf at \[1, 2, 0\]'"):
        profile(ar.Transformer(1, 1), x)


def test_names_of_heads_and_stages(found):
    with pytest.raises(InputError, match="head must be"):
        found.sigma(0, 4)
    with pytest.raises(InputError, match="stage is not known"):
        found.sigma(0, 0, "before")
    with pytest.raises(InputError, match="no layer has this name"):
        found.sigma("nope", 0)


def test_attention_that_did_not_run_is_named():
    class StrangeAttention(nn.Linear):
        """Never called."""

    model = llama()
    model.strange = StrangeAttention(2, 2)
    with pytest.warns(AccuracyWarning, match=r"left out: strange \(StrangeAttention\): .*not run"):
        found = profile(model, tokens(), cut_inputs=0)
    assert [(one.name, one.kind) for one in found.unseen] == [("strange", "StrangeAttention")]
    assert "Not part of the profile: strange" in str(found)


def test_attention_without_softmax_is_named():
    class LinearAttention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (x.mT @ x)

    model = nn.Sequential(ar.Transformer(2, 2, n=8, m_h=4), LinearAttention())
    with pytest.warns(
        AccuracyWarning, match=r"1 \(LinearAttention\): it multiplies without softmax"
    ):
        found = profile(model, torch.rand(4, 12, 2))
    assert [layer.name for layer in found.layers] == ["0.last"]


def test_inputs_along_another_axis_are_refused():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=False), 1, enable_nested_tensor=False
    )
    with pytest.raises(InputError, match=r"another number of inputs.*batch_first=True"):
        profile(encoder, torch.randn(40, 6, 16))


def test_each_run_of_a_layer_is_a_layer_and_its_heads_have_one_size():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            once = self.attention(x, x, x)[0]
            return self.attention(once, once, once)[0]

    torch.manual_seed(0)
    model, x = Twice(), torch.randn(4, 30, 16)
    found = profile(model, x)
    assert [(layer.name, layer.run) for layer in found.layers] == [
        ("attention", 1),
        ("attention#2", 2),
    ]
    once = model.attention(x, x, x)[0]
    again = profile(model.attention, [{"query": once, "key": once, "value": once}], cut_inputs=0)
    assert np.allclose(found.sigma(1, 0), again.sigma(0, 0), rtol=1e-5)
    assert "Modules that run several times in a pass: attention." in str(found)
    first, second = ar.advise(found, tolerance=0.3).layers
    assert first.size == second.size


def test_entries_that_serve_all_inputs_and_others_that_do_not_fit():
    config = transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, n_positions=20, vocab_size=50)
    model = transformers.GPT2Model(config)
    batch = tokens() | {"position_ids": torch.arange(12)[None]}
    assert profile(model, batch).layers[0].cuts[0.99].weights.shape == (2, 2)
    with pytest.raises(InputError, match="same number of inputs"):
        profile(model, tokens() | {"position_ids": torch.zeros(3, 12, dtype=torch.long)})


def test_models_that_draw_random_numbers_are_seen_on_the_same_ones_every_time():
    config = transformers.ViTMAEConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=16, patch_size=4,
    )  # fmt: skip
    model = transformers.ViTMAEModel(config).eval()
    images = {"pixel_values": torch.rand(4, 3, 16, 16)}
    state = torch.get_rng_state()
    one, two = (profile(model, images, cut_inputs=2) for _ in range(2))
    assert (one.sigma(0, 0) == two.sigma(0, 0)).all()
    assert torch.equal(torch.get_rng_state(), state)


def test_what_goes_wrong_in_looking_is_not_blamed_on_the_inputs(monkeypatch):
    def broken(*_):
        raise ValueError("a defect of ours")

    monkeypatch.setattr("attnrate.spectra.collect.spectra", broken)
    with pytest.raises(ValueError, match="a defect of ours"):
        profile(llama(), tokens())


def test_too_little_memory_is_said():
    class Greedy(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            torch.empty(10**15)
            return self.attention(x, x, x)

    with pytest.raises(NotEnoughMemoryError, match=r"batch of 2 inputs.*fewer at a time"):
        profile(Greedy(), torch.rand(2, 3, 4))


@pytest.mark.parametrize("kind", ["added", "boolean"])
def test_masks_that_all_inputs_share_are_taken(kind):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    mask = mask if kind == "added" else mask < 0
    found = profile(model, {"src": torch.rand(3, 5, 8), "mask": mask})
    assert found.sigma(0, 0).shape == (3, 4)


def test_a_mask_of_four_axes_tells_the_padding():
    plain = tokens(2, 6)
    plain["attention_mask"][1, 4:] = 0
    seen = plain["attention_mask"][:, None, None, :].bool()
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    wide = {**plain, "attention_mask": seen & causal}
    model = llama(attn_implementation="sdpa")
    one, two = (profile(model, batch, cut_inputs=0) for batch in (plain, wide))
    assert one.tokens.tolist() == two.tokens.tolist() == [6, 4]
    assert np.allclose(one.sigma(0, 0), two.sigma(0, 0), rtol=1e-5)
