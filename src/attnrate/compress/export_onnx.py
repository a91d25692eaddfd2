"""A cut model as a file of ONNX, which onnxruntime runs with neither attnrate nor torch.

The heads have their own sizes in every layer. The file is run in a fresh process on inputs held out
and on others of another number and length, with padding, and held against the model before the
folder gets its name.
"""

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attnrate.compress.generation import writes
from attnrate.compress.onnx_graph import (
    FILE,
    axes_of,
    graph_inputs,
    graph_outputs,
    require_packages,
    resized,
    sizes_of,
    write_graph,
)
from attnrate.compress.opened import FORMAT, ONNX, SETTINGS, plain
from attnrate.compress.result import Compressed
from attnrate.compress.trial import change
from attnrate.compress.written import (
    ExportError,
    copy_tokenizer,
    run_fresh,
    write_checked,
    write_config,
)
from attnrate.errors import InputError
from attnrate.files import write_whole
from attnrate.models.seq2seq import Seq2Seq
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
_FORMATS = (torch.float32, torch.float64, torch.float16)
_OPEN = """
import io, sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_outputs()]
made = {}
with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as given:
    for trial in range(int(sys.argv[2])):
        own = f"{trial}/"
        batch = {name.removeprefix(own): given[name] for name in given if name.startswith(own)}
        found = session.run(None, batch)
        made |= {own + name: value for name, value in zip(names, found, strict=True)}
assert not {"attnrate", "torch"} & {*sys.modules}
whole = io.BytesIO()
np.savez(whole, **made)
sys.stdout.buffer.write(whole.getvalue())
"""


@dataclass(frozen=True)
class Opened:
    """What a file of ONNX gave in a fresh process.

    Attributes:
        difference: By how much its outputs differ from the model's, as a share of their size: the
            largest over all trials and outputs.
        tried: The shapes of the inputs of each trial, by their names.
        outputs: The names of its outputs.

    """

    difference: float
    tried: tuple[Mapping[str, tuple[int, ...]], ...]
    outputs: tuple[str, ...]


def require_exportable(model: nn.Module) -> None:
    """Raise an InputError where a model, cut or not, cannot be written as a file of ONNX."""
    require_packages()
    parts = (name.rpartition(".")[2] for name, _ in model.named_modules())
    if writes(model) or isinstance(model, Seq2Seq) or "rotary_emb" in parts:
        raise InputError(
            'format="onnx" is for encoders, and {value} writes token by token: each call needs the '
            "keys and values of all tokens before, for which the graph has no place",
            type(model).__name__,
            'Save it in the format "attnrate", or in "llama" if it is a rotary decoder with values '
            "cut, too.",
        )
    dtype = next(model.parameters()).dtype
    if dtype not in _FORMATS:
        raise InputError(
            'format="onnx" needs weights in a number format that onnxruntime computes in',
            str(dtype).removeprefix("torch."),
            'Open the model in float32 (load_model(…, dtype="float32")) and cut it again.',
        )


def export_onnx(done: Compressed, folder: Path) -> None:
    """Write a cut model as a file of ONNX, run it in a fresh process, and compare.

    The folder gets model.onnx, the original's configuration and tokenizer, and compressed.json,
    which says what was cut, what the graph takes and gives, and how far its outputs are from the
    model's.

    Args:
        done: The compressed model.
        folder: The folder to make; there must be nothing yet.

    Raises:
        InputError: A package is missing, or the model writes token by token.
        ExportError: The graph cannot be made or run, or gives other outputs than the model. In the
            last case it is kept in a folder beside it whose name ends in ".differs".

    """
    require_exportable(done.model)

    def write(fresh: Path) -> None:
        write_graph(done.model, done.trial, fresh)
        write_config(done.model, fresh)
        copy_tokenizer(done.folder, fresh)

    def difference(fresh: Path) -> float:
        found = opened_again(done.model, fresh / FILE, trials(done.model, done.trial))
        said = json.dumps(plain(_settings(done, found)), indent=1) + "\n"
        write_whole(fresh / SETTINGS, said.encode())
        return found.difference

    write_checked(done.model, folder, write, difference)


def trials(model: nn.Module, batch: Batch) -> list[dict[str, Tensor]]:
    """Inputs on which a graph is held against its model.

    Args:
        model: The model.
        batch: Some inputs.

    Returns:
        The inputs as they are; one more of them, and shorter, the first with padding in its second
        half where there is a mask; and a single one, longer where the model's positions allow it.

    """
    given = graph_inputs(model, batch)
    inputs, tokens = sizes_of(given)
    if tokens is None:
        return [given, resized(given, inputs + 1), resized(given, 1)]
    most = batches.longest(model) or 2 * tokens
    short, long = max(1, 2 * tokens // 3), min(most, 3 * tokens // 2 + 1)
    padded = resized(given, inputs + 1, short)
    mask = padded.get("attention_mask")
    if mask is not None and short > 1:
        hidden = torch.arange(short, device=mask.device) >= -(-short // 2)
        padded["attention_mask"] = torch.cat([mask[:1].masked_fill(hidden, 0), mask[1:]])
        filler = getattr(getattr(model, "config", None), "pad_token_id", None)
        if "input_ids" in padded and isinstance(filler, int):
            ids = padded["input_ids"]
            first = ids[:1].masked_fill(hidden, filler)
            padded["input_ids"] = torch.cat([first, ids[1:]])
    return [given, padded, resized(given, 1, long)]


def opened_again(model: nn.Module, file: Path, given: Sequence[Mapping[str, Tensor]]) -> Opened:
    """Run a file of ONNX in a fresh process, and hold all its outputs against the model's.

    Args:
        model: The model that the file was made from.
        file: The file.
        given: Graph inputs of each trial.

    Returns:
        What was measured. Where a mask says so, the places of padding do not count.

    Raises:
        ExportError: onnxruntime cannot run the file on these inputs.

    """
    arrays = {f"{i}/{n}": x.cpu().numpy() for i, each in enumerate(given) for n, x in each.items()}
    whole = io.BytesIO()
    np.savez(whole, **arrays)  # type: ignore[arg-type]
    ran = run_fresh(_OPEN, (file.absolute(), str(len(given))), whole.getvalue())
    with np.load(io.BytesIO(ran), allow_pickle=False) as there:
        found = {name: torch.from_numpy(there[name]) for name in there}
    far, names = [], []
    for i, each in enumerate(given):
        with batches.at_rest(model):
            wanted = {n: x.cpu() for n, x in graph_outputs(model, each).items()}
        names = [*wanted]
        if {f"{i}/{name}" for name in names} != {n for n in found if n.startswith(f"{i}/")}:
            raise ExportError(f"the graph gives other outputs than {names}: {[*found]}")
        for name, value in wanted.items():
            kept = batches.padding(model, each, value.shape[:2])
            far.append(_difference(value, found[f"{i}/{name}"], kept))
    shapes = tuple({name: tuple(x.shape) for name, x in each.items()} for each in given)
    return Opened(max(far), shapes, tuple(names))


def _difference(wanted: Tensor, made: Tensor, kept: Tensor | None) -> float:
    """The relative change of an output at the places that count; inf where it is no number."""
    if wanted.shape != made.shape:
        return float("inf")
    if kept is not None:
        wanted, made = wanted[kept.cpu()], made[kept.cpu()]
    far = change([wanted.double()], [made.double()])
    return far if math.isfinite(far) else float("inf")


def _settings(done: Compressed, found: Opened) -> dict[str, object]:
    """What compressed.json says of the file beside it."""
    named = graph_inputs(done.model, done.trial)
    axes = axes_of(named)
    takes = {
        name: [axes[name].get(axis, size) for axis, size in enumerate(value.shape)]
        for name, value in named.items()
    }
    return {
        "format": FORMAT,
        "written_as": ONNX,
        "made_by": dict(done.made_by),
        "class": type(done.model).__name__,
        "inputs": takes,
        "outputs": found.outputs,
        "layers": [asdict(layer) for layer in done.layers],
        "not_cut": done.left,
        "parameters_before": done.parameters_before,
        "parameters": done.parameters,
        "report": {"change_cut": done.change_cut, "change": done.change},
        "opened": {"difference": found.difference, "tried": found.tried},
    }
