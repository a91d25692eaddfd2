"""Thin attention that normalises queries and keys and then turns them: Qwen3, Gemma 3, OLMo 2.

The norms and the rotation need all dimensions, so the weights of queries and keys stay whole. What
can be smaller is what comes behind: q' = Xᵀq and k' = Yᵀk of the turned queries and keys, of which
the cache holds k'. Values are cut as anywhere.

Families differ in whether a norm sees one head or all, in which pairs are turned, and in the factor
of the logits. So the layer's own projections, norms, rotation and attention function are called;
`require_same` runs a layer that is put together like this against the original one.
"""

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import nn

from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.llama import change_by
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.rotary_layers import window_of
from attnrate.compress.modules.standing import StandIn, standing_in
from attnrate.errors import InputError
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
Map = Callable[[Tensor], Tensor]
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_NORMS = ("q_norm", "k_norm")
_SAID = ("head_dim", "scaling", "layer_idx", "config")
_ROTATION, _EAGER = "apply_rotary_pos_emb", "eager_attention_forward"


class ThinNormedAttention(StandIn):
    """Grouped attention whose queries and keys are projected behind their norms and rotation.

    Args:
        module: The layer in whose place it stands; its norms and its rotation are used.
        parts: Its parts. Those of queries and keys are whole; `maps` project what they make.

    """

    query_map: Map | None
    key_map: Map | None

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.layer_idx = given.layer_idx
        self.heads, self.groups = parts.heads, parts.groups
        self.num_key_value_groups = parts.heads // parts.groups
        self.scaling = given.scaling
        self.attention_dropout = float(getattr(given, "attention_dropout", 0.0))
        self.is_causal = getattr(given, "is_causal", True)
        self.sliding_window = window_of(module)
        self.q_proj, self.k_proj = parts.query, parts.key
        self.v_proj, self.o_proj = parts.value, parts.output
        self.q_norm, self.k_norm = given.q_norm, given.k_norm
        self.query_map, self.key_map = parts.maps or (None, None)
        self._rotate = _of_file(module, _ROTATION)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """What the layer adds, and its weights if the attention in use gives them."""
        lead = hidden_states.shape[:-1]
        query = self._made(self.q_proj, self.q_norm, self.heads, hidden_states)
        key = self._made(self.k_proj, self.k_norm, self.groups, hidden_states)
        query, key = self._rotate(query, key, *position_embeddings)
        if self.query_map is not None:
            query = self.query_map(query)
        if self.key_map is not None:
            key = self.key_map(key)
        value = self.v_proj(hidden_states).unflatten(-1, (self.groups, -1)).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        if self.sliding_window is not None:
            kwargs["sliding_window"] = self.sliding_window
        dropout = self.attention_dropout if self.training else 0.0
        made, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return self.o_proj(made.reshape(*lead, -1).contiguous()), weights

    def _made(self, projection: nn.Linear, norm: nn.Module, heads: int, x: Tensor) -> Tensor:
        """Queries or keys (batch, heads, T, m) before the rotation."""
        wide: Tensor = projection(x)
        weight = getattr(norm, "weight", None)
        # the shape of its weight tells whether a norm sees all heads at once
        if isinstance(weight, Tensor) and weight.shape == wide.shape[-1:]:
            own: Tensor = norm(wide).view(*x.shape[:-1], heads, -1)
        else:
            own = norm(wide.view(*x.shape[:-1], heads, -1))
        return own.transpose(1, 2)

    def extra_repr(self) -> str:
        """The sizes, for the model's own print."""
        return f"heads={self.heads}, size={self.size}, values={self.value_size}"


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of one that normalises queries and keys; None for any other."""
    return None if normed_parts(module) is None else standing_in(ThinNormedAttention, module, parts)


def normed_parts(module: nn.Module) -> tuple[nn.Linear, nn.Linear] | None:
    """The parts that make the queries and keys which a layer then normalises and turns.

    Args:
        module: A layer.

    Returns:
        The two parts; None for a layer of another kind.

    """
    linear = [getattr(module, name, None) for name in _PROJECTIONS]
    norms = [getattr(module, name, None) for name in _NORMS]
    if not all(isinstance(x, nn.Module) and type(x) is not nn.Identity for x in norms):
        return None
    if any(type(x) is not nn.Linear for x in linear):
        return None
    if not all(hasattr(module, name) for name in _SAID):
        return None
    # a bound on what projections make need not show on the inputs of a test
    bounded = getattr(getattr(module, "config", None), "clip_qkv", None) is not None
    rotation, eager = (_of_file(module, name) for name in (_ROTATION, _EAGER))
    if bounded or rotation is None or eager is None:
        return None
    if [*inspect.signature(rotation).parameters][:4] != ["q", "k", "cos", "sin"]:
        return None
    given: Any = module
    parts = _whole(module)
    # some projections make gates besides queries
    made = parts.heads * parts.whole, parts.heads * parts.value_size
    if made != (given.q_proj.out_features, given.o_proj.in_features):
        return None
    return given.q_proj, given.k_proj


def require_same(model: nn.Module, layers: Iterable[str], batch: Batch) -> None:
    """Raise an InputError if layers, put together from their own parts, change a model's output.

    Args:
        model: The model.
        layers: The paths of its layers that normalise and turn queries and keys.
        batch: Inputs on which it is tried.

    """
    wrong = change_by(model, {name: rebuilt(model.get_submodule(name)) for name in layers}, batch)
    if wrong is not None:
        raise InputError(
            "the cache of {value} cannot be made smaller: its attention, put together from its "
            f"projections, norms and rotation, changes its output by {wrong:.1e} of its size",
            type(model).__name__,
            "Models whose attention is that of Qwen3, Gemma 3 or OLMo 2 can be cut.",
        )


def rebuilt(module: nn.Module) -> ThinNormedAttention:
    """The layer at its full size, made of the parts of the original; none is copied."""
    made = standing_in(ThinNormedAttention, module, _whole(module))
    made.training = module.training
    return made


def projecting(module: nn.Module, P: Float[Tensor, "heads m m"]) -> Callable[..., Any]:
    """What a layer's `forward` is when its turned queries become Pᵀq; gradients reach P."""
    made = rebuilt(module)

    def project(query: Tensor) -> Tensor:
        return query @ P.to(query)

    made.query_map = project
    return made.forward


def _whole(module: nn.Module) -> Parts:
    """The parts of a layer as they are."""
    q, k, v, o = (getattr(module, name) for name in _PROJECTIONS)
    m = int(cast(int, module.head_dim))
    heads, groups = q.out_features // m, max(1, k.out_features // m)
    return Parts(q, k, v, o, heads, groups, m, v.out_features // groups, m)


def _of_file(module: nn.Module, name: str) -> Any:
    """A function of the file in which the class of a module is written; None if there is none."""
    return getattr(sys.modules.get(type(module).__module__), name, None)
