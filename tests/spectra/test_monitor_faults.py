"""Wrong settings are refused before training; what goes wrong in training is a warning, once."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from monitored import INPUTS, LENGTH, WIDTH, Attention, Blocks, encoder_layer, tokens
from torch import nn

import attnrate as ar
from attnrate.spectra.monitor.record import COLUMNS

Tensor = torch.Tensor


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"every": 0}, "every must be a whole number of at least 1: got 0. Pass every=1 or more."),
        ({"every": 2.5}, "every must be a whole number"),
        ({"batches": 0}, "batches must be a whole number of at least 1"),
        ({"beyond": 1.5}, "beyond must be a whole number, or a share between 0 and 1: got 1.5"),
        ({"beyond": -1}, "beyond must be a whole number of at least 0"),
        ({"gauge": "soft"}, "gauge is not known: got 'soft'. Choose one of 'softmax', 'none'."),
        ({"layers": []}, "no layer was named"),
        ({"layers": 1.5}, "layers must be a whole number"),
        ({"each_head": 1}, "each_head must be True or False"),
        ({"start": -1}, "start must be a whole number of at least 0"),
        ({"log": 3}, "log is of no kind that takes numbers: got 3. Pass the path of a CSV file"),
        ({"log": logging.getLogger()}, "log is of no kind that takes numbers"),
        ({"log": dict}, "log is of no kind that takes numbers"),
        ({"log": ["ranks.csv", None]}, "log is of no kind that takes numbers: got None"),
        ({"log": "no such folder/ranks.csv"}, "log lies in a folder that does not exist"),
        ({"log": "."}, "the file of log is a folder"),
    ],
)
def test_a_wrong_setting_is_refused(
    settings: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Blocks()
    with pytest.raises(ar.InputError) as problem:
        ar.Monitor(model, **settings)
    assert said in str(problem.value)
    assert not model._forward_pre_hooks
    assert not [*tmp_path.iterdir()]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ar.InputError, match=r"a model must be a torch.nn.Module: got 'str'"):
        ar.Monitor("gpt2")  # type: ignore[arg-type]


def test_attention_that_cannot_be_watched_at_all_is_refused_at_once() -> None:
    with pytest.raises(ar.InputError, match="a key that belongs to no token"):
        ar.Monitor(nn.MultiheadAttention(8, 2, add_bias_kv=True))


def test_a_file_with_other_columns_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("epoch,loss\n1,0.5\n")
    with pytest.raises(ar.InputError) as problem:
        ar.Monitor(Blocks(), log=path)
    assert str(problem.value).startswith(
        "the file of log is there already and has other columns: got 'epoch,loss'. Pass another"
    )
    assert path.read_text() == "epoch,loss\n1,0.5\n"


def passes(monitor: ar.Monitor, model: nn.Module, steps: int = 1) -> None:
    for number in range(steps):
        model(tokens(number))
        monitor.step()


def test_a_model_without_attention_is_said_once_and_left_alone() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    monitor = ar.Monitor(model, every=1)
    with pytest.warns(ar.AccuracyWarning) as said:
        passes(monitor, model, 3)
    assert len(said) == 1
    assert "nothing will be recorded: this Sequential has no softmax attention" in str(
        said[0].message
    )
    assert said[0].filename == __file__
    assert not model._forward_pre_hooks
    assert monitor.to_frame().columns.tolist() == [*COLUMNS]
    with pytest.raises(ar.InputError, match="nothing has been recorded after 3 steps"):
        monitor.plot()


class LinearAttention(nn.Module):
    """Attention without softmax."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ (x.mT @ x) / LENGTH


def test_attention_that_cannot_be_read_is_named_once() -> None:
    model = nn.Sequential(Attention(), LinearAttention())
    monitor = ar.Monitor(model, every=1)
    with pytest.warns(ar.AccuracyWarning, match=r"is left out: 1 \(LinearAttention\)") as said:
        passes(monitor, model, 3)
    assert len(said) == 1
    assert monitor.to_frame().name.unique().tolist() == ["0"]
    monitor.close()


def test_a_layer_that_is_not_there_is_said_with_those_that_are() -> None:
    model = Blocks()
    monitor = ar.Monitor(model, every=1, layers=["blocks.1", "blocks.7"])
    with pytest.warns(ar.AccuracyWarning, match=r"no layer has this name: got 'blocks.7'. Known: "):
        passes(monitor, model)
    assert monitor.to_frame().name.unique().tolist() == ["blocks.1"]
    other = ar.Monitor(Blocks(), every=1, layers=9)
    with pytest.warns(ar.AccuracyWarning, match="layers must be a whole number of at least 0"):
        passes(other, other._recorder.door.called)
    assert other.to_frame().empty
    for one in (monitor, other):
        one.close()


def test_a_step_that_is_never_called_is_said_at_the_end() -> None:
    model = Blocks()
    with (
        pytest.warns(ar.AccuracyWarning, match=r"step\(\) was never called"),
        ar.Monitor(model) as monitor,
    ):
        model(tokens(0))
    assert monitor.to_frame().empty


def test_an_error_of_the_loop_is_not_followed_by_a_warning() -> None:
    with pytest.raises(ZeroDivisionError), ar.Monitor(Blocks()):
        raise ZeroDivisionError


def test_a_model_that_the_loop_does_not_call_is_said() -> None:
    model = Blocks()
    monitor = ar.Monitor(model, every=1)
    with pytest.warns(ar.AccuracyWarning, match="no forward pass of this Blocks was seen") as said:
        passes(monitor, model.blocks[0], 3)
    assert len(said) == 1
    monitor.close()


def test_a_model_in_evaluation_mode_is_said() -> None:
    model = Blocks().eval()
    with ar.Monitor(model, every=1) as monitor:
        with pytest.warns(ar.AccuracyWarning, match=r"in evaluation mode.*Call model.train\(\)"):
            passes(monitor, model)
        passes(monitor, model.train())
    assert monitor.to_frame().step.unique().tolist() == [2]


def test_a_head_that_is_not_finite_has_no_numbers_and_the_others_have() -> None:
    torch.manual_seed(0)
    model = encoder_layer()
    with torch.no_grad():
        model.self_attn.in_proj_weight[0, 0] = math.nan  # a query of head 0
    with ar.Monitor(model, every=1, beyond=2) as monitor:
        with pytest.warns(ar.AccuracyWarning, match="self_attn are not finite at step 1") as said:
            passes(monitor, model, 2)
        assert len(said) == 1
    numbers = monitor.to_frame()[["rank99", "stable_rank", "tail", "sigma_1"]]
    assert numbers[::2].isna().all(axis=None)
    assert (numbers[1::2] > 0).all(axis=None)


def test_a_layer_that_cannot_be_read_does_not_stop_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from attnrate.spectra.monitor import record

    original = record._pooled

    def scarce(x: Tensor, kept: Tensor | None) -> Any:
        if x.shape[1] == 3:
            raise torch.OutOfMemoryError("no memory left\nand more")
        return original(x, kept)

    monkeypatch.setattr(record, "_pooled", scarce)
    model = nn.Sequential(
        encoder_layer(), nn.Linear(WIDTH, 18), nn.TransformerEncoderLayer(18, 3, 20)
    )
    with ar.Monitor(model, every=1) as monitor:
        with pytest.warns(
            ar.AccuracyWarning, match=r"2.self_attn could not be read \(no memory left\)"
        ) as said:
            passes(monitor, model, 2)
        assert len(said) == 1
    assert monitor.to_frame().name.unique().tolist() == ["0.self_attn"]


def test_a_place_that_fails_is_said_once_and_the_others_go_on() -> None:
    calls: list[int] = []

    def failing(step: int, numbers: dict[str, float]) -> None:
        calls.append(step)
        raise OSError(28, "No space left on device")

    seen: list[int] = []

    def working(step: int, numbers: dict[str, float]) -> None:
        seen.append(step)

    model = Blocks()
    with ar.Monitor(model, every=1, log=[failing, working]) as monitor:
        with pytest.warns(ar.AccuracyWarning, match="step 1 could not be logged .*No space") as n:
            passes(monitor, model, 3)
        assert len(n) == 1
    assert calls == seen == [1, 2, 3]


def test_inputs_of_changing_number_and_length_are_pooled() -> None:
    model = Blocks()
    with ar.Monitor(model, every=3, batches=2) as monitor:
        for inputs, length in ((4, 9), (2, 5), (3, 7)):
            model(torch.randn(inputs, length, WIDTH))
            monitor.step()
    assert monitor.to_frame().groupby("step").tokens.first().to_dict() == {
        1: INPUTS * LENGTH,
        3: 2 * 5 + 3 * 7,
    }


class Recursive(nn.Module):
    """A model that runs itself."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Attention()

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        made: Tensor = self.block(x) if depth == 0 else self(x, depth - 1)
        return made


def test_a_model_that_runs_itself_is_left_alone() -> None:
    model = Recursive()
    monitor = ar.Monitor(model, every=1, batches=1)
    with pytest.warns(ar.AccuracyWarning, match="no forward pass"):
        passes(monitor, model)
    monitor.close()
    assert monitor.to_frame().empty
    assert sum(len(p._forward_hooks) + len(p._forward_pre_hooks) for p in model.modules()) == 0
