"""A monitor records the spectra of a training's own passes, and leaves the training as it is."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from monitored import (
    HEADS,
    INPUTS,
    LENGTH,
    WIDTH,
    Attention,
    Blocks,
    encoder_layer,
    plain,
    tokens,
    train,
)
from torch import nn
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack

import attnrate as ar
from attnrate.spectra.monitor.record import rank_beyond
from attnrate.spectra.monitor.schedule import Schedule

Tensor = torch.Tensor
M_H = WIDTH // HEADS


def formed(layer: nn.MultiheadAttention, inputs: list[Tensor], head: int, gauge: str) -> np.ndarray:
    """The singular values of the logits of all queries against all keys, formed in float64."""
    x = torch.cat([each.reshape(-1, WIDTH) for each in inputs]).detach().double()
    made = functional.linear(x, layer.in_proj_weight.double(), layer.in_proj_bias.double())
    q, k = (part[:, head * M_H : (head + 1) * M_H] for part in made.chunk(3, -1)[:2])
    logits = (q @ k.mT / M_H**0.5).detach().numpy()
    if gauge == "softmax":
        logits -= logits.mean(-1, keepdims=True)
    return np.linalg.svd(logits, compute_uv=False)[:M_H] / len(x)


@pytest.mark.parametrize("gauge", ["softmax", "none"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_record_pools_the_logits_of_its_passes(gauge: str, padded: bool) -> None:
    torch.manual_seed(0)
    model = encoder_layer()
    hidden = torch.arange(LENGTH) >= torch.tensor([9, 7, 4, 9])[:, None] if padded else None
    monitor = ar.Monitor(model, every=2, batches=2, gauge=gauge, beyond=3)
    for number in range(4):
        model(tokens(number), src_key_padding_mask=hidden)
        monitor.step()
    frame = monitor.to_frame()
    assert frame.step.unique().tolist() == [1, 2, 4]
    seen = {1: [0], 2: [1], 4: [2, 3]}  # the first step makes a record of its own
    for row in frame.itertuples():
        passes = [tokens(number) for number in seen[row.step]]
        kept = [x if hidden is None else x[~hidden] for x in passes]
        sigma = formed(model.self_attn, kept, row.head, gauge)
        energy = sigma**2
        assert row.tokens == sum(x.numel() // WIDTH for x in kept)
        assert row.sigma_1 == pytest.approx(sigma[0], rel=1e-5)
        assert row.stable_rank == pytest.approx(energy.sum() / energy[0], rel=1e-5)
        assert row.tail == pytest.approx(np.sqrt(energy[3:].sum()), rel=1e-5)
        assert row.rank99 == 1 + np.argmax(energy.cumsum() >= 0.99 * energy.sum())
        assert (row.m_h, row.tail_beyond, row.name) == (M_H, 3, "self_attn")


def test_a_scale_that_is_learned_may_differ_from_pass_to_pass() -> None:
    """Logits of the second pass that are twice as large count as such."""
    torch.manual_seed(0)
    model = Attention()
    x = tokens(0)
    monitor = ar.Monitor(model, every=3, batches=2)
    for scale in (0.5, 0.5, 1.0):
        model.scale.data.fill_(scale)
        model(x)
        monitor.step()
    one, both = (monitor.to_frame().groupby("step").get_group(step) for step in (1, 3))
    # queries of both passes against the same keys: the mean of the squares 1 and 4
    assert both.sigma_1.to_numpy() == pytest.approx(np.sqrt(2.5) * one.sigma_1.to_numpy(), rel=1e-6)
    assert both.stable_rank.to_numpy() == pytest.approx(one.stable_rank.to_numpy(), rel=1e-6)


def test_long_inputs_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"every": 2, "batches": 2}
    _, whole = train(encoder_layer, **settings)
    monkeypatch.setattr("attnrate.spectra.monitor.record._BLOCK", 4 * WIDTH)  # four tokens
    _, parts = train(encoder_layer, **settings)
    assert whole is not None
    assert parts is not None
    one, other = whole.to_frame(), parts.to_frame()
    assert (one.tokens == other.tokens).all()
    columns = ["rank99", "stable_rank", "tail", "sigma_1"]
    assert one[columns].to_numpy() == pytest.approx(other[columns].to_numpy(), rel=1e-10)


@pytest.mark.parametrize(
    ("beyond", "m_h", "rank"), [(0.5, 8, 4), (0.5, 7, 4), (0.99, 8, 8), (3, 8, 3), (9, 8, 8)]
)
def test_the_rank_beyond_which_the_tail_is_taken(beyond: float, m_h: int, rank: int) -> None:
    assert rank_beyond(beyond, m_h) == rank


@pytest.mark.parametrize(
    ("every", "batches", "begun", "watched", "records"),
    [
        (5, 2, 0, {1: 2, 4: 1, 5: 1, 9: 1, 10: 1}, [1, 5, 10]),
        (5, 2, 7, {8: 2, 9: 1, 10: 1}, [8, 10]),
        (1, 2, 0, dict.fromkeys(range(1, 13), 2), [*range(1, 13)]),
        (2, 3, 0, {1: 3} | dict.fromkeys(range(2, 13), 2), [1, *range(2, 13, 2)]),
        (100, 2, 0, {1: 2}, [1]),
    ],
)
def test_the_steps_that_are_watched_and_recorded(
    every: int, batches: int, begun: int, watched: dict[int, int], records: list[int]
) -> None:
    plan = Schedule(every, batches, begun)
    steps = range(begun + 1, 13)
    assert {step: n for step in steps if (n := plan.passes(step - 1))} == watched
    assert [step for step in steps if plan.ends(step - 1, step)] == records


def test_a_step_that_jumps_over_a_multiple_ends_a_record() -> None:
    plan = Schedule(100, 2)
    assert plan.ends(99, 102)
    assert not plan.ends(100, 103)


def gpt2() -> nn.Module:
    import transformers

    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16, "vocab_size": 50}
    return transformers.GPT2Model(transformers.GPT2Config(**sizes))


def ids(number: int) -> tuple[Tensor]:
    draw = torch.Generator().manual_seed(number)
    return (torch.randint(50, (INPUTS, LENGTH), generator=draw),)


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "by hand": (Blocks, 2),
    "by hand, run again": (lambda: Blocks(again="reentrant"), 2),
    "by hand, run again without reentry": (lambda: Blocks(again="other"), 2),
    "encoder": (lambda: Blocks(encoder_layer), 2),
    "encoder, run again": (lambda: Blocks(encoder_layer, "reentrant"), 2),
    "encoder, run again without reentry": (lambda: Blocks(encoder_layer, "other"), 2),
    "attention alone": (Attention, 1),
    "gpt2": (gpt2, 2),
    "ours": (lambda: ar.Transformer(WIDTH, 1, n=8, m_h=4, heads=2, layers=2), 2),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("autocast", [False, True])
def test_a_training_is_the_same_with_a_monitor_and_without(name: str, autocast: bool) -> None:
    """Outputs, gradients, weights and random numbers, bit for bit; nothing is counted twice."""
    make, layers = MODELS[name]
    given: dict[str, Any] = {"autocast": autocast}
    if name == "gpt2":
        given["inputs"] = ids
    usual, _ = train(make, **given)
    watched, monitor = train(make, **given, every=2, batches=2)
    assert usual == watched
    assert monitor is not None
    frame = monitor.to_frame()
    assert frame.layer.nunique() == layers
    pass_ = INPUTS * LENGTH
    assert frame.groupby("step").tokens.unique().map(list).to_dict() == {
        1: [pass_],
        2: [pass_],
        4: [2 * pass_],
    }


class TwoStreams(nn.Module):
    """torch's attention with separate projections, each a parameter that autocast would keep."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(WIDTH, 8)
        self.across = nn.MultiheadAttention(WIDTH, HEADS, kdim=8, vdim=8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        other = self.small(x)
        mixed: Tensor = self.across(x, other, other)[0]
        return mixed


def test_autocast_keeps_no_weight_without_gradients() -> None:
    usual, _ = train(TwoStreams, autocast=True)
    watched, _ = train(TwoStreams, autocast=True, every=1, batches=1)
    assert usual == watched
    assert all(bool(gradient.any()) for gradient in watched.gradients[-4:])


def test_gradient_checkpointing_of_transformers_counts_each_pass_once() -> None:
    import transformers

    torch.manual_seed(0)
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16, "vocab_size": 50}
    model = transformers.GPT2Model(transformers.GPT2Config(**sizes, use_cache=False)).train()
    name = "activation_checkpointing_enable"  # transformers before 5.20 has another one
    getattr(model, name, getattr(model, "gradient_checkpointing_enable", None))()
    monitor = ar.Monitor(model, every=1, batches=1)
    model(*ids(0))[0].square().mean().backward()
    monitor.step()
    assert monitor.to_frame().tokens.tolist() == [INPUTS * LENGTH] * 6


def test_only_passes_with_gradients_in_training_mode_count() -> None:
    model = Blocks()
    monitor = ar.Monitor(model, every=1, batches=3)
    model.eval()
    model(tokens(0))
    model.train()
    with torch.no_grad():
        model(tokens(0))
    model(tokens(0))
    monitor.step()
    assert set(monitor.to_frame().tokens) == {INPUTS * LENGTH}


def test_accumulated_gradients_give_one_pass_of_each_step() -> None:
    model = plain()
    monitor = ar.Monitor(model, every=4, batches=2)
    for step in range(4):
        for part in range(3):
            model(tokens(10 * step + part))
        monitor.step()
    # the first step has to do alone; the other two passes are the first ones of steps 3 and 4
    assert monitor.to_frame().groupby("step").tokens.first().to_dict() == {
        1: 2 * INPUTS * LENGTH,
        4: 2 * INPUTS * LENGTH,
    }
    alone = ar.Monitor(copy.deepcopy(model), every=1, batches=2)
    alone._recorder.door.model(tokens(20))
    alone._recorder.door.model(tokens(30))
    alone.step()
    assert alone.to_frame().sigma_1.tolist() == monitor.to_frame().sigma_1.tolist()[-4:]
    for one in (monitor, alone):
        one.close()


def hooks(model: nn.Module) -> int:
    """The number of hooks at all parts of a model."""
    return sum(len(p._forward_hooks) + len(p._forward_pre_hooks) for p in model.modules())


@pytest.fixture
def left_clean() -> Callable[[nn.Module], bool]:
    """Whether a model and torch are as if nobody had watched."""
    from transformers.modeling_utils import AttentionInterface

    before = AttentionInterface.get_interface, functional.multi_head_attention_forward

    def clean(model: nn.Module) -> bool:
        now = AttentionInterface.get_interface, functional.multi_head_attention_forward
        return now == before and not _get_current_function_mode_stack() and hooks(model) == 0

    return clean


def test_nothing_is_at_the_model_at_steps_that_are_not_due(
    left_clean: Callable[[nn.Module], bool],
) -> None:
    model = Blocks()
    monitor = ar.Monitor(model, every=5, batches=1)
    found = []
    for step in range(1, 10):
        waiting = hooks(model)
        model(tokens(step))
        # as soon as the pass is over, whatever comes next in the step
        assert left_clean(model)
        monitor.step()
        found += [step] * waiting
    assert found == [1, 5]
    monitor.close()


def test_closing_ends_the_watch(left_clean: Callable[[nn.Module], bool]) -> None:
    model = Blocks()
    with ar.Monitor(model, every=1) as monitor:
        model(tokens(0))
        monitor.step()
        assert hooks(model) == 1
    assert left_clean(model)
    monitor.step()
    model(tokens(0))
    monitor.step()
    assert monitor.to_frame().step.unique().tolist() == [1]


class Breaking(Blocks):
    """Raises between its two blocks, if there is something to raise."""

    problem: BaseException | None = None

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks[0](x)
        if self.problem is not None:
            raise self.problem
        made: Tensor = self.blocks[1](x)
        return made


def test_an_error_of_the_model_is_passed_on(left_clean: Callable[[nn.Module], bool]) -> None:
    model = Breaking()
    monitor = ar.Monitor(model, every=1, batches=1)
    model.problem = ZeroDivisionError("theirs")
    with pytest.raises(ZeroDivisionError, match="theirs"):
        model(tokens(0))
    assert left_clean(model)
    monitor.close()


def test_an_interrupt_within_a_pass_is_mended_by_the_next_pass(
    left_clean: Callable[[nn.Module], bool],
) -> None:
    model = Breaking()
    monitor = ar.Monitor(model, every=1, batches=1)
    model.problem = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model(tokens(0))
    model.problem = None
    model(tokens(1))
    assert not _get_current_function_mode_stack()
    # neither of the two passes counts, and the next one does
    x = tokens(2)
    model(x)
    monitor.step()
    monitor.close()
    assert left_clean(model)
    alone = ar.Monitor(model, every=1, batches=1)
    model(x)
    alone.step()
    alone.close()
    assert monitor.to_frame().head(HEADS).equals(alone.to_frame().head(HEADS))


def test_an_interrupt_within_a_block_is_mended_at_its_end(
    left_clean: Callable[[nn.Module], bool],
) -> None:
    model = Breaking()
    model.problem = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), ar.Monitor(model, every=1):
        model(tokens(0))
    assert left_clean(model)


def test_copies_and_pickles_of_a_model_are_not_watched() -> None:
    model = Blocks()
    with ar.Monitor(model, every=1, batches=1) as monitor:
        copied = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        opened = torch.load(file, weights_only=False)
        for other in (copied, opened):
            assert torch.equal(other.eval()(tokens(0)), copy.deepcopy(model).eval()(tokens(0)))
            other.train()(tokens(0))
        model(tokens(0))
        monitor.step()
    assert set(monitor.to_frame().tokens) == {INPUTS * LENGTH}


def test_a_compiled_model_is_watched_inside_and_stays_compiled() -> None:
    made: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        made.append(len(graph.graph.nodes))
        return graph.forward

    torch.manual_seed(0)
    model = Blocks()
    compiled = torch.compile(model, backend=backend)
    with ar.Monitor(compiled, every=3, batches=1) as monitor:
        for number in range(3):
            compiled(tokens(number))
            monitor.step()
            if number == 0:
                assert made == []  # the pass that is watched runs as it is written
    assert len(made) == 1
    assert monitor.to_frame().name.unique().tolist() == ["blocks.0", "blocks.1"]
    torch.compiler.reset()
    model.compile(backend=backend)
    with ar.Monitor(model, every=3, batches=1) as again:
        for number in range(2):
            model(tokens(number))
            again.step()
    assert len(again.to_frame()) == 4
    assert len(made) == 2
    torch.compiler.reset()


def test_layers_may_be_chosen_by_number_or_name() -> None:
    _, some = train(Blocks, every=2, layers=["blocks.1"])
    _, other = train(Blocks, every=2, layers=1)
    assert some is not None
    assert other is not None
    assert some.to_frame().name.unique().tolist() == ["blocks.1"]
    assert some.to_frame().equals(other.to_frame())


def test_a_continued_training_counts_on() -> None:
    model = Blocks()
    monitor = ar.Monitor(model, every=5, start=98)
    for number in range(4):
        model(tokens(number))
        monitor.step()
    monitor.step(110)
    assert monitor.to_frame().step.unique().tolist() == [99, 100]
    assert "Blocks after 110 steps: 2 records of 4 heads in 2 layers; at step 100" in repr(monitor)
    monitor.close()


def test_what_a_monitor_shows() -> None:
    _, monitor = train(Blocks, steps=6, every=2)
    assert monitor is not None
    axes = monitor.plot().axes[0]
    assert axes.get_xlabel() == "step"
    assert len(monitor.plot("tail", layers="blocks.0").axes) == 1
    assert "<img" in monitor._repr_html_()
    assert "nothing recorded yet" in repr(ar.Monitor(Attention()))
    with pytest.raises(ar.InputError, match=r"no such layer was recorded: got 7. Recorded: 0 \("):
        monitor.plot(layers=[7])


def test_of_many_layers_six_are_drawn() -> None:
    class Deep(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*(Attention() for _ in range(12)))

    _, monitor = train(Deep, steps=2, every=1)
    assert monitor is not None
    figure = monitor.plot()
    said = [text.get_text() for text in figure.findobj(match=lambda x: hasattr(x, "get_text"))]
    assert {word for word in said if ": " in word and word[0].isdigit()} == {
        f"{layer}: {layer}" for layer in (0, 2, 4, 7, 9, 11)
    }


def test_a_model_within_distributed_data_parallel_is_watched_inside(tmp_path: Path) -> None:
    """One real process of torch.distributed; the names of layers are those of the model."""
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1
    )
    try:
        model = plain()
        parallel = nn.parallel.DistributedDataParallel(model)
        with ar.Monitor(parallel, every=1, batches=1) as monitor:
            parallel(tokens(0)).square().mean().backward()
            monitor.step()
        with ar.Monitor(model, every=1, batches=1) as inner:
            parallel(tokens(0)).square().mean().backward()
            inner.step()
    finally:
        distributed.destroy_process_group()
    assert monitor.to_frame().name.unique().tolist() == ["blocks.0", "blocks.1"]
    columns = ["step", "name", "rank99", "sigma_1"]
    assert monitor.to_frame()[columns].equals(inner.to_frame()[columns])


def test_only_the_process_of_rank_0_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for rank, rows in (("0", 4), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        model = Blocks()
        path = tmp_path / f"{rank}.csv"
        with ar.Monitor(model, every=1, log=path) as monitor:
            assert hooks(model) == (1 if rank == "0" else 0)
            model(tokens(0))
            monitor.step()
        assert len(monitor.to_frame()) == rows
        assert path.exists() == (rank == "0")
