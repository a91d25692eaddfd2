"""A compression as a user asks for it: sizes, reports that are true, and what is refused."""

from dataclasses import replace

import pytest
import thin_families
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import Small, small

import attnrate as ar
from attnrate.compress.measured import Measurements
from attnrate.compress.sizes import Whole, kept
from attnrate.compress.timing import Timing
from attnrate.compress.trial import change, changes, outputs, split

LLAMA = {"input_ids": tokens(10, 20)}


def count(model: torch.nn.Module) -> int:
    return sum(x.numel() for x in model.parameters())


def given(name: str) -> tuple[Small, dict[str, torch.Tensor]]:
    """A small model and four times its inputs."""
    one = small(name)
    return one, {key: torch.cat([value] * 4) for key, value in one.batch.items()}


@pytest.mark.parametrize("name", ["bert", "mpnet", "vit", "own-vit", "own-seq2seq"])
def test_a_model_gets_smaller_heads_and_is_called_as_before(name):
    model, inputs = given(name)
    before = {key: value.clone() for key, value in model.model.state_dict().items()}
    done = ar.compress(model.model, inputs, size=4, values=True)
    assert model.output(done.model).shape == model.output().shape
    assert (done.parameters_before, done.parameters) == (count(model.model), count(done.model))
    saved = sum(layer.parameters_before - layer.parameters for layer in done.layers)
    assert done.parameters_before - done.parameters == saved > 0
    assert all((x.size, x.value_size) == (4, 4) for x in done.layers)
    assert all(torch.equal(x, before[key]) for key, x in model.model.state_dict().items())
    assert done.change == done.change_cut > 0


def test_the_change_is_that_of_the_output_on_inputs_held_out():
    model, inputs = given("own-vit")
    done = ar.compress(model.model, inputs, size=2, repair=4)
    assert done.held_out == 3
    with torch.no_grad():
        whole, made = (x(inputs["images"][-3:]) for x in (model.model, done.model))
    assert done.change == pytest.approx(float((made - whole).norm() / whole.norm()), rel=1e-4)
    assert done.change_cut != done.change
    row = done.report.iloc[0]
    assert (row.part, row.change, row.change_cut) == ("model", done.change, done.change_cut)
    assert len(done.report) == 1 + len(done.layers)


def test_a_rotary_decoder_loses_pairs_and_still_writes():
    model = tiny_llama(torch.float32)
    done = ar.compress(model, LLAMA, size=8, values=True, repair=6)
    # 2 key heads, keys and values of 12, then of 8, 4 bytes
    assert [(x.bytes_before, x.bytes) for x in done.layers] == [(192, 128)] * 2
    assert done.has_cache
    assert done.rotary
    assert "256 bytes per token in the cache instead of 384" in str(done)
    made = done.model.generate(tokens(1, 5), max_new_tokens=3, do_sample=False)
    assert made.shape == (1, 8)
    for layer in done.layers:
        assert 0 < layer.change < layer.change_cut < 1


def test_a_rotary_cut_to_the_whole_size_changes_nothing_and_does_not_pay():
    done = ar.compress(tiny_llama(torch.float32), LLAMA, size=12)
    assert done.change < 1e-5
    assert str(done).startswith("This cut does not pay: it saves no parameters.")
    assert torch.is_grad_enabled()


def test_a_cut_that_changes_the_output_by_far_does_not_pay_and_says_what_it_needs():
    done = ar.compress(tiny_llama(torch.float32), LLAMA, size=2)
    assert done.change > 0.3
    first = str(done).splitlines()[0]
    assert first.startswith("This cut does not pay: the output changes by")
    assert first.endswith("it needs larger heads or repair.")


def test_a_cache_is_that_of_the_decoder_alone():
    done = ar.compress(thin_families.made("t5"), thin_families.given("t5", 4), size=4, values=True)
    assert [layer.in_cache for layer in done.layers] == [False] * 2 + [True] * 4
    # 4 layers, 3 heads, keys and values of 6, then of 4, 8 bytes
    assert "768 bytes per token in the cache instead of 1,152" in str(done)
    assert (done.bytes, done.cache, done.cache_before) == (6 * 3 * 8 * 8, 768, 1152)
    assert done.has_cache
    assert not ar.compress(small("bert").model, given("bert")[1], size=4).has_cache


def test_a_cut_of_the_encoder_alone_saves_nothing_of_the_cache():
    sizes = [4, 4, 6, 6, 6, 6]
    done = ar.compress(thin_families.made("t5"), thin_families.given("t5", 4), sizes=sizes)
    assert done.bytes < done.bytes_before
    assert done.cache == done.cache_before
    # as slow as before, a token must not be excused by bytes of the encoder
    slow = Timing("token", 1, 40, 9, 1.0, 1.1, 1.1, 1.09, 1.2)
    against = replace(done, change=0.1, measured=Measurements((), (slow,), (), ())).against
    assert str(against).startswith("a token takes 1.10 times as long")


def test_changes_are_summed_batch_by_batch():
    one = small("own-vit")
    other = ar.compress(one.model, given("own-vit")[1], size=4).model
    images = torch.randn(5, *one.batch["images"].shape[1:])
    at_once = change(outputs(one.model, [images]), outputs(other, [images]))
    apart = changes(one.model, [other, one.model], [images[:2], images[2:]])
    assert apart == (pytest.approx(at_once, rel=1e-5), 0.0)


def test_the_cache_of_our_own_translator_is_what_it_keeps_from_step_to_step():
    model, inputs = given("own-seq2seq")
    done = ar.compress(model.model, inputs, size=4, values=True, timing=0)
    assert [layer.in_cache for layer in done.layers] == [False] * 2 + [True] * 4
    for translator, said in ((model.model, "instead of 384"), (done.model, "256 bytes per token")):
        source = torch.tensor([[5, 6, 7, 2]])
        _, (_, across, own) = translator.step(translator.begin(source), torch.tensor([1]))
        kept = [x.nbytes / x.shape[2] for layer in (*across, *own) for x in layer]
        assert said in str(done)
        assert f"{sum(kept):.0f}" in said
    assert not any("keeps no keys" in note for note in done.measured.notes)


def test_places_of_padding_in_a_target_do_not_count():
    model, inputs = given("own-seq2seq")
    longer = {**inputs, "target": torch.nn.functional.pad(inputs["target"], (0, 5))}
    one, two = (ar.compress(model.model, x, size=3, timing=0) for x in (inputs, longer))
    assert one.change == pytest.approx(two.change, rel=1e-4)
    assert one.tokens == two.tokens


@pytest.mark.parametrize("name", ["gpt2", "bart", "whisper"])
def test_all_steps_go_through_families_with_a_cache(name):
    model, inputs = thin_families.made(name), thin_families.given(name, 4)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    done = ar.compress(model, inputs, size=4, values=True, repair=4, together=3)
    whole, made = (
        thin_families.output(x, {k: v[-3:] for k, v in inputs.items()}) for x in (model, done.model)
    )
    assert done.held_out == 3
    found = float((made.float() - whole.float()).norm() / whole.float().norm())
    assert done.change == pytest.approx(found, rel=1e-5)
    assert done.change != done.change_cut
    assert all(torch.equal(x, before[key]) for key, x in model.state_dict().items())
    thin = thin_families.text(done.model, thin_families.given(name))
    assert thin.shape[0] == 4


def test_sizes_are_a_size_a_list_a_share_or_an_advice():
    model, inputs = given("own-vit")
    advice = ar.advise(ar.profile(model.model, inputs, cut_inputs=2), budget=7)
    ways = ({"size": 3}, {"sizes": [2, 3]}, {"keep": 0.7}, {})
    found = [[x.size for x in ar.compress(model.model, inputs, **way).layers] for way in ways]
    assert found == [[3, 3], [2, 3], [4, 4], [4, 4]]
    applied = advice.apply(model.model, inputs)
    assert [x.size for x in applied.layers] == [x.size for x in advice.layers]


def test_a_share_is_rounded_to_what_kernels_like():
    assert [kept(Whole(m, m, False), 0.5) for m in (64, 48, 40, 12, 2)] == [32, 24, 16, 6, 2]
    assert [kept(Whole(64, 64, False), share) for share in (0.01, 0.99)] == [8, 64]


def test_the_last_inputs_are_held_out_and_no_other():
    batches = [torch.arange(4.0)[:, None], torch.arange(4.0, 10.0)[:, None]]
    parts = split(batches)
    assert torch.cat([*parts.held]).flatten().tolist() == [8, 9]
    assert torch.cat([*parts.own]).flatten().tolist() == list(range(8))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"size": 9}, r"have the size 8, and can be cut to a size from 1 to 8: got 9.*size=8"),
        ({"size": 0}, "size must be a whole number of at least 1"),
        ({"sizes": [3]}, "one size for each of the 2 layers"),
        ({"sizes": [3, 0]}, r"sizes\[1\] must be a whole number of at least 1"),
        ({"sizes": "all"}, "sizes must be an advice or a list"),
        ({"size": 3, "keep": 0.5}, "only one of size, sizes, keep, loss, bytes and average"),
        ({"keep": 1.5}, "keep must be a share between 0 and 1"),
        ({"shared": "all"}, "shared is not known"),
    ],
)
def test_wrong_sizes_are_refused_with_the_way_out(asked, said):
    model, inputs = given("bert")
    with pytest.raises(ar.InputError, match=said):
        ar.compress(model.model, inputs, **asked)


def test_a_rotary_head_has_an_even_size_and_is_repaired_layer_by_layer():
    model = tiny_llama(torch.float32)
    with pytest.raises(ar.InputError, match=r"turn in pairs.*an even size from 2 to 12: got 7"):
        ar.compress(model, LLAMA, size=7)
    with pytest.raises(ar.InputError, match="together is for heads without"):
        ar.compress(model, LLAMA, size=8, together=3)
    with pytest.raises(ar.InputError, match="needs one size for all layers"):
        ar.compress(model, LLAMA, sizes=[8, 6], shared="model")


def test_too_few_tokens_say_how_many_are_needed():
    model = small("bert")
    with pytest.raises(ar.InputError, match=r"to cut heads to size 4, 40 are needed.*got 22"):
        ar.compress(model.model, model.batch, size=4)
    one = {key: value[:1] for key, value in model.batch.items()}
    with pytest.raises(ar.InputError, match="two at least are needed"):
        ar.compress(model.model, one, size=4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plain", "no thin module for its class: got 'Plain'"),
        ("albert", "its weights serve several layers"),
        ("torch", "MultiheadAttention keeps its weights otherwise"),
    ],
)
def test_a_family_whose_weights_cannot_be_cut_is_named_with_the_reason(name, said):
    model, inputs = given(name)
    with pytest.raises(ar.InputError, match=said):
        ar.compress(model.model, inputs, size=2)
