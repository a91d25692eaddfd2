"""Watching models of `transformers` through its attention interface.

A model that uses the interface asks a table for its attention function at each call. While a watch
is open, that table gives functions that first pass their arguments to us and then do the same as
before. So this works with any implementation (eager, sdpa, flash, flex), and the model makes its
masks as always.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.capture import Call, Edit, Mask, See, Site

Tensor = torch.Tensor
Plain = Callable[[Any], tuple[nn.Module, nn.Module]]
"""A function from a site's module to its parts that give queries and keys before the rotation."""


@contextmanager
def watch_interface(
    sites: list[Site], see: See | None, edit: Edit | None, plain: Plain | None = None
) -> Iterator[None]:
    """While it is open, calls of these sites go to `see`, and their queries through `edit`.

    `plain` finds the parts that give queries and keys before a rotary embedding, if there is one.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    table: Any = ALL_ATTENTION_FUNCTIONS
    known = {id(site.module): site for site in sites}
    before: dict[int, dict[str, Tensor]] = {key: {} for key in known}
    original = table.get_interface

    def get_interface(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        attend = original(name, default)

        def watched(
            module: nn.Module,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attention_mask: Any = None,
            **rest: Any,
        ) -> Any:
            site = known.get(id(module))
            if site is not None:
                if see is not None:
                    mask = _mask(site, query, key, attention_mask, name in (None, "eager"), rest)
                    plain = _plain(before[id(module)], key)
                    see(site, _call(site, (query, key, value), mask, plain, rest))
                if edit is not None:
                    query = edit(site, query)
            return attend(module, query, key, value, attention_mask, **rest)

        return watched

    with ExitStack() as stack:
        if plain is not None and see is not None:
            for site in sites:
                for name, part in zip(("query", "key"), plain(site.module), strict=True):
                    keep = _keep_output(before[id(site.module)], name, site.m_h)
                    stack.enter_context(part.register_forward_hook(keep))
        # A watch inside another one restores the outer one's function.
        if "get_interface" in vars(table):
            stack.callback(setattr, table, "get_interface", original)
        else:
            stack.callback(delattr, table, "get_interface")
        table.get_interface = get_interface
        yield


def _keep_output(keep: dict[str, Tensor], name: str, m_h: int) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        heads = output.reshape(*output.shape[:2], -1, m_h)
        keep[name] = heads.transpose(1, 2)

    return hook


def _call(
    site: Site,
    made: tuple[Tensor, Tensor, Tensor],
    mask: tuple[Mask, bool],
    plain: tuple[Tensor, Tensor] | None,
    rest: dict[str, Any],
) -> Call:
    changes = [name for name in ("softcap", "s_aux", "position_bias") if rest.get(name) is not None]
    if changes:
        raise InputError(
            f"the layer {site.name} changes its logits in a way that attnrate does not know",
            ", ".join(changes),
            "Write an adapter of your own (docs/profile.md, 'Another family').",
        )
    scale = rest.get("scaling")
    scale = site.m_h**-0.5 if scale is None else float(scale)
    return Call(*made, scale, mask=mask[0], causal=mask[1], plain=plain)


def _plain(before: dict[str, Tensor], key: Tensor) -> tuple[Tensor, Tensor] | None:
    if not before:
        return None
    plain = before.pop("query"), before.pop("key")
    # Keys of earlier calls come from a cache, which only has them after the rotation.
    return plain if plain[1].shape[2] == key.shape[2] else None


def _mask(
    site: Site, query: Tensor, key: Tensor, mask: Any, eager: bool, rest: dict[str, Any]
) -> tuple[Mask, bool]:
    """The mask of a call, and whether s > t is hidden in addition.

    Implementations differ. Eager ones get the whole mask as a tensor of four axes, flex a function.
    Sdpa gets no mask where it only has to be causal. Flash gets at most which keys are padding, and
    its window as a number.
    """
    batch, heads, T = query.shape[:3]
    S, device = key.shape[2], key.device
    if mask is not None and not isinstance(mask, Tensor):
        allowed = mask.mask_mod

        def rows_of(rows: slice) -> Tensor:
            """The mask of these rows only, because the whole mask may not fit into memory."""
            b, h, t, s = (torch.arange(count, device=device) for count in (batch, heads, T, S))
            axes = b.view(-1, 1, 1, 1), h.view(-1, 1, 1), t[None, None, rows, None], s
            found: Tensor = allowed(*axes)
            return found.expand(batch, -1, axes[2].shape[2], S)

        return rows_of, False
    if eager or (mask is not None and mask.dim() == 4):
        return mask, False
    causal = rest.get("is_causal")
    if causal is None:
        causal = getattr(site.module, "is_causal", True)
    if mask is not None:
        mask = mask[:, None, None, -S:].bool()
    window = rest.get("sliding_window")
    if window is not None and window < S:
        t = torch.arange(S - T, S, device=device)[:, None]
        near = t - torch.arange(S, device=device) < window
        mask = near[None, None] if mask is None else mask & near
    return mask, bool(causal) and T > 1
