"""Opening a folder of a compressed model: settings in JSON, weights in safetensors, and no code.

The settings name the class of the original, which must be one of transformers or of attnrate, its
configuration, and the sizes of every layer. The original is built empty, thin layers are put in,
and then all weights are read: one tensor too many, missing or of another shape is an error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnrate.compress.fold import put
from attnrate.compress.generation import read_generation
from attnrate.compress.modules import FAMILIES, Parts
from attnrate.compress.modules.llama import ThinLlamaAttention, ThinShape
from attnrate.compress.modules.maps import HeadMap
from attnrate.compress.modules.standing import standing_in
from attnrate.errors import InputError
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.spectra.checkpoint import opened, read_json

SETTINGS = "compressed.json"
WEIGHTS = "compressed.safetensors"
FORMAT = 1
ONNX = "onnx"
DIFFERS = "differs"
OWN: Mapping[str, type[nn.Module]] = {"ViT": ViT, "Seq2Seq": Seq2Seq}
_AGAIN = "Copy the folder once more, or compress the model again."


@dataclass(frozen=True)
class LinearShape:
    """The sizes of a Linear part.

    Attributes:
        inputs: The number of its inputs.
        outputs: The number of its outputs.
        bias: Whether it has a bias.

    """

    inputs: int
    outputs: int
    bias: bool

    def empty(self) -> nn.Linear:
        """A part of these sizes, to be filled."""
        return nn.Linear(self.inputs, self.outputs, self.bias)


@dataclass(frozen=True)
class ContentShape:
    """What is needed to build a thin layer, unless it has lost pairs of a rotary embedding.

    Attributes:
        query: The part that makes queries.
        key: The part that makes keys.
        value: The part that makes values.
        output: The part that takes what the heads give.
        output_path: Its path within the model.
        heads: The number of query heads.
        groups: The number of key heads.
        size: The size of queries and keys.
        value_size: The size of values.
        whole: The size of queries and keys before the cut.
        maps: Whether queries and keys are made whole, and are projected behind norms and rotation.

    """

    query: LinearShape
    key: LinearShape
    value: LinearShape
    output: LinearShape
    output_path: str
    heads: int
    groups: int
    size: int
    value_size: int
    whole: int
    maps: bool = False

    def empty_maps(self) -> tuple[HeadMap, HeadMap] | None:
        """What projects queries and keys, to be filled; None where nothing does."""
        if not self.maps:
            return None
        queries, keys = (HeadMap(n, self.whole, self.size) for n in (self.heads, self.groups))
        return queries, keys


def open_folder(folder: Path) -> nn.Module:
    """The compressed model of a folder, in evaluation mode.

    Args:
        folder: A folder that `Compressed.save` has written in attnrate's own format.

    Returns:
        The model.

    Raises:
        InputError: The folder was written by another version, its files are damaged, or they did
            not hold the model when they were written.

    """
    said = read_json(folder / SETTINGS)
    if said.get("format") != FORMAT:
        raise InputError(
            f"{SETTINGS} has another format than this version of attnrate reads ({FORMAT})",
            said.get("format"),
            f"It was written by attnrate {said.get('made_by', {}).get('attnrate', '?')}.",
        )
    if DIFFERS in said:
        far = said[DIFFERS]
        much = (
            "numbers that are not finite" if far is None else f"others by {far:.1e} of their size"
        )
        raise InputError(
            "this folder was kept to be looked at: its files do not give the outputs of the model "
            f"that was written, but {much}",
            str(folder),
            "Compress and save the model again.",
        )
    if said.get("written_as") == ONNX:
        takes = ", ".join(map(repr, said.get("inputs", {}))) or "..."
        raise InputError(
            "this folder holds a model as a file of ONNX, which attnrate writes and does not read",
            str(folder),
            f"Run it with onnxruntime: onnxruntime.InferenceSession({str(folder / 'model.onnx')!r})"
            f".run(None, inputs), inputs being a dictionary of numpy arrays for {takes}. For a "
            'model that attnrate opens, save with format="attnrate".',
        )
    try:
        model = _empty(said)
        for name, layer in said["layers"].items():
            _put_thin(model, name, layer, bool(said["rotary"]))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as problem:
        raise InputError(
            f"{SETTINGS} does not say which model it is of ({type(problem).__name__}: {problem})",
            str(folder),
            _AGAIN,
        ) from None
    path = folder / WEIGHTS
    with opened(path, "the weights of the compressed model are truncated or corrupt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    _fill(model, tensors, said.get("same", {}), path)
    read_generation(model, folder)
    return model.eval()


def _empty(said: Mapping[str, Any]) -> nn.Module:
    """The original model with weights that mean nothing."""
    name, config = str(said["class"]), dict(said["config"])
    if said["library"] == "attnrate":
        own = {key: tuple(v) if isinstance(v, list) else v for key, v in config.items()}
        return OWN[name](**own)
    import transformers
    from transformers.initialization import no_init_weights

    kind = getattr(transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise InputError(
            "transformers has no model of that class",
            name,
            "Install the version of transformers with which it was compressed.",
        )
    wanted = config.pop("model_type")
    with no_init_weights():
        model: nn.Module = kind(transformers.AutoConfig.for_model(wanted, **config))
    return model


def _put_thin(model: nn.Module, name: str, layer: Mapping[str, Any], rotary: bool) -> None:
    old: Any = model.get_submodule(name)
    if rotary:
        given = {**layer, "biases": tuple(layer["biases"])}
        put(model, name, standing_in(ThinLlamaAttention, old, ThinShape(**given)))
        return
    lines = ("query", "key", "value", "output")
    made = {word: LinearShape(**layer[word]) for word in lines}
    shape = ContentShape(**{**layer, **made})
    parts = Parts(
        shape.query.empty(),
        shape.key.empty(),
        shape.value.empty(),
        shape.output.empty(),
        shape.heads,
        shape.groups,
        shape.size,
        shape.value_size,
        shape.whole,
        shape.empty_maps(),
    )
    thin = next(filter(None, (family(old, parts) for family in FAMILIES)), None)
    if thin is None:
        raise InputError(
            "this version of attnrate has no thin module for", type(old).__name__, _AGAIN
        )
    put(model, name, thin)
    if all(part is not parts.output for part in thin.modules()):
        put(model, shape.output_path, parts.output)


def _fill(
    model: nn.Module, tensors: dict[str, torch.Tensor], same: Mapping[str, str], path: Path
) -> None:
    """Read all weights in their own number format; names of one tensor share it."""
    whole = tensors | {name: tensors[other] for name, other in same.items() if other in tensors}
    wanted = model.state_dict()
    wrong = [
        f"{name}: {tuple(wanted[name].shape) if name in wanted else 'absent'} in the model, "
        f"{tuple(whole[name].shape) if name in whole else 'absent'} in the file"
        for name in sorted(wanted.keys() | whole.keys())
        if name not in wanted or name not in whole or wanted[name].shape != whole[name].shape
    ]
    if wrong:
        raise InputError(f"{path.name} does not fit {SETTINGS}", wrong[:3], _AGAIN)
    model.load_state_dict(whole, assign=True)
    for name, other in same.items():  # parameters that were one are one again
        above, _, last = name.rpartition(".")
        setattr(model.get_submodule(above), last, model.get_parameter(other))


def plain(value: object) -> Any:
    """Settings as JSON values; an InputError for what JSON cannot hold."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"the configuration of the model cannot be written as JSON ({problem})",
            type(value).__name__,
        ) from None
