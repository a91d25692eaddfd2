"""A model as a graph of ONNX, for any number of inputs and, where they are tokens, of any length.

Attention is written as plain products. Fused attention of torch comes out of the exporter in more
nodes, and for it attnrate's own layers fill the smaller of keys and values up with zeros, which a
graph would multiply at every call.
"""

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import nn

from attnrate.compress.written import ExportError
from attnrate.errors import AttnrateError, InputError
from attnrate.extras import install_command, is_installed
from attnrate.models.multihead import NO_PADDING, Multihead, Padding
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
FILE = "model.onnx"
_NEEDED = ("onnx", "onnxscript", "onnxruntime")
#: Entries of a batch whose second axis counts tokens
_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds")
#: Bytes of weights from which on they lie in a file beside the graph: protobuf ends at 2 GiB
_LARGE = 2**31 - 2**27
_AXES = ("batch", "sequence")


def require_packages() -> None:
    """Raise an InputError that says what to install where a package for ONNX is missing."""
    for package in _NEEDED:
        if not is_installed(package):
            raise InputError(
                f'format="onnx" needs the package {package}, which is not installed',
                "onnx",
                f"Install it: {install_command(package, 'onnx')} (where attnrate is taken from an "
                "index, pip install 'attnrate[onnx]').",
            )


def graph_inputs(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The inputs of a model's graph, by their names.

    Args:
        model: The model.
        batch: Inputs of the model.

    Returns:
        The entries of the batch; a tensor gets the name of the model's first argument. Token ids
        get the mask that a tokenizer would give, if the model takes one, so that the graph takes
        padding. Numbers of tokens are int64, as tokenizers give them.

    Raises:
        InputError: An entry has one value for each pair of tokens.

    """
    takes = inspect.signature(model.forward).parameters
    named = {next(iter(takes)): batch} if isinstance(batch, Tensor) else dict(batch)
    ids = named.get("input_ids")
    if ids is not None and "attention_mask" in takes:
        named.setdefault("attention_mask", torch.ones_like(ids))
    for name in {*_OF_TOKENS} & {*named}:
        value = named[name]
        if value.dim() != (3 if name == "inputs_embeds" else 2):
            raise InputError(
                f"{name} of a graph has an axis of inputs and one of tokens; its shape",
                tuple(value.shape),
                "Pass one value for each token.",
            )
        named[name] = value if value.is_floating_point() else value.long()
    return dict(batches.placed(model, named))


def axes_of(named: Mapping[str, Tensor]) -> dict[str, dict[int, str]]:
    """The axes of graph inputs that may have any size, by the names of the inputs.

    The first axis counts inputs, unless one row serves all of them. The second axis of what belongs
    to tokens counts these, and so does that of a single entry of whole numbers.
    """
    most = max(x.shape[0] for x in named.values())
    alone = len(named) == 1
    axes: dict[str, dict[int, str]] = {}
    for name, value in named.items():
        own = {} if value.shape[0] == 1 < most else {0: _AXES[0]}
        whole = value.dim() == 2 and not value.is_floating_point()
        axes[name] = own | ({1: _AXES[1]} if name in _OF_TOKENS or (alone and whole) else {})
    return axes


def sizes_of(named: Mapping[str, Tensor]) -> tuple[int, int | None]:
    """The number of inputs, and that of tokens in each; None where the latter cannot change."""
    axes = axes_of(named)
    tokens = [value.shape[1] for name, value in named.items() if 1 in axes[name]]
    return max(value.shape[0] for value in named.values()), max(tokens, default=None)


def resized(
    named: Mapping[str, Tensor], inputs: int | None = None, tokens: int | None = None
) -> dict[str, Tensor]:
    """Graph inputs in another number and of another length, by repeating what is there."""
    made, axes = {}, axes_of(named)
    for name, value in named.items():
        for axis, size in ((0, inputs), (1, tokens)):
            if size is not None and axis in axes[name]:
                there = value.shape[axis]
                value = value.index_select(axis, torch.arange(size, device=value.device) % there)
        made[name] = value
    return made


def graph_outputs(model: nn.Module, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors that a model gives for graph inputs, by the names of the graph's outputs."""
    takes = inspect.signature(model.forward).parameters
    more = {"use_cache": False} if "use_cache" in takes else {}
    given: Any = model(**named, **more)
    if isinstance(given, Tensor):
        return {"output": given}
    if isinstance(given, Mapping):
        return {str(name): x for name, x in given.items() if isinstance(x, Tensor)}
    return {f"output_{i}": x for i, x in enumerate(given) if isinstance(x, Tensor)}


def write_graph(model: nn.Module, batch: Batch, folder: Path) -> Path:
    """Write a model as a graph of ONNX.

    Args:
        model: The model; it stays as it is.
        batch: A few inputs, by which it is followed.
        folder: A folder that is there. Weights of more than 1.9 GB lie in a file beside the graph,
            for the format of ONNX ends at 2.

    Returns:
        The file.

    Raises:
        InputError: A package is missing, or an entry of the batch has no place in a graph.
        ExportError: torch cannot write the model as such a graph.
        OSError: The file cannot be written.

    """
    require_packages()
    named = graph_inputs(model, batch)
    axes = axes_of(named)
    inputs, tokens = sizes_of(named)
    # torch takes a size of 1 for one that never changes
    example = resized(named, max(2, inputs), None if tokens is None else max(2, tokens))
    followed = _Followed(model, tuple(example))
    with _at_rest(followed):
        outputs = [*graph_outputs(model, example)]
        program = _program(followed, example, outputs, axes)
        _without_paths(program)
        file = folder / FILE
        large = sum(x.nbytes for x in (*model.parameters(), *model.buffers())) > _LARGE
        program.save(file, external_data=large)
    return file


class _Followed(nn.Module):
    """A model called by position, which gives its tensors alone."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The model's outputs for inputs in the order of the names."""
        return tuple(graph_outputs(self.model, dict(zip(self.names, given, strict=True))).values())


def _program(
    followed: nn.Module,
    example: Mapping[str, Tensor],
    outputs: list[str],
    axes: Mapping[str, Mapping[int, str]],
) -> Any:
    """What torch's exporter makes of a model; an ExportError with its reason where it gives up."""
    try:
        return torch.onnx.export(
            followed,
            tuple(example.values()),
            dynamo=True,
            input_names=[*example],
            output_names=outputs,
            dynamic_shapes=(tuple({**axes[name]} for name in example),),
            verbose=False,
        )
    except (AttnrateError, OSError, MemoryError):
        raise
    except Exception as problem:
        cause = problem
        while cause.__cause__ is not None and isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        raise ExportError(
            f"torch cannot write this {type(followed.model).__name__} as a graph of ONNX: "
            f"{type(cause).__name__}: {batches.first_line(cause)}"
        ) from problem


@contextmanager
def _at_rest(followed: nn.Module) -> Iterator[None]:
    """While it is open, the model is in evaluation, attends by plain products and says nothing."""
    with ExitStack() as open_:
        open_.enter_context(batches.at_rest(followed))
        open_.enter_context(_by_products(followed))
        open_.enter_context(warnings.catch_warnings())
        # of its own functions that are to go, and of an axis that has a name twice
        warnings.simplefilter("ignore")
        log = logging.getLogger("torch.onnx")
        open_.callback(log.setLevel, log.level)
        log.setLevel(logging.ERROR)  # that torchvision is not there
        yield


@contextmanager
def _by_products(model: nn.Module) -> Iterator[None]:
    """While it is open, all attention of a model is computed by products."""
    own = [part for part in model.modules() if isinstance(part, Multihead)]
    configs: list[Any] = []
    for part in model.modules():
        config: Any = getattr(part, "config", None)
        if hasattr(config, "_attn_implementation") and all(config is not one for one in configs):
            configs.append(config)
    before = [config._attn_implementation for config in configs]
    try:
        for part in own:
            setattr(part, "attend", partial(_attend, part))  # noqa: B010
        for config in configs:
            config._attn_implementation = "eager"
        yield
    finally:
        for part in own:
            delattr(part, "attend")
        # a configuration hands its choice down to those within it, which come later
        for config, chosen in zip(configs, before, strict=True):
            config._attn_implementation = chosen


def _attend(
    layer: Multihead,
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    padding: Padding = NO_PADDING,
    causal: bool = False,
) -> Shaped[Tensor, "batch T width"]:
    """What `Multihead.attend` gives, with keys and values of their own sizes."""
    query = layer.W_Q(x).unflatten(-1, (layer.heads, layer.m_h)).transpose(1, 2)
    logits = layer.scale * (query @ keys.mT)
    if causal:
        seen = torch.ones(x.shape[1], keys.shape[2], dtype=torch.bool, device=x.device).tril()
        logits = logits.masked_fill(~seen, -torch.inf)
    elif padding.key is not None:
        logits = logits.masked_fill(~padding.key[:, None, None, :], -torch.inf)
    made: Tensor = layer.W_O((logits.softmax(-1) @ values).transpose(1, 2).flatten(2))
    return made


def _without_paths(program: Any) -> None:
    """Take out of a graph what the exporter notes of this machine's files, line by line."""
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
