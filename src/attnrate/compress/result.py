"""What a compression gives: the model, what became of its layers, and sentences to quote."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from torch import nn

from attnrate.compress import sentences, verdict
from attnrate.compress.curves import SizeCurves
from attnrate.compress.measured import Measurements
from attnrate.compress.quality import Quality
from attnrate.compress.rivals import Rival
from attnrate.compress.timing import Timing
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.spectra.batches import Batch
from attnrate.spectra.measures import counted, percent

if TYPE_CHECKING:
    import pandas as pd

Format: TypeAlias = Literal["attnrate", "llama", "onnx"]
"""How a compressed model is written: attnrate's own format, files of stock Llama, or ONNX."""

_FAR = 0.3  # a change of the output by more than this share of its size does not pay
_LITTLE = 0.01  # the share of parameters that a model without a cache must save at least


def _require_folder(name: str, value: object) -> Path:
    from attnrate.folders import as_path

    return as_path(value)


@dataclass(frozen=True)
class CompressedLayer:
    """What became of an attention layer.

    Attributes:
        name: Its path within the model.
        m_h: The size of its queries and keys before.
        size: The size of its queries and keys now.
        m_v: The size of its values before.
        value_size: The size of its values now.
        parameters_before: The number of parameters of its four projections before.
        parameters: The number of them now, with those that were added.
        bytes_before: The bytes of its keys and values per token before.
        bytes: The bytes of its keys and values per token now.
        change_cut: By how much the cut changes what the layer gives, as a share of its size, when
            all other layers are whole: of a rotary layer on inputs held out, with its values cut;
            of any other by queries and keys alone, on calibration inputs that its repair has not
            used. None where only values were cut.
        change: By how much the layer differs after its repair, measured as `change_cut` is and
            equal to it without a repair.
        objective: The objective of its closed form: "logits", "gauge", "felt", "output", or "pairs"
            for a rotary layer; None where only values were cut.
        added: The number of parameters that it gained to project queries and keys behind their
            norms, which leave the weights of both whole; 0 where these weights were cut.
        in_cache: Whether its keys and values are kept while the model writes token by token: those
            of an encoder's self attention are not.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=1, heads=2, m_h=8, classes=3)
        >>> done = ar.compress(model, torch.randn(20, 3, 8, 8), size=4)
        >>> layer = done.layers[0]
        >>> layer.name, layer.m_h, layer.size, layer.bytes_before, layer.bytes
        ('layers.0.attention', 8, 4, 128, 96)

    """

    name: str
    m_h: int
    size: int
    m_v: int
    value_size: int
    parameters_before: int
    parameters: int
    bytes_before: int
    bytes: int
    change_cut: float | None
    change: float | None
    objective: str | None
    added: int = 0
    in_cache: bool = True


@dataclass(frozen=True, repr=False)
class Compressed(Shown):
    """A model with smaller heads and what was measured of it; `compress` makes it.

    Attributes:
        model: The module with smaller heads, called as the original is.
        name: The name of the original.
        layers: What became of each attention layer that was cut.
        parameters_before: The number of parameters of the original.
        parameters: The number of parameters of `model`.
        change_cut: By how much the cut alone changes the output on inputs held out: the root of
            Σ ‖change‖² / Σ ‖output‖².
        change: By how much `model`, after all repair, changes the output on these inputs, by the
            same formula; without a repair it is `change_cut`.
        repaired: The steps of repair, of each layer and of all together.
        tokens: The number of calibration tokens that each layer has seen.
        held_out: The number of inputs on which the changes are measured.
        measured: How good the model is before and after, its times, and its rivals; `quality`,
            `times` and `rivals` have it as tables.
        has_cache: Whether the model writes token by token and keeps keys and values for that.
        rotary: Whether its heads turn in pairs, which were dropped pair by pair.
        left: The layers that could not be cut, each with the reason.
        folder: The folder of the original, whose tokenizer is saved too; None if there is none.
        outputs: The path of the part that takes what the heads of a layer give, by its name.
        trial: Inputs on which saved files are held against `model`.
        made_by: The versions of attnrate, torch and Python, and the settings.
        curves: How much every size of every layer changes the output, as it was measured to choose
            the sizes; None where sizes were given.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=2, heads=2, m_h=8, classes=3)
        >>> done = ar.compress(model, torch.randn(20, 3, 8, 8), size=4, repair=2)
        >>> done
        Compressed(ViT: 2 layers, heads 8 → 4, ... % fewer parameters, output changes by ... %)
        >>> done.model(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3])
        >>> done.report[["part", "size_before", "size"]].to_dict("records")[1]
        {'part': 'layers.0.attention', 'size_before': 8, 'size': 4}

    """

    model: nn.Module
    name: str
    layers: tuple[CompressedLayer, ...]
    parameters_before: int
    parameters: int
    change_cut: float
    change: float
    repaired: tuple[int, int]
    tokens: int
    held_out: int
    measured: Measurements = field(repr=False)
    has_cache: bool
    rotary: bool
    left: tuple[str, ...]
    folder: Path | None
    outputs: Mapping[str, str] = field(repr=False)
    trial: Batch = field(repr=False)
    made_by: Mapping[str, str | int | bool | None] = field(repr=False)
    curves: SizeCurves | None = field(default=None, repr=False)

    _rows = ".report"

    @property
    def bytes_before(self) -> int:
        """The bytes of keys and values per token of all layers that were cut, before."""
        return sum(layer.bytes_before for layer in self.layers)

    @property
    def bytes(self) -> int:
        """The bytes of keys and values per token of all layers that were cut, now."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def cache_before(self) -> int:
        """The bytes per token of the layers that were cut and are in the cache, before."""
        return sum(layer.bytes_before for layer in self.layers if layer.in_cache)

    @property
    def cache(self) -> int:
        """The bytes per token of the layers that were cut and are in the cache, now."""
        return sum(layer.bytes for layer in self.layers if layer.in_cache)

    @property
    def added(self) -> int:
        """The parameters that project queries and keys whose own weights stay whole (QK-norm)."""
        return sum(layer.added for layer in self.layers)

    @property
    def report(self) -> "pd.DataFrame":
        """A table with a row for the model, whose part is "model", and one for each layer.

        Sizes of the model's row are sums over layers; its parameters are those of the whole model.
        `bytes` are those of keys and values per token. `change_cut` is the change by the cut
        alone, and `change` the change after repair. The model's row also has what `quality` and
        `times` have: `perplexity_before`, `perplexity_cut` and `perplexity`, for example, or
        `batch_seconds_before` and `batch_seconds`.
        """
        import pandas as pd

        rows: list[dict[str, str | int | float | None]] = [
            {
                "part": "model",
                "size_before": sum(layer.m_h for layer in self.layers),
                "size": sum(layer.size for layer in self.layers),
                "value_size_before": sum(layer.m_v for layer in self.layers),
                "value_size": sum(layer.value_size for layer in self.layers),
                "parameters_before": self.parameters_before,
                "parameters": self.parameters,
                "bytes_before": self.bytes_before,
                "bytes": self.bytes,
                "change_cut": self.change_cut,
                "change": self.change,
                **self.measured.row,
            }
        ]
        for layer in self.layers:
            rows.append(
                {
                    "part": layer.name,
                    "size_before": layer.m_h,
                    "size": layer.size,
                    "value_size_before": layer.m_v,
                    "value_size": layer.value_size,
                    "parameters_before": layer.parameters_before,
                    "parameters": layer.parameters,
                    "bytes_before": layer.bytes_before,
                    "bytes": layer.bytes,
                    "change_cut": layer.change_cut,
                    "change": layer.change,
                }
            )
        return pd.DataFrame(rows)

    @property
    def quality(self) -> "pd.DataFrame":
        """A table with a row for each measure of how good the model is, the fields of `Quality`."""
        return _frame(Quality, self.measured.quality)

    @property
    def times(self) -> "pd.DataFrame":
        """A table with a row for a batch and one for a token, with the fields of `Timing`."""
        return _frame(Timing, self.measured.times)

    @property
    def rivals(self) -> "pd.DataFrame":
        """A table with a row for each way to a smaller cache, with the fields of `Rival`.

        It has no rows for a model without a cache.
        """
        return _frame(Rival, self.measured.rivals)

    @property
    def against(self) -> str | None:
        """Why the cut does not pay, as the end of a sentence; None where it does."""
        shrinks = self.cache < self.cache_before
        if self.parameters >= self.parameters_before and not shrinks:
            return "it saves no parameters"
        if not math.isfinite(self.change):
            return "the output is not finite on inputs that the cut has not seen"
        if self.change > _FAR:
            way_out = "larger heads" if sum(self.repaired) else "larger heads or repair"
            return (
                f"the output changes by {percent(self.change)} of its size on inputs that the cut "
                f"has not seen; it needs {way_out}"
            )
        saved = 1 - self.parameters / self.parameters_before
        if not self.has_cache and saved < _LITTLE:
            return f"it saves {percent(saved)} of the parameters, and there is no cache of keys"
        if self.has_cache:
            saved = max(saved, 1 - self.cache / self.cache_before)
        return verdict.outdone(self.measured) or verdict.slower(self.measured, saved)

    @checked
    def save(
        self,
        folder: Annotated[str | os.PathLike[str], by(_require_folder)],
        *,
        format: Format = "attnrate",
    ) -> Path:
        """Write the model, open it again in a fresh process, and hold it against `model`.

        Args:
            folder: The folder to make; there must be nothing yet. It gets the tokenizer of the
                original too, where that came from a folder.
            format: "attnrate" is a folder that `load_model` opens; nothing in it is code. "llama"
                are files that plain transformers open, with no attnrate installed: for rotary
                decoders with a language head, cut with `values=True` and `shared="model"`. "onnx"
                is a file for onnxruntime, which needs neither attnrate nor torch: for encoders and
                ViTs, for any number of inputs and any length. It needs the extra `onnx`.

        Returns:
            The path of the folder.

        Raises:
            InputError: The folder exists, or the format cannot hold this model.
            ExportError: The files, opened again, give other outputs. They are kept in a folder
                beside it whose name ends in ".differs".
            StoreError: The files could not be written; nothing is left of them.

        """
        from attnrate.compress.saved import save_compressed

        return save_compressed(self, Path(folder), format)

    @property
    def _fewer(self) -> str:
        saved = 1 - self.parameters / self.parameters_before
        return f"{percent(abs(saved))} {'more' if saved < 0 else 'fewer'}"

    def _table(self) -> "pd.DataFrame":
        return self.report

    def __repr__(self) -> str:
        before, now = (_range([getattr(x, n) for x in self.layers]) for n in ("m_h", "size"))
        cache = (
            f"cache {percent(1 - self.cache / self.cache_before)} smaller, "
            if self.added and self.has_cache
            else ""
        )
        return (
            f"Compressed({self.name}: {len(self.layers)} layers, heads {before} → {now}, {cache}"
            f"{self._fewer} parameters, output changes by {percent(self.change)})"
        )

    def __str__(self) -> str:
        before, now = (_range([getattr(x, n) for x in self.layers]) for n in ("m_h", "size"))
        against = self.against
        said = f"{self.name}: queries and keys of {now} dimensions instead of {before}"
        if any(layer.value_size < layer.m_v for layer in self.layers):
            values = [_range([getattr(x, n) for x in self.layers]) for n in ("m_v", "value_size")]
            said += f", values of {values[1]} instead of {values[0]}"
        cut = f"The output changes by {percent(self.change_cut)} of its size by the cut"
        alone, together = self.repaired
        steps = [f"{alone} steps in each layer"] * bool(alone)
        steps += [f"{together} steps in all layers at once"] * bool(together)
        after = f", by {percent(self.change)} after repair ({', '.join(steps)})" if steps else ""
        cache = (
            f", {self.cache:,} bytes per token in the cache instead of {self.cache_before:,}"
            if self.has_cache
            else ""
        )
        lines = [
            *([f"This cut does not pay: {against}."] if against else []),
            f"{said}: {self.parameters:,} parameters instead of {self.parameters_before:,} "
            f"({self._fewer}){cache}.",
            f"{cut}{after}, measured on {counted(self.held_out, 'input')} held out; "
            f"{self.tokens:,} tokens made the cut.",
        ]
        if self.added:
            cache = "only the cache shrinks" if self.has_cache else "there is no cache to shrink"
            lines.append(
                "The weights of queries and keys stay whole, because both are normalised over all "
                f"their dimensions: by their cut {cache}, and {self.added:,} parameters that "
                "project them are added."
            )
        lines += sentences.lines(self.measured, any(self.repaired))
        if self.left:
            more = f", and {len(self.left) - 3} more" if len(self.left) > 3 else ""
            lines.append(f"Not cut: {'; '.join(self.left[:3])}{more}.")
        return "\n".join(lines)


def _range(sizes: list[int]) -> str:
    least, most = min(sizes), max(sizes)
    return str(least) if least == most else f"{least} to {most}"


def _frame(kind: type, rows: Sequence[Quality | Timing | Rival]) -> "pd.DataFrame":
    """A table with the fields of a dataclass as columns."""
    import pandas as pd

    return pd.DataFrame([asdict(row) for row in rows], columns=[x.name for x in fields(kind)])
