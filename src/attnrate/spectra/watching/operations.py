"""Watching torch's own operations: its attention functions, and attention written out by hand."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnrate.spectra.adapters import mha
from attnrate.spectra.capture import Call
from attnrate.spectra.watching.axes import Axes, lead_axes
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.product import OPERATIONS
from attnrate.spectra.watching.products import Products, in_groups
from attnrate.spectra.watching.reading import bias_and_mask, head_count
from attnrate.spectra.watching.traces import FOLLOWED

Tensor = torch.Tensor
_ATTENTION, _MULTIHEAD = "scaled_dot_product_attention", "multi_head_attention_forward"
_TRANSPOSED = torch.Tensor.mT.__get__  # type: ignore[attr-defined]


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
        if name in OPERATIONS:
            return self._products.multiply(name, func, args, named)
        if name == _ATTENTION:
            return self._attend(func, args, named)
        if name == _MULTIHEAD:
            return self._attend_by_torch(func, args, named)
        made = func(*args, **named)
        if name in FOLLOWED:
            self._products.follow(name, args, named, made)
        elif name == "__get__" and func == _TRANSPOSED:
            self._products.follow("mT", args, named, made)
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
        # four axes can only be those of torch's own documentation
        heads = query.shape[1] if query.dim() == 4 else head_count(frames)
        lead = lead_axes(query.shape[:-2], heads, self._desk.inputs)
        if query.dim() == 4:
            lead = Axes(((((0, 0), query.shape[0]),), (((1, 1), query.shape[1]),)))
        key, value = (
            None if lead is None else in_groups(lead, given[name]) for name in ("key", "value")
        )
        if lead is None or key is None or value is None:
            shape = tuple(query.shape)
            why = f"its queries of shape {shape} do not show which axis counts heads"
            self._desk.lost(module, why)
            return func(*args, **kwargs)
        run = self._desk.begin(module)
        axes = lead.ending(*query.shape[-2:])
        own = axes.canonical(query)
        if self._desk.edits:
            new = axes.restored(self._desk.edited(module, run, own))
            args, kwargs = (new, *args[1:]), {k: v for k, v in kwargs.items() if k != "query"}
        made = func(*args, **kwargs)
        if self._desk.sees:
            mask = _mask(lead, given, own.shape[2], key.shape[2])
            bias = None
            if mask is not None:
                with torch._C.DisableTorchFunction():
                    bias, mask = bias_and_mask(mask)
            call = Call(
                own,
                key,
                value,
                query.shape[-1] ** -0.5 if given["scale"] is None else float(given["scale"]),
                mask=mask,
                bias=None if bias is None else bias.expand(-1, -1, own.shape[2], -1),
                output=lead.ending(*made.shape[-2:]).canonical(made),
            )
            self._desk.seen(module, run, call)
        return made

    def _attend_by_torch(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Attention by the function of torch.nn.MultiheadAttention, in a module of another kind."""
        frames = self._desk.frames
        if not frames or not self._desk.is_free(frames[-1].module):
            return func(*args, **kwargs)
        module = frames[-1].module
        given = mha.arguments(args, kwargs)
        run = self._desk.begin(module)
        if self._desk.sees:
            self._desk.seen(module, run, mha.call_of(given))
        if self._desk.edits:
            given = mha.with_queries(given, lambda query: self._desk.edited(module, run, query))
        return func(**given)


def _mask(lead: Axes, given: dict[str, Any], T: int, S: int) -> Tensor | None:
    """The mask of a call as (rows or 1, heads or 1, T or 1, S); torch's causal one counts too."""
    mask: Tensor | None = given["attn_mask"]
    if given["is_causal"]:
        # torch lets query t see the keys up to t, also where there are more keys than queries
        return torch.ones(T, S, dtype=torch.bool, device=given["key"].device).tril()[None, None]
    if mask is None:
        return None
    axes = lead.ending(T, S)
    wide = mask.reshape((1,) * (len(axes.axes) - mask.dim()) + tuple(mask.shape))
    return axes.canonical(wide)
