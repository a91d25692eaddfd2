"""What attention computes, as the rest of this room sees it: sites, calls, and how to watch them.

An adapter (one file a family under `adapters/`) knows where a family of models makes its queries
and keys. It lists the model's attention layers as sites, and hands over every call of them while
the model runs, without changing what the model computes.
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
#: What families call the parts that make queries, keys and values
PROJECTIONS = (
    ("query", "key", "value"),  # BERT and its relatives, ViT as it was
    ("q_proj", "k_proj", "v_proj"),  # Llama, Mistral, Qwen, Whisper, BART, CLIP, ViT as it is
    ("q", "k", "v"),  # MPNet, T5
    ("q_lin", "k_lin", "v_lin"),  # DistilBERT
    ("W_Q", "W_K", "W_V"),  # this package
)
Mask = Tensor | Callable[[slice], Tensor] | None
Streams = tuple[str | None, str | None]
"""The entries of a batch that tell which queries and which keys are tokens; None: all of them."""
Kept = tuple[Bool[Tensor, "batch T"] | None, Bool[Tensor, "batch S"] | None]
"""Which queries and which keys are tokens and no padding; None: all of them."""


@dataclass(frozen=True)
class Site:
    """An attention layer of a model: `heads` query heads, `groups` key heads, head size `m_h`.

    Query head h reads key head h // (heads / groups). `streams` tell padding from tokens. `rotary`
    says that queries and keys are turned by their positions before they meet.
    """

    name: str
    module: nn.Module = field(repr=False)
    heads: int
    groups: int
    m_h: int
    kind: str = "self"  # or "cross"
    rotary: bool = False
    streams: Streams = ("attention_mask", "attention_mask")


@dataclass(frozen=True)
class Call:
    """One call of a site: softmax_s(scale · q(t)ᵀ k(s) + bias + mask) weighs the values v(s).

    Queries and keys are what meets in the product: after rotation and norms. `plain` has them
    before the rotation, where there is one. `mask` is True where a query may look, or is added to
    the logits, or is a function that gives some of its rows; `causal` hides s > t besides. `kept`
    says which queries and keys are no padding, if the call itself knows.
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


def require_call(site: Site, call: Call) -> Call:
    """The call itself, or an InputError when its sizes are not those that the site says."""
    said = {"queries": (site.heads, site.m_h), "keys": (site.groups, site.m_h)}
    for name, made in (("queries", call.query), ("keys", call.key)):
        shape = (made.shape[1], made.shape[-1])
        if shape != said[name]:
            raise InputError(
                f"the adapter says that {site.name} has {said[name][0]} heads of {name} of size "
                f"{said[name][1]}, and hands over others; their number and size",
                shape,
                "Mend its sites or its calls (docs/profile.md, 'Another family').",
            )
    return call


See = Callable[[Site, Call], None]
"""Takes every call of a site, in the order in which the model makes them."""

Edit = Callable[[Site, Tensor], Tensor]
"""Queries (batch, heads, T, m_h) of a site to those that the model shall go on with."""


@runtime_checkable
class Adapter(Protocol):
    """What a file under `adapters/` offers for its family."""

    @property
    def family(self) -> str:
        """Its name, for messages and tables."""

    def sites(self, model: nn.Module) -> list[Site]:
        """The attention layers in the order in which they run; [] if the model is of no concern."""

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """While it is open, calls of these sites go to `see` and their queries through `edit`."""
