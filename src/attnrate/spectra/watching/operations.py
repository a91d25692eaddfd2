"""Watching torch's own operations: scaled_dot_product_attention, and attention by hand."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnrate.spectra.capture import Call
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.layout import Layout, layout_of
from attnrate.spectra.watching.products import FOLLOWED, PRODUCTS, Products
from attnrate.spectra.watching.reading import head_count

Tensor = torch.Tensor
_ATTENTION = "scaled_dot_product_attention"


def _signature(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """The arguments of scaled_dot_product_attention, which as a builtin shows none."""


_ARGUMENTS = inspect.signature(_signature)


class Operations(TorchFunctionMode):
    """While it is open, every operation of torch on tensors passes through it."""

    def __init__(self, desk: Desk, runs: dict[tuple[int, int], int]) -> None:
        super().__init__()
        self._desk = desk
        self._products = Products(desk, runs)

    def restart(self) -> None:
        """Forget the pass so far: another one begins."""
        self._products.restart()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in PRODUCTS:
            return self._products.multiply(name, func, args, named)
        if name == _ATTENTION:
            return self._attend(func, args, named)
        made = func(*args, **named)
        if name in FOLLOWED:
            self._products.follow(name, args, named, made)
        return made

    def _attend(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        frames = self._desk.frames
        if not frames or not self._desk.is_free(frames[-1].module):
            return func(*args, **kwargs)
        module = frames[-1].module
        bound = _ARGUMENTS.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        query = given["query"]
        lead = tuple(query.shape[:-2])
        if len(lead) == 2:
            layout: Layout | None = Layout(lead, 1, lead)
        else:
            layout = layout_of(lead, head_count(frames), self._desk.inputs)
        key = None if layout is None else layout.keys_to_heads(given["key"])
        value = None if layout is None else layout.keys_to_heads(given["value"])
        if layout is None or key is None or value is None:
            self._desk.lost(module, f"its tensors of shape {tuple(query.shape)} do not show heads")
            return func(*args, **kwargs)
        run = self._desk.begin(module)
        own = layout.to_heads(query)
        if self._desk.edits:
            new = layout.back(self._desk.edited(module, run, own))
            args, kwargs = (new, *args[1:]), {k: v for k, v in kwargs.items() if k != "query"}
        made = func(*args, **kwargs)
        if self._desk.sees:
            mask = _mask(layout, given, own.shape[2], key.shape[2])
            call = Call(
                own,
                key,
                value,
                query.shape[-1] ** -0.5 if given["scale"] is None else float(given["scale"]),
                mask=mask,
                output=layout.to_heads(made),
            )
            self._desk.seen(module, run, call)
        return made


def _mask(layout: Layout, given: dict[str, Any], T: int, S: int) -> Tensor | None:
    """The mask of a call as (rows or 1, heads or 1, T or 1, S); torch's causal one counts too."""
    mask: Tensor | None = given["attn_mask"]
    if given["is_causal"]:
        # torch lets query t see the keys up to t, also where there are more keys than queries
        return torch.ones(T, S, dtype=torch.bool, device=given["key"].device).tril()[None, None]
    if mask is None:
        return None
    if mask.dim() <= 2:
        return mask.expand(1, 1, *mask.shape[-2:] if mask.dim() == 2 else (1, *mask.shape))
    if mask.dim() == 4 and len(layout.given) == 2:
        return mask
    return layout.to_heads(mask.expand(*layout.given, *mask.shape[-2:]))
