"""A metric of the user's with heads whole and cut, against models cut by hand in their weights."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.advise import advise
from attnrate.spectra.profile import profile

Tensor = torch.Tensor


def small(layers: int = 2) -> nn.Module:
    torch.manual_seed(0)
    model = ar.Transformer(2, 1, n=10, m_h=8, m_v=4, width=16, depth=1, layers=layers, heads=2)
    for part in [model, *model.inner]:
        part.W_Q.weight.data *= 300
        part.W_V.weight.data *= 30
    return model


def draw(seed: int, inputs: int = 12) -> Tensor:
    return torch.rand(inputs, 20, 2, generator=torch.Generator().manual_seed(seed))


def size(model: nn.Module, batch: Tensor) -> Tensor:
    """A metric of the tests: the root mean square of each input's output."""
    return model(batch).square().mean((1, 2)).sqrt()


def cut_by_hand(model: nn.Module, advice: ar.Advice) -> nn.Module:
    """A copy of the model whose W_Q makes the cut queries: rows q become q P, W_Q becomes PᵀW_Q."""
    made = copy.deepcopy(model)
    for layer, spectra in zip(advice.layers, advice.profile.layers, strict=True):
        P = spectra.cut_to([layer.size] * spectra.heads, "softmax").float()
        part = made if layer.name == "last" else made.get_submodule(layer.name)
        W = part.W_Q.weight.data.view(spectra.heads, spectra.m_h, -1)
        part.W_Q.weight.data = (P.mT @ W).reshape(spectra.heads * spectra.m_h, -1)
    return made


@pytest.fixture(scope="module")
def advice() -> ar.Advice:
    return advise(profile(small(), draw(0)), budget=5)


def test_a_metric_is_that_of_the_model_and_of_the_model_cut_by_hand(advice: ar.Advice) -> None:
    model, inputs = small(), draw(1)
    found = advice.check(model, inputs, size).metric
    assert found is not None
    with torch.no_grad():
        whole, less = size(model, inputs), size(cut_by_hand(model, advice), inputs)
    assert found.before.value == pytest.approx(float(whole.mean()), rel=1e-6)
    assert found.after.value == pytest.approx(float(less.mean()), rel=1e-5)
    assert abs(found.change.value) > 1e-3
    wanted = ar.mean((less - whole).tolist())
    assert found.change.value == pytest.approx(wanted.value, rel=1e-3)
    assert found.change.high - found.change.low == pytest.approx(wanted.high - wanted.low, rel=1e-3)
    assert (found.per_input, found.change.count) == (True, 12)


def test_a_metric_may_run_the_model_many_times_and_all_of_them_are_cut(advice: ar.Advice) -> None:
    def three_times(model: nn.Module, batch: Tensor) -> Tensor:
        # in other parts than the batch, so that each run is another one
        return torch.cat([size(model, part) for part in batch.split(5)]) + 0 * size(model, batch)

    model, inputs = small(), draw(1)
    once, often = (advice.check(model, inputs, way).metric for way in (size, three_times))
    assert once is not None
    assert often is not None
    assert often.after.value == pytest.approx(once.after.value, rel=1e-6)


def test_numbers_of_batches_have_intervals_over_batches(advice: ar.Advice) -> None:
    def loss(model: nn.Module, batch: Tensor) -> float:
        return float(size(model, batch).mean())

    model, inputs = small(), draw(1)
    found = advice.check(model, list(inputs.split(3)), loss).metric
    alone = advice.check(model, inputs, loss).metric
    by_input = advice.check(model, inputs, size).metric
    assert found is not None
    assert alone is not None
    assert by_input is not None
    assert (found.per_input, found.change.count) == (False, 4)
    assert found.change.value == pytest.approx(by_input.change.value, rel=1e-4)
    assert found.change.low < found.change.high
    assert alone.change.value == pytest.approx(by_input.change.value, rel=1e-4)
    assert math.isnan(alone.change.low)
    assert "mean over 4 batches." in str(found)
    assert "mean over 1 batch." in str(alone)


@pytest.mark.parametrize(
    "kind", [lambda x: x.double(), lambda x: x.numpy(), lambda x: x.tolist(), lambda x: list(x)]
)
def test_one_number_per_input_is_a_tensor_an_array_or_a_list(kind: Any, advice: ar.Advice) -> None:
    model, inputs = small(), draw(1)
    found = advice.check(model, inputs, lambda model, batch: kind(size(model, batch))).metric
    assert found is not None
    assert found.per_input
    with torch.no_grad():
        assert found.before.value == pytest.approx(float(size(model, inputs).mean()), rel=1e-6)


def test_heads_that_keep_their_size_leave_the_metric_exactly_as_it_was() -> None:
    model = small()
    whole = advise(profile(model, draw(0)), budget=16)
    found = whole.check(model, draw(1), size).metric
    assert found is not None
    assert [layer.size for layer in whole.layers] == [8, 8]
    assert (found.change.low, found.change.value, found.change.high) == (0.0, 0.0, 0.0)


def test_the_model_is_at_rest_for_the_metric_and_as_before_afterwards(advice: ar.Advice) -> None:
    model = small().train()
    seen: list[tuple[bool, bool, float]] = []

    def metric(model: nn.Module, batch: Tensor) -> Tensor:
        seen.append((model.training, torch.is_grad_enabled(), float(torch.rand(()))))
        return size(model, batch)

    state = torch.get_rng_state()
    advice.check(model, draw(1), metric)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert seen[0][:2] == (False, False)
    assert seen[0] == seen[1]  # the same random numbers whole and cut
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_a_metric_that_fails_leaves_the_model_as_it_was(advice: ar.Advice) -> None:
    model, runs = small(), []

    def metric(model: nn.Module, batch: Tensor) -> Tensor:
        runs.append(size(model, batch))
        if len(runs) == 2:
            raise ZeroDivisionError("the user's own")
        return runs[0]

    with pytest.raises(ZeroDivisionError, match="the user's own"):
        advice.check(model, draw(1), metric)
    with torch.no_grad():
        assert torch.equal(size(model, draw(1)), runs[0])


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (math.nan, r"the metric is not finite with whole heads: got \[nan\]"),
        (torch.full((12,), math.inf), r"not finite with whole heads: got \[inf, inf, inf"),
        (None, "with whole heads it returned None"),
        ("low", "with whole heads it returned 'low'"),
        ({"loss": 1.0}, "it returned {'loss': 1.0}"),
        (torch.zeros(5), r"one for each of the 12 inputs .* and shape \(5,\)"),
        (torch.zeros(12, 20), r"type torch.float32 and shape \(12, 20\)"),
        (np.array([1j] * 12), "type torch.complex128"),
    ],
)
def test_what_is_no_number_is_refused_with_its_value(
    returned: Any, words: str, advice: ar.Advice
) -> None:
    with pytest.raises(InputError, match=words):
        advice.check(small(), draw(1), lambda model, batch: returned)


def test_what_is_no_number_after_the_cut_is_refused_too(advice: ar.Advice) -> None:
    found: list[float | list[float]] = [0.5, math.nan]
    with pytest.raises(InputError, match=r"not finite with heads cut: got \[nan\]"):
        advice.check(small(), draw(1), lambda model, batch: found.pop(0))
    found = [0.5, [0.5] * 12]

    def metric(model: nn.Module, batch: Tensor) -> Any:
        size(model, batch)
        return found.pop(0)

    with pytest.raises(InputError, match=r"as many numbers with heads cut as with whole"):
        advice.check(small(), draw(1), metric)


def test_a_metric_that_does_not_run_the_model_says_nothing_of_the_cut(advice: ar.Advice) -> None:
    other = small()
    for metric in (lambda model, batch: 0.5, lambda model, batch: size(other, batch)):
        with pytest.raises(InputError, match=r"does not run layers that are cut: got \['inner.0'"):
            advice.check(small(), draw(1), metric)


def test_a_metric_that_is_no_function_is_refused(advice: ar.Advice) -> None:
    with pytest.raises(InputError, match="metric must be a function: got 'loss'"):
        advice.check(small(), draw(1), "loss")  # type: ignore[arg-type]


def test_what_was_checked_says_so(advice: ar.Advice) -> None:
    checked = advice.check(small(), draw(1), size)
    assert str(checked.metric) in str(checked)
    assert str(checked.metric).startswith("The metric goes from ")
    assert "The metric" not in str(advice.check(small(), draw(1)))


def language_model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 48, "vocab_size": 40}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=None))
    for block in model.transformer.h:
        block.attn.c_attn.weight.data *= 20
    return model.eval()


def loss_per_token(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(**batch).logits[:, :-1].transpose(1, 2)
    wanted = batch["input_ids"][:, 1:]
    return nn.functional.cross_entropy(logits, wanted, reduction="none").mean(1)


def tokens(seed: int, inputs: int = 8) -> dict[str, Tensor]:
    ids = torch.randint(1, 40, (inputs, 24), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids}


def gpt2_cut_by_hand(model: GPT2LMHeadModel, advice: ar.Advice) -> GPT2LMHeadModel:
    made = copy.deepcopy(model)
    for layer, spectra in zip(advice.layers, advice.profile.layers, strict=True):
        P = torch.block_diag(*spectra.cut_to([layer.size] * spectra.heads, "softmax")).float()
        one = made.get_submodule(layer.name).c_attn  # a row x becomes x W + b; queries first
        one.weight.data[:, :24] = one.weight.data[:, :24] @ P
        one.bias.data[:24] = one.bias.data[:24] @ P
    return made


def test_the_perplexity_of_a_whole_language_model_is_that_of_one_cut_by_hand() -> None:
    model = language_model()
    advice = advise(profile(model, tokens(0), cut_inputs=4), budget=8)
    found = advice.check(model, tokens(1), loss_per_token).metric
    assert found is not None
    with torch.no_grad():
        loss = model(**tokens(1), labels=tokens(1)["input_ids"]).loss
        less = gpt2_cut_by_hand(model, advice)(**tokens(1), labels=tokens(1)["input_ids"]).loss
    # all inputs are equally long, so the mean over inputs is the mean over tokens
    assert math.exp(found.before.value) == pytest.approx(float(loss.exp()), rel=1e-5)
    assert math.exp(found.after.value) == pytest.approx(float(less.exp()), rel=1e-4)
    assert found.after.value != found.before.value


def test_what_a_cut_model_writes_is_what_one_cut_by_hand_writes() -> None:
    """generate runs the model once per token, with a cache of keys."""
    model = language_model()
    advice = advise(profile(model, tokens(0), cut_inputs=4), budget=4)
    written: list[Tensor] = []

    def metric(model: Any, batch: dict[str, Tensor]) -> float:
        made = model.generate(**batch, max_new_tokens=12, do_sample=False, pad_token_id=0)
        written.append(made)
        return float(made.double().mean())

    advice.check(model, tokens(1), metric)
    by_hand = gpt2_cut_by_hand(model, advice).generate(
        **tokens(1), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    assert torch.equal(written[1], by_hand)
    assert not torch.equal(written[0], by_hand)


def test_a_base_that_was_profiled_and_a_whole_model_that_is_checked_are_told_apart() -> None:
    model = language_model()
    advice = advise(profile(model.transformer, tokens(0), cut_inputs=4), budget=8)
    with pytest.raises(InputError, match="head of its task has other names"):
        advice.check(model, tokens(1), loss_per_token)
