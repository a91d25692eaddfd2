"""Attention with fewer pairs of queries and keys and with smaller values, for Llama and its kin.

The module stands where an attention layer of transformers' Llama, Mistral, Qwen2 and other models
built alike stood, and is called as that was. It turns only the pairs that each key head has kept,
with their own frequencies; the cache holds the thin keys and values. Models that normalise queries
and keys before the rotation need all dimensions for that and are refused.
"""

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import nn

from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.rotary_layers import attention_layers, require_rotary, window_of
from attnrate.compress.modules.standing import Attention, StandIn, standing_in
from attnrate.compress.rotary import PairCut, RotaryMaps
from attnrate.compress.rotary_values import ValueCut
from attnrate.compress.trial import output
from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
#: The relative difference of outputs up to which a layer rebuilt at full size is the same layer
_LIMITS = {torch.float64: 1e-5, torch.float32: 1e-4}  # "eager" has its softmax in float32
_COARSE = 5e-2
_MASK = "attention_mask"


@dataclass(frozen=True)
class ThinShape:
    """The sizes of a thin attention layer: what is needed to build it before weights are loaded.

    Attributes:
        hidden: The width of the model.
        heads: The number of query heads.
        groups: The number of key heads.
        pairs: The number of pairs that each key head keeps; queries and keys are twice as large.
        m_v: The size of the values.
        biases: Whether queries, keys, values and the output have biases.
        scaling: The factor of the logits, that of the whole heads.
        window: How many tokens a query looks back; None: all.
        causal: Whether a query sees no token after its own.
        softcap: The bound c of logits L, which become c · tanh(L / c); None: there is none.

    """

    hidden: int
    heads: int
    groups: int
    pairs: int
    m_v: int
    biases: tuple[bool, bool, bool, bool]
    scaling: float
    window: int | None = None
    causal: bool = True
    softcap: float | None = None

    @property
    def size(self) -> int:
        """The size of queries and keys: two dimensions for each pair."""
        return 2 * self.pairs

    @property
    def value_size(self) -> int:
        """The size of values."""
        return self.m_v


class ThinLlamaAttention(StandIn):
    """Grouped attention with rotary embedding of the pairs that each key head has kept.

    Args:
        module: The layer in whose place it stands.
        shape: The sizes.

    """

    pairs: Int[Tensor, "groups kept"]

    def __init__(self, module: nn.Module, shape: ThinShape) -> None:
        super().__init__(module, shape)
        given: Any = module
        self.layer_idx, self.shape = int(given.layer_idx), shape
        self.head_dim = shape.size
        self.num_key_value_groups = shape.heads // shape.groups
        self.scaling = shape.scaling
        self.attention_dropout = float(getattr(self.config, "attention_dropout", 0.0))
        self.residual_dropout = float(getattr(module, "residual_dropout", 0.0))
        self.is_causal = self.in_cache = shape.causal
        self.sliding_window = shape.window
        queries, keys, values, output = shape.biases
        self.q_proj = nn.Linear(shape.hidden, shape.heads * self.head_dim, queries)
        self.k_proj = nn.Linear(shape.hidden, shape.groups * self.head_dim, keys)
        self.v_proj = nn.Linear(shape.hidden, shape.groups * shape.m_v, values)
        self.o_proj = nn.Linear(shape.heads * shape.m_v, shape.hidden, output)
        first = torch.arange(shape.pairs).expand(shape.groups, -1).clone()
        self.register_buffer("pairs", first)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """What the layer adds, and its weights if the attention in use gives them."""
        given = hidden_states.shape[:-1]
        query, key, value = (
            projection(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2)
            for projection, heads in (
                (self.q_proj, self.shape.heads),
                (self.k_proj, self.shape.groups),
                (self.v_proj, self.shape.groups),
            )
        )
        cos, sin = (self.of_pairs(x) for x in position_embeddings)
        key = turned(key, cos, sin)
        shared = self.num_key_value_groups
        query = turned(query, cos.repeat_interleave(shared, 1), sin.repeat_interleave(shared, 1))
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        if self.sliding_window is not None:
            kwargs["sliding_window"] = self.sliding_window
        if self.shape.softcap is not None:
            kwargs["softcap"] = self.shape.softcap
        dropout = self.attention_dropout if self.training else 0.0
        made, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        added = self.o_proj(made.reshape(*given, -1).contiguous())
        return nn.functional.dropout(added, self.residual_dropout, self.training), weights

    @property
    def plain(self) -> Attention:
        """The attention of the family by plain products, or that of Llama."""
        from transformers.models.llama.modeling_llama import eager_attention_forward

        home = sys.modules.get(self.whole.__module__)
        return cast(Attention, getattr(home, "eager_attention_forward", eager_attention_forward))

    def of_pairs(self, table: Float[Tensor, "batch T m"]) -> Float[Tensor, "batch groups T kept"]:
        """The cosines or sines of the pairs that each key head keeps, from those of all pairs."""
        return table[..., self.pairs].transpose(1, 2)

    def extra_repr(self) -> str:
        """The sizes, for the model's own print."""
        return f"heads={self.shape.heads}, size={self.head_dim}, values={self.shape.m_v}"


def turned(
    x: Float[Tensor, "batch heads T r"],
    cos: Float[Tensor, "#batch heads T pairs"],
    sin: Float[Tensor, "#batch heads T pairs"],
) -> Float[Tensor, "batch heads T r"]:
    """Queries or keys after each pair (i, i + r / 2) was turned by its own angle."""
    re, im = x.chunk(2, -1)
    return torch.cat([re * cos - im * sin, im * cos + re * sin], -1)


def thinned(
    module: nn.Module, pairs: PairCut | RotaryMaps | None = None, values: ValueCut | None = None
) -> ThinLlamaAttention:
    """A thin attention layer in place of a whole one.

    Args:
        module: The attention layer, as transformers made it.
        pairs: The cut of queries and keys, repaired or not; None: they stay as they are.
        values: The cut of values and outputs; None: they stay as they are.

    Returns:
        A new layer in the precision and on the device of the whole one, which is not changed.

    """
    q, k, v, o = require_rotary(module)
    m = int(cast(int, module.head_dim))
    heads, groups = q.out_features // m, k.out_features // m
    cut = pairs.maps(m) if isinstance(pairs, PairCut) else pairs
    kept = torch.arange(m // 2).expand(groups, -1) if cut is None else cut.pairs
    shape = ThinShape(
        hidden=q.in_features,
        heads=heads,
        groups=groups,
        pairs=kept.shape[1],
        m_v=v.out_features // groups if values is None else values.size,
        biases=(
            _has_bias(q),
            _has_bias(k),
            _has_bias(v),
            _has_bias(o) or (values is not None and bool(values.left.any())),
        ),
        scaling=float(cast(float, module.scaling)),
        window=window_of(module),
        causal=bool(getattr(module, "is_causal", True)),
        softcap=getattr(module, "attn_logit_softcapping", None),
    )
    thin = standing_in(ThinLlamaAttention, module, shape)
    thin.to(q.weight.device, q.weight.dtype)
    with torch.no_grad():
        thin.pairs.copy_(kept)
        for ours, theirs, maps in (
            (thin.q_proj, q, None if cut is None else cut.queries),
            (thin.k_proj, k, None if cut is None else cut.keys),
        ):
            _fill(ours, theirs, maps)
        _fill_values(thin, v, o, values)
    for ours, theirs in ((thin.q_proj, q), (thin.k_proj, k), (thin.v_proj, v), (thin.o_proj, o)):
        ours.requires_grad_(theirs.weight.requires_grad)
    return thin.train(module.training)


def replace(model: nn.Module, layers: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Put other layers in the place of a model's own; return those that were there, by names."""
    before = {name: model.get_submodule(name) for name in layers}
    for name, layer in layers.items():
        above, _, last = name.rpartition(".")
        setattr(model.get_submodule(above), last, layer)
    return before


@contextmanager
def replaced(model: nn.Module, layers: Mapping[str, nn.Module]) -> Iterator[None]:
    """While it is open, other layers stand in the place of the model's own."""
    before = replace(model, layers)
    try:
        yield
    finally:
        replace(model, before)


def with_layers(model: nn.Module, layers: Mapping[str, nn.Module]) -> nn.Module:
    """A copy of a model with other layers in the place of its own; all weights are shared."""
    return copied(model, layers, [*model.parameters(), *model.buffers()])


def copied(
    model: nn.Module, layers: Mapping[str, nn.Module], shared: Iterable[Tensor | nn.Module]
) -> nn.Module:
    """A copy of a model with other layers in the place of its own.

    Args:
        model: The model.
        layers: The layers, by the names of those in whose place they stand. They get the copy's
            configuration, by which it chooses its attention function for all of them.
        shared: What is not copied.

    Returns:
        The copy.

    """
    memo: dict[int, Any] = {id(x): x for x in shared}
    made = copy.deepcopy(model, memo)
    for name, layer in layers.items():
        # the memo knows the copy, also where the layer itself is shared
        layer.config = copy.deepcopy(model.get_submodule(name).config, memo)
    replace(made, layers)
    return made


def require_same(model: nn.Module, batch: Batch) -> None:
    """Raise an InputError if thin layers of full size do not give the model's own outputs.

    Whether a model is built as Llama is cannot be read from names: it may turn other pairs, bound
    its logits, or have sinks. So it is tried.
    """
    layers = {name: thinned(part) for name, part in attention_layers(model).items()}
    wrong = change_by(model, layers, batch)
    if wrong is not None:
        raise InputError(
            f"the weights of {{value}} cannot be cut: its attention, rebuilt as that of Llama, "
            f"changes its output by {wrong:.1e} of its size",
            type(model).__name__,
            "Models built as Llama, Mistral or Qwen2 are can be cut.",
        )


def change_by(model: nn.Module, layers: Mapping[str, nn.Module], batch: Batch) -> float | None:
    """The relative change of a model's output by layers that should do what its own do.

    Args:
        model: The model.
        layers: The layers that are put in its place for a run, by names.
        batch: The inputs.

    Returns:
        The change, where it is more than rounding; None otherwise.

    """
    with ExitStack() as rest:
        for part in (model, *layers.values()):
            rest.enter_context(batches.at_rest(part))
        for given in _with_and_without_mask(batch):
            whole = output(model, given)
            with replaced(model, layers):
                rebuilt = output(model, given)
            wrong = float((rebuilt - whole).norm() / whole.norm().clamp(min=1e-30))
            if not wrong <= _LIMITS.get(whole.dtype, _COARSE):
                return wrong
    return None


def _with_and_without_mask(batch: Batch) -> Iterator[Batch]:
    """A batch, and once more without the mask of its padding, behind which a layer may hide."""
    yield batch
    if isinstance(batch, Mapping) and not bool(batch.get(_MASK, torch.ones(1)).all()):
        yield {name: x for name, x in batch.items() if name != _MASK}


def _has_bias(layer: nn.Linear) -> bool:
    return isinstance(layer.bias, Tensor)


def _tensors(layer: nn.Linear) -> Iterator[tuple[str, Tensor]]:
    """The weight and, where there is one, the bias of a projection."""
    yield "weight", layer.weight
    if _has_bias(layer):
        yield "bias", layer.bias


def _fill(ours: nn.Linear, theirs: nn.Linear, maps: Tensor | None) -> None:
    """Fill a projection from another whose heads go through Mᵀ, or through nothing."""
    for name, x in _tensors(theirs):
        if maps is None:
            getattr(ours, name).copy_(x)
        else:
            by_head = x.double().reshape(len(maps), maps.shape[1], -1)
            made = maps.to(x.device).double().mT @ by_head
            getattr(ours, name).copy_(made.reshape(-1, *x.shape[1:]))


def _fill_values(
    thin: ThinLlamaAttention, v: nn.Linear, o: nn.Linear, values: ValueCut | None
) -> None:
    _fill(thin.v_proj, v, None if values is None else values.into)
    if values is None:
        _fill(thin.o_proj, o, None)
        return
    L, left = (x.to(o.weight.device).double() for x in (values.out, values.left))
    by_head = o.weight.double().reshape(len(o.weight), len(L), -1).transpose(0, 1)
    thin.o_proj.weight.copy_((by_head @ L).transpose(0, 1).flatten(1))
    if _has_bias(thin.o_proj):
        bias = (by_head @ left[..., None]).sum(0)[:, 0]
        thin.o_proj.bias.copy_(bias + o.bias.double() if _has_bias(o) else bias)
