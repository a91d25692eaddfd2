"""Attention as the rest of this room sees it: sites (layers), their calls, and how to watch them.

An adapter knows where a family of models makes its queries and keys. It lists the attention layers
of a model as sites, and passes on every call of them while the model runs, without changing what
the model computes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import nn

from attnrate.errors import InputError

Tensor = torch.Tensor
#: The names of the parts that make queries, keys and values, by family
PROJECTIONS = (
    ("query", "key", "value"),  # BERT and its relatives, ViT as it was
    ("q_proj", "k_proj", "v_proj"),  # Llama, Mistral, Qwen, Whisper, BART, CLIP, ViT as it is
    ("q", "k", "v"),  # MPNet, T5
    ("q_lin", "k_lin", "v_lin"),  # DistilBERT
    ("W_Q", "W_K", "W_V"),  # this package
)
Mask = Tensor | Callable[[slice], Tensor] | None
Streams = tuple[str | None, str | None]
"""The masks in a batch that mark which queries and which keys are no padding; None: all are."""
Kept = tuple[Bool[Tensor, "batch T"] | None, Bool[Tensor, "batch S"] | None]
"""Which queries and which keys are no padding; None: all are."""


@dataclass(frozen=True)
class Site:
    """An attention layer of a model.

    Attributes:
        name: Its path within the model.
        module: The torch module.
        heads: The number of query heads.
        groups: The number of key heads; query head h uses key head h // (heads / groups).
        m_h: The head size.
        kind: "self", or "cross" for attention to another sequence.
        rotary: Whether queries and keys are turned by their positions before they meet.
        streams: The masks in a batch that mark padding among queries and among keys.
        run: Which run of the module this is, where it runs several times in a pass (ALBERT).

    """

    name: str
    module: nn.Module = field(repr=False)
    heads: int
    groups: int
    m_h: int
    kind: str = "self"  # or "cross"
    rotary: bool = False
    streams: Streams = ("attention_mask", "attention_mask")
    run: int = 1


@dataclass(frozen=True)
class Call:
    """One call of a site: the weights softmax_s(scale · q(t)ᵀ k(s) + bias + mask) of values v(s).

    Its rows are the inputs of the batch, or several rows for each, one per window.

    Attributes:
        query: The queries as they meet the keys, after rotation and norms.
        key: The keys as they meet the queries.
        value: The values.
        scale: The factor of the logits.
        mask: True where a query may attend, or numbers that are added to the logits, or a function
            that gives some rows of either.
        bias: The position bias that is added to the logits.
        causal: Whether s > t is hidden in addition.
        plain: Queries and keys before the rotation, where there is one.
        kept: Which queries and keys are no padding, if the call itself knows.
        softcap: A bound c that logits L are given before bias and mask, c · tanh(L / c).
        sinks: Logits for attention to no token, of each head, or of each query and head.
        output: What the model made of the call, to hold what is known of it against.

    """

    query: Float[Tensor, "batch heads T m_h"]
    key: Float[Tensor, "batch groups S m_h"]
    value: Float[Tensor, "batch groups S m_v"]
    scale: float
    mask: Mask = None
    bias: Float[Tensor, "#batch heads T S"] | None = None
    causal: bool = False
    plain: tuple[Float[Tensor, "batch heads T m_h"], Float[Tensor, "batch groups S m_h"]] | None = (
        None
    )
    kept: Kept = (None, None)
    softcap: float | None = None
    sinks: Float[Tensor, "#batch heads #T 1"] | None = None
    output: Float[Tensor, "batch heads T m_v"] | None = None


def require_call(site: Site, call: Call) -> Call:
    """`call` itself, or an InputError when its sizes are not those of its site."""
    said = {"queries": (site.heads, site.m_h), "keys": (site.groups, site.m_h)}
    for name, made in (("queries", call.query), ("keys", call.key)):
        shape = (made.shape[1], made.shape[-1])
        if shape != said[name]:
            raise InputError(
                f"the adapter says that {site.name} has {said[name][0]} heads of {name} of size "
                f"{said[name][1]}, but its calls have others; their number and size",
                shape,
                "Correct its sites or its calls (docs/profile.md, 'An adapter of your own').",
            )
    return call


See = Callable[[Site, Call], None]
"""A function that takes each call of a site, in the order in which the model makes them."""

Edit = Callable[[Site, Tensor], Tensor]
"""A function from a site's queries (batch, heads, T, m_h) to those that the model then uses."""


@runtime_checkable
class Adapter(Protocol):
    """What knows the attention of a family of models."""

    @property
    def family(self) -> str:
        """The name of the family, for messages and tables."""

    def sites(self, model: nn.Module) -> list[Site]:
        """The model's attention layers in the order in which they run; [] for another family."""

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """While it is open, calls of these sites go to `see`, and their queries through `edit`."""
