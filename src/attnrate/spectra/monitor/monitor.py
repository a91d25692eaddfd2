"""The monitor: what attention heads use, recorded while a model is trained."""

from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.settings import Count, Natural, Switch, by, checked
from attnrate.shown import Shown
from attnrate.spectra.load import ModelLike, module_of, require_model
from attnrate.spectra.measures import counted
from attnrate.spectra.monitor.drawn import spread, steps_figure
from attnrate.spectra.monitor.options import Beyond, LayersLike, Log, options
from attnrate.spectra.monitor.record import COLUMNS, MEASURES, LayerRecord
from attnrate.spectra.monitor.recorder import Recorder
from attnrate.spectra.picked import Layers, Picked, require_layers
from attnrate.words import GaugeLike

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Measure: TypeAlias = Literal["rank99", "stable_rank", "tail", "sigma_1"]
"""What is recorded of every head: a column of the table of a monitor."""


class Monitor(Shown):
    """Records what attention heads use of their dimensions while a model is trained.

    After the first step, and whenever `every` more steps are done, the singular values of each
    head's logits are summed up: the rank that holds 99 % of their energy, the stable rank, the
    tail. The forward passes of the training itself are watched, a few for each record; output,
    gradients and random numbers stay as they are, and no other pass takes longer. Passes in
    evaluation mode or without gradients do not count.

    Wrong settings are refused when the monitor is made. From then on it never stops a training:
    what cannot be read or written is an AccuracyWarning.

    Args:
        model: The torch module that the training loop calls. A module that is compiled or within
            DistributedDataParallel is watched inside; only the process of rank 0 records.
        every: Steps between two records.
        batches: The largest number of forward passes in a record. They are taken from as many
            steps, one from each, if `every` leaves room for that.
        log: Where numbers go as they come: the path of a CSV file (a row per head), a SummaryWriter
            of TensorBoard, a run of Weights & Biases, an object with `log_metrics`, a function of
            the step and a dictionary of numbers, or a list of these. None only keeps them.
        layers: Numbers or names of the attention layers to record; all by default.
        gauge: "softmax" takes out of the logits what softmax cannot see, the mean of each row;
            "none" leaves it in.
        beyond: The rank beyond which the tail is taken: a whole number, or a share of the head
            size.
        each_head: Whether every head has curves of its own in `log`, beside those of its layer. A
            CSV file always has a row for each head.
        start: The number of steps that were done before, in a training that is continued.

    Raises:
        InputError: A setting is wrong, or a CSV file is there already and has other columns.

    Warns:
        AccuracyWarning: The model has no attention that can be read, or no pass of it was seen; a
            layer or a place to log to failed. Each is said once.

    Examples:
        >>> import torch
        >>> model = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with ar.Monitor(model, every=5, log="ranks.csv") as monitor:
        ...     for step in range(10):
        ...         optimiser.zero_grad()
        ...         model(torch.randn(4, 20, 16)).square().mean().backward()
        ...         optimiser.step()
        ...         monitor.step()
        >>> monitor.to_frame()[["step", "name", "head", "m_h"]].tail(1)
           step       name  head  m_h
        5    10  self_attn     1    8

    """

    @checked
    def __init__(
        self,
        model: Annotated[ModelLike, by(require_model)],
        every: Count = 100,
        batches: Count = 2,
        *,
        log: Log = None,
        layers: LayersLike = None,
        gauge: GaugeLike = "softmax",
        beyond: Beyond = 0.5,
        each_head: Switch = False,
        start: Natural = 0,
    ) -> None:
        chosen = options(every, batches, log, layers, gauge, beyond, each_head)
        self._recorder = Recorder(module_of(model), chosen, start)

    @classmethod
    def _of(cls, recorder: Recorder) -> "Monitor":
        """The monitor of a recorder that a callback has made."""
        monitor = cls.__new__(cls)
        monitor._recorder = recorder
        return monitor

    def step(self, number: int | None = None) -> None:
        """Say that a step of the optimiser is done.

        Args:
            number: The number of steps that are done now; by default one more than before.

        """
        done = self._recorder.done + 1 if number is None else require_whole("number", number, 0)
        self._recorder.step(done)

    def close(self) -> None:
        """Stop watching; what was recorded stays. A `with` block does this at its end."""
        self._recorder.close()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if problem is None and self._recorder.done == self._recorder.begun:
            self._recorder.say(
                "step() was never called, so nothing was recorded. Call monitor.step() after "
                "each step of the optimiser."
            )

    def to_frame(self) -> "pd.DataFrame":
        """The records as a table with one row per step and head.

        The columns are `step`, the layer's number (`layer`) and `name`, `head`, the head size `m_h`
        and the number of queries (`tokens`), then `rank99`, `stable_rank`, `tail` and `sigma_1` of
        the logits of all inputs together; `tail_beyond` is the rank beyond which the tail was
        taken. Heads whose queries or keys were not finite have nan.

        Returns:
            A pandas DataFrame.

        """
        import pandas as pd

        rows = [row for record in self._recorder.records for row in record.rows()]
        return pd.DataFrame(rows, columns=[*COLUMNS])

    def plot(self, measure: Measure = "rank99", layers: Layers | None = None) -> "Drawing":
        """Draw a measure over the steps: for each layer the median over heads, least to largest.

        Args:
            measure: "rank99", "stable_rank", "tail" or "sigma_1".
            layers: Numbers or names of layers. By default all, or six from the first to the last.

        Returns:
            A matplotlib figure that notebooks show.

        Raises:
            InputError: Nothing has been recorded yet, or no such layer was.

        """
        from attnrate.figures.draw import draw

        shown = require_choice("measure", measure, MEASURES)
        picked = Picked.of(require_layers("layers", layers))
        if not self._recorder.records:
            remedy = "Call step() after each step of the optimiser."
            raise InputError(
                "nothing has been recorded after {value} steps", self._recorder.done, remedy
            )
        found = self._by_layer()
        chosen = spread([*found.values()]) if layers is None else _chosen(found, picked)
        return draw(steps_figure(self._model, chosen, shown))

    def __str__(self) -> str:
        said = f"{self._model} after {counted(self._recorder.done, 'step')}"
        if not self._recorder.records:
            return f"{said}: nothing recorded yet"
        last = self._recorder.records[-1]
        ranks = np.concatenate([layer.rank99 for layer in last.layers])
        return (
            f"{said}: {counted(len(self._recorder.records), 'record')} of "
            f"{counted(len(ranks), 'head')} in {counted(len(last.layers), 'layer')}; at step "
            f"{last.step}, 99 % of the energy in {counted(float(np.median(ranks)), 'dimension')} "
            f"in the median head ({ranks.min():g} to {ranks.max():g})"
        )

    @property
    def _model(self) -> str:
        return type(self._recorder.door.model).__name__

    def _table(self) -> "pd.DataFrame | None":
        return self.to_frame() if self._recorder.records else None

    def _figure(self) -> "Drawing | None":
        return self.plot() if self._recorder.records else None

    def _by_layer(self) -> dict[str, list[LayerRecord]]:
        """The records of each layer by its name, in the order of the layers."""
        found: dict[str, list[LayerRecord]] = {}
        for record in self._recorder.records:
            for layer in record.layers:
                found.setdefault(layer.name, []).append(layer)
        return dict(sorted(found.items(), key=lambda item: item[1][0].layer))


def _chosen(found: dict[str, list[LayerRecord]], picked: Picked) -> list[list[LayerRecord]]:
    """The records of the layers that were asked for; an InputError if one was not recorded."""
    known = {records[0].layer: name for name, records in found.items()}
    for layer in picked.asked or ():
        if layer not in (*known, *known.values()):
            listed = ", ".join(f"{number} ({name})" for number, name in known.items())
            raise InputError("no such layer was recorded", layer, f"Recorded: {listed}.")
    asked = {*(picked.asked or ())}
    return [one for name, one in found.items() if {name, one[0].layer} & asked]
