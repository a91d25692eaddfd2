"""What the commands that profile a model ask for: how it is opened, on what inputs, and where."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnrate.cli.inputs import GivenInputs
from attnrate.progress import Progress
from attnrate.words import Gauge

if TYPE_CHECKING:
    from attnrate.spectra.inputs.batched import Batches, BatchStream
    from attnrate.spectra.load import LoadedModel
    from attnrate.spectra.result import Profile


@dataclass(frozen=True)
class Placing:
    """Where and in which number format a model is opened, as the options say it.

    Attributes:
        device: The device on which it computes.
        dtype: The number format of its weights.
        device_map: How its layers are spread over devices, memory and disk.
        offload: The folder for weights that stay on disk.

    """

    device: str
    dtype: str
    device_map: str | None
    offload: Path | None

    def open(self, source: str, head: bool = False) -> "LoadedModel":
        """Open the model of a folder or of the hub, with or without the head of its task."""
        from attnrate.spectra.load import load_model

        return load_model(
            source,
            device=self.device,
            dtype=self.dtype,  # type: ignore[arg-type]  # `load_model` says which words it knows
            device_map=self.device_map,  # type: ignore[arg-type]
            offload=self.offload,
            head=head,
        )


@dataclass(frozen=True)
class Measuring:
    """A profile as the options ask for it; what is wrong in it is refused before a model is opened.

    Attributes:
        inputs: What is read for the model.
        placing: How the model is opened.
        gauge: What counts as the same attention.
        layers: The layers to profile; None for all.
        cut_inputs: The number of inputs on which cuts are measured.
        resume: The folder that keeps finished batches.
        engine: Where the model runs.
        workers: The number of processes on a Ray cluster.

    """

    inputs: GivenInputs
    placing: Placing
    gauge: Gauge
    layers: list[int | str] | None
    cut_inputs: int
    resume: Path | None
    engine: str
    workers: int | None

    @contextmanager
    def session(self) -> Iterator[None]:
        """While it is open, a Ray cluster is connected, if one was asked for.

        The cluster and the files of inputs are looked for before a large model is opened.
        """
        from attnrate.spectra.runners import runner_of

        self.inputs.require_there()
        with runner_of(self.engine, self.workers).session(), self._kept():
            yield

    def open(self, source: str) -> "tuple[LoadedModel, Batches | BatchStream]":
        """Open a model, and read the inputs for it."""
        with Progress(f"opening {source}"):
            loaded = self.placing.open(source)
            return loaded, self.inputs.read(loaded)

    def profile(
        self,
        loaded: "LoadedModel",
        inputs: "Batches | BatchStream",
        name: str | None = None,
        cut_inputs: int | None = None,
    ) -> "Profile":
        """Profile a model that was opened.

        Args:
            loaded: The model.
            inputs: Its inputs.
            name: Its name in tables and figures; that of its folder by default.
            cut_inputs: The number of inputs on which cuts are measured, if not that of the options.

        Returns:
            The profile.

        """
        from attnrate.spectra.profile import profile

        return profile(
            loaded,
            inputs,
            self.gauge,
            layers=self.layers,
            cut_inputs=self.cut_inputs if cut_inputs is None else cut_inputs,
            name=name,
            resume=self.resume,
            engine=self.engine,
            workers=self.workers,
        )

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Let an interruption say what is kept in the folder of --resume."""
        try:
            yield
        except KeyboardInterrupt as stopped:
            if self.resume is None or not self.resume.exists():
                raise
            said = f"stopped; finished batches are kept in {self.resume}, the same command goes on"
            raise type(stopped)(said) from None
