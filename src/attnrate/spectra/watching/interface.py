"""Calls of the attention interface of `transformers`.

A model that uses the interface asks a table for its attention function at each call. While a watch
is open, the table gives functions that do the same and pass their arguments on. So this works with
any implementation (eager, sdpa, flash, flex), and the model makes its masks as always.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from attnrate.spectra.capture import Call, Mask
from attnrate.spectra.watching.desk import Desk
from attnrate.spectra.watching.reading import bias_and_mask, function_mask

Tensor = torch.Tensor


@contextmanager
def watch_interface(desk: Desk) -> Iterator[None]:
    """While it is open, calls of the attention interface go to the desk."""
    if "transformers" not in sys.modules:  # then no model of it is there either
        yield
        return
    from transformers.modeling_utils import AttentionInterface

    table: Any = AttentionInterface
    original = table.get_interface

    def get_interface(self: Any, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        attend = original(self, name, default)

        def watched(
            module: nn.Module,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attention_mask: Any = None,
            **rest: Any,
        ) -> Any:
            if not desk.is_free(module):
                return attend(module, query, key, value, attention_mask, **rest)
            run = desk.begin(module)
            used = desk.edited(module, run, query) if desk.edits else query
            # what the implementation calls in its turn is this call, not another one
            with torch._C.DisableTorchFunction():
                made = attend(module, used, key, value, attention_mask, **rest)
            if desk.sees:
                eager = name in (None, "eager")
                mask = mask_of(module, query, key, attention_mask, eager, rest)
                with torch._C.DisableTorchFunction():
                    call = _call((query, key, value), mask, rest, made)
                desk.seen(module, run, call)
            return made

        return watched

    with ExitStack() as stack:
        stack.callback(setattr, table, "get_interface", original)
        table.get_interface = get_interface
        yield


def _call(
    parts: tuple[Tensor, Tensor, Tensor], mask: tuple[Mask, bool], rest: dict[str, Any], made: Any
) -> Call:
    query, _, value = parts
    scale, bias = rest.get("scaling"), rest.get("position_bias")
    if bias is not None and not bool(bias.any()):
        bias = None  # T5 passes zeros where a layer has none
    whole = mask[0]
    if bias is None and isinstance(whole, Tensor):
        # BEiT and Swin pass their position bias as a mask of each head
        bias, rest_of_mask = bias_and_mask(whole)
        mask = rest_of_mask, mask[1]
        bias = None if bias is None else bias.expand(-1, -1, query.shape[2], -1)
    sinks = rest.get("s_aux", rest.get("sinks"))
    output = made[0] if isinstance(made, tuple) else made
    batch, heads, T = query.shape[:3]
    fits = isinstance(output, Tensor) and output.shape == (batch, T, heads, value.shape[-1])
    return Call(
        *parts,
        query.shape[-1] ** -0.5 if scale is None else float(scale),
        mask=mask[0],
        bias=bias,
        causal=mask[1],
        softcap=rest.get("softcap"),
        sinks=None if sinks is None else sinks.detach().reshape(_sink_shape(sinks)),
        output=output.transpose(1, 2) if fits else None,
    )


def _sink_shape(sinks: Tensor) -> tuple[int, ...]:
    """One logit for each head, or (batch, heads, T, 1) of them."""
    return tuple(sinks.shape) if sinks.dim() == 4 else (1, -1, 1, 1)


def mask_of(
    module: nn.Module, query: Tensor, key: Tensor, mask: Any, eager: bool, rest: dict[str, Any]
) -> tuple[Mask, bool]:
    """The mask of a call, and whether s > t is hidden in addition.

    Implementations differ. Eager ones get the whole mask as a tensor of four axes, flex a function.
    Sdpa gets no mask where it only has to be causal. Flash gets at most which keys are padding, and
    its window as a number.
    """
    T, S, device = query.shape[2], key.shape[2], key.device
    if mask is not None and not isinstance(mask, Tensor):
        return function_mask(mask.mask_mod, query, key), False
    if eager or (mask is not None and mask.dim() == 4):
        return mask, False
    causal = rest.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    if mask is not None:
        mask = mask[:, None, None, -S:].bool()
    window = rest.get("sliding_window")
    if window is not None and window < S:
        t = torch.arange(S - T, S, device=device)[:, None]
        near = t - torch.arange(S, device=device) < window
        mask = near[None, None] if mask is None else mask & near
    return mask, bool(causal) and T > 1
