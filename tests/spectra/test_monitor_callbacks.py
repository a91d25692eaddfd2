"""The callbacks for transformers.Trainer and for Lightning, each in a real training."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from monitored import WIDTH, encoder_layer
from torch import nn
from torch.overrides import _get_current_function_mode_stack

import attnrate as ar
from attnrate.extras import is_installed

Tensor = torch.Tensor
LIGHTNING = next((n for n in ("lightning", "pytorch_lightning") if is_installed(n)), None)


class Classifier(nn.Module):
    """A model as the Trainer takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = encoder_layer(), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.layer(x).mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


DATA = [
    {"x": torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(n)), "labels": n % 2}
    for n in range(24)
]


def trained(folder: Path, *callbacks: Any, **settings: Any) -> Any:
    """A Trainer after six steps of two batches of two inputs each."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    torch.manual_seed(0)
    arguments = transformers.TrainingArguments(
        str(folder),
        **{"max_steps": 6, "report_to": "none", "logging_steps": 4} | settings,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        dataloader_pin_memory=False,
        seed=0,
    )
    trainer = transformers.Trainer(
        Classifier(), arguments, train_dataset=DATA, callbacks=[*callbacks]
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return trainer


def test_a_trainer_records_logs_and_reports(tmp_path: Path) -> None:
    from transformers import TrainerCallback

    class Reports(TrainerCallback):
        """Stands for TensorBoard, Weights & Biases, …: whatever the Trainer reports to."""

        def __init__(self) -> None:
            self.logged: list[tuple[int, dict[str, float]]] = []

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self.logged.append((state.global_step, dict(logs)))

    reports = Reports()
    callback = ar.trainer_callback(every=3, log=tmp_path / "ranks.csv")
    # whether it comes before the others or after them
    trainer = trained(tmp_path, callback, reports)
    assert callback.monitor is not None
    frame = callback.monitor.to_frame()
    # of each step one of its two passes, two inputs of five tokens; the first has to do alone
    assert frame.groupby("step").tokens.first().to_dict() == {1: 20, 3: 20, 6: 20}
    assert frame.name.unique().tolist() == ["layer.self_attn"]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "ranks.csv"), frame)
    ours = [(step, logs) for step, logs in reports.logged if "attnrate/rank99_median" in logs]
    assert [step for step, _ in ours] == [1, 3, 6]
    medians = frame.groupby("step").rank99.median().to_dict()
    name = "attnrate/layer.self_attn/rank99_median"
    assert {step: logs[name] for step, logs in ours} == medians
    kept = [one for one in trainer.state.log_history if name in one]
    assert [(one["step"], one[name]) for one in kept] == [*medians.items()]
    # the Trainer's own numbers still come when they should
    assert [step for step, logs in reports.logged if "loss" in logs] == [4]
    assert not trainer.model._forward_pre_hooks


def test_a_trainer_learns_the_same_with_the_callback_and_without(tmp_path: Path) -> None:
    plain = trained(tmp_path).model.state_dict()
    watched = trained(tmp_path, ar.trainer_callback(every=2)).model.state_dict()
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


def test_a_trainer_that_trains_again_has_a_new_monitor(tmp_path: Path) -> None:
    callback = ar.trainer_callback(every=3)
    trainer = trained(tmp_path, callback)
    first = callback.monitor
    trainer.train()
    assert callback.monitor is not first
    assert callback.monitor is not None
    assert callback.monitor.to_frame().step.unique().tolist() == [1, 3, 6]


def test_a_wrong_setting_of_a_callback_is_refused_when_it_is_made() -> None:
    for make in (ar.trainer_callback, ar.lightning_callback):
        with pytest.raises(ar.InputError, match="every must be a whole number of at least 1"):
            make(every=0)
        with pytest.raises(TypeError, match=r"callback\(\) got an .*'evry'. Did you mean 'every'"):
            make(evry=10)


def test_a_callback_says_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnrate.spectra.monitor import trainer

    trainer._callback_class.cache_clear()
    for name in ("transformers", "lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ar.InputError, match="needs transformers, which is not installed"):
        ar.trainer_callback()
    with pytest.raises(ar.InputError, match="Install it: pip install lightning"):
        ar.lightning_callback()


@pytest.mark.skipif(LIGHTNING is None, reason="Lightning is not installed")
@pytest.mark.filterwarnings("default")  # Lightning advises its users by warnings
@pytest.mark.parametrize(("by_hand", "accumulated"), [(False, 1), (False, 2), (True, 1)])
def test_lightning_records_and_logs(tmp_path: Path, by_hand: bool, accumulated: int) -> None:
    """`training_step` calls a part of the module, with and without automatic optimisation."""
    home = "lightning.pytorch" if LIGHTNING == "lightning" else "pytorch_lightning"
    lightning: Any = import_module(home)

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Classifier()
            self.automatic_optimization = not by_hand

        def training_step(self, batch: dict[str, Tensor], number: int) -> Tensor:
            loss: Tensor = self.net(**batch)["loss"]
            if by_hand:
                optimiser = self.optimizers()
                optimiser.zero_grad()
                self.manual_backward(loss)
                optimiser.step()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = ar.lightning_callback(every=3, log=tmp_path / "ranks.csv")
    logger = import_module(f"{home}.loggers").CSVLogger(str(tmp_path))
    trainer = lightning.Trainer(
        max_steps=6,
        accelerator="cpu",
        callbacks=[callback],
        logger=logger,
        accumulate_grad_batches=accumulated,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(DATA, batch_size=2))
    assert callback.monitor is not None
    frame = callback.monitor.to_frame()
    first = 10 * accumulated  # one pass is two inputs of five tokens
    assert frame.groupby("step").tokens.first().to_dict() == {1: first, 3: 20, 6: 20}
    assert frame.name.unique().tolist() == ["net.layer.self_attn"]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "ranks.csv"), frame)
    written = pd.read_csv(Path(logger.log_dir) / "metrics.csv")
    assert written.step.tolist() == [1, 3, 6]
    assert not _get_current_function_mode_stack()
    assert sum(len(p._forward_hooks) for p in module.modules()) == 0
