"""Thin heads put into a model: smaller Linear parts, and thin modules that are called as before."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from attnrate.compress.content import Factors
from attnrate.compress.modules import FAMILIES, Parts
from attnrate.compress.modules.maps import HeadMap
from attnrate.compress.projections import Projections, Slice
from attnrate.compress.values import ValueFactors
from attnrate.errors import InputError

Tensor = torch.Tensor
#: A factor of queries is measured by running the model, in its own precision: 16 bits or more
_SAME, _SAME_COARSE = 1e-4, 1e-2


@dataclass(frozen=True)
class ThinLayer:
    """What a layer becomes.

    Attributes:
        projections: Where the layer makes queries, keys, values and its output now.
        content: The cut of its queries and keys; None leaves them as they are.
        values: The cut of its values and outputs; None leaves them as they are.

    """

    projections: Projections
    content: Factors | None = None
    values: ValueFactors | None = None


def fold(model: nn.Module, layers: Mapping[str, ThinLayer]) -> nn.Module:
    """A copy of a model with thin heads in place of some layers.

    Args:
        model: The model; it stays as it is.
        layers: What layers become, by their names.

    Returns:
        The copy, with fewer parameters, called as the model is.

    Raises:
        InputError: There is no thin module for the family of a layer.

    """
    known = {id(part): part for each in layers.values() for part in _own_parts(each)}
    # The old parts stay shared until they are replaced, so that they are not copied.
    made = copy.deepcopy(model, {**known})
    for each in layers.values():
        for path, part in places(made, each).items():
            put(made, path, part)
    return made


def thin_parts(layer: ThinLayer) -> Parts:
    """The thin Linear parts of a layer, with weights and biases cut.

    A factor that the model multiplies its queries by is not in them: the thin layer has it, too.
    """
    own, content, values = layer.projections, layer.content, layer.values
    site = own.site
    X, Y = (None, None) if content is None or own.behind else (content.X, content.Y)
    V = None if values is None else values.V
    size = site.m_h if content is None else content.size
    value_size = own.value.features.shape[1] if values is None else values.size
    output = own.output.weight
    bias = own.output.bias
    if values is not None:
        output = values.U.mT @ output
        bias = bias + values.shift
    return Parts(
        query=_making(own.query, X),
        key=_making(own.key, Y),
        value=_making(own.value, V),
        output=_linear(output.flatten(0, 1).mT, bias, own.output.part),
        heads=site.heads,
        groups=site.groups,
        size=size,
        value_size=value_size,
        whole=site.m_h,
        maps=_maps(layer),
    )


def _maps(layer: ThinLayer) -> tuple[HeadMap, HeadMap] | None:
    """What projects queries and keys behind their norms; None where weights are cut or none is."""
    own, content = layer.projections, layer.content
    if not own.behind or content is None or content.size == own.site.m_h:
        return None
    like = own.query.part.weight
    assert isinstance(like, Tensor)
    return HeadMap.of(content.X, like), HeadMap.of(content.Y, like)


def _own_parts(layer: ThinLayer) -> list[nn.Module]:
    own = layer.projections
    return [each.part for each in (own.query, own.key, own.value, own.output)]


def _thin(model: nn.Module, own: Projections, parts: Parts) -> nn.Module:
    """The thin module in place of a layer; an InputError where its family has none."""
    path = path_of(own.site.name)
    # a model that is one attention layer and nothing else has no place to put another
    inside = any(name == path for name, _ in model.named_modules())
    old = model.get_submodule(path) if inside else model
    thin = next(filter(None, (family(old, parts) for family in FAMILIES)), None) if inside else None
    factor = getattr(thin, "query_factor", 1.0)
    same = (own.key.factor, own.value.factor) == (1.0, 1.0)
    limit = _SAME_COARSE if own.query.weight_bytes < 4 else _SAME
    if thin is None or not same or abs(own.query.factor / factor - 1) > limit:
        raise InputError(
            f"the weights of {own.site.name} cannot be cut: there is no thin module for its class",
            type(old).__name__,
            "Of transformers BART, BERT, DistilBERT, GPT-2, MPNet, T5, ViT, Whisper and others "
            "built alike have one, and rotary decoders built as Llama or Qwen3 are; so have "
            "attnrate's own models.",
        )
    return thin.train(old.training)


def path_of(name: str) -> str:
    """The path of a layer's module: its name without the number of the run."""
    return name.partition("#")[0]


def places(model: nn.Module, layer: ThinLayer) -> dict[str, nn.Module]:
    """What a layer becomes, by the paths of what it stands in place of.

    Args:
        model: The model, or a copy in which the layer is still whole.
        layer: The cut of the layer.

    Returns:
        The thin module, and the output projection where it lies beside the layer and not inside.

    Raises:
        InputError: There is no thin module for the family of the layer.

    """
    own, parts = layer.projections, thin_parts(layer)
    thin = _thin(model, own, parts)
    found: dict[str, nn.Module] = {path_of(own.site.name): thin}
    if all(part is not parts.output for part in thin.modules()):
        found[own.output.path] = parts.output
    return found


def put(model: nn.Module, path: str, part: nn.Module) -> None:
    """Put a part into a model, in the place of what has that path."""
    above, _, name = path.rpartition(".")
    setattr(model.get_submodule(above), name, part)


def _making(own: Slice, cut: Tensor | None) -> nn.Linear:
    weight, bias = own.weight, own.bias
    if cut is not None:
        weight = cut.mT @ weight
        bias = (cut.mT @ bias[..., None])[..., 0]
    made = weight.flatten(0, 1) / own.factor
    return _linear(made, bias.flatten() / own.factor, own.part)


def _linear(weight: Tensor, bias: Tensor, like: nn.Module) -> nn.Linear:
    """A Linear part with these weights, in the number format and place of another."""
    old = like.weight
    assert isinstance(old, Tensor)
    has_bias = getattr(like, "bias", None) is not None or bool(bias.any())
    made = nn.Linear(weight.shape[1], weight.shape[0], has_bias, device=old.device, dtype=old.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
        if has_bias:
            made.bias.copy_(bias)
    return made.requires_grad_(old.requires_grad)
