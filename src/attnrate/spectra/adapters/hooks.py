"""Watching attention by temporary hooks, for models without an attention interface."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import nn

from attnrate.spectra.capture import PROJECTIONS, Call, Edit, See, Site

Tensor = torch.Tensor
Parts = Callable[[Any], tuple[nn.Module, nn.Module, nn.Module]]
"""A function from a site's module to its parts for queries, keys and values, heads side by side."""

Made = Callable[[Site, Tensor, Tensor, Tensor, dict[str, Any]], Call]
"""A function that makes a call of a site, its queries, keys and values, and its arguments."""


@contextmanager
def watch_outputs(
    sites: list[Site],
    see: See | None,
    edit: Edit | None,
    parts: Parts,
    made: Made,
    names: tuple[str, ...] = (),
) -> Iterator[None]:
    """Watch sites by hooks at their parts.

    Args:
        sites: The attention layers.
        see: Takes each call, if given.
        edit: Changes the queries, if given.
        parts: Finds the parts of a site's module that make queries, keys and values.
        made: Makes a call from what the parts gave.
        names: The names of the positional arguments of the sites' modules.

    """
    with ExitStack() as stack:
        for site in sites:
            own = parts(site.module)
            # The last hook at a part runs first, so `see` gets queries before they are edited,
            # while a watch around this one gets them after that.
            if edit is not None:
                hook = _editing(site, edit)
                stack.enter_context(own[0].register_forward_hook(hook, prepend=True))
            if see is not None:
                _look(stack, site, own, see, made, names)
        yield


def projections(module: nn.Module) -> tuple[nn.Module, nn.Module, nn.Module]:
    """The parts of a module that make queries, keys and values, found by their usual names."""
    parts = dict(module.named_children())
    query, key, value = next(names for names in PROJECTIONS if parts.keys() >= {*names})
    return parts[query], parts[key], parts[value]


def _look(
    stack: ExitStack,
    site: Site,
    parts: tuple[nn.Module, ...],
    see: See,
    made: Made,
    names: tuple[str, ...],
) -> None:
    """Pass the site's calls to `see` for as long as the stack is open."""
    given: dict[str, Any] = {}
    outputs: dict[int, Tensor] = {}

    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given.clear()
        outputs.clear()
        given.update(zip(names, args, strict=False), **kwargs)

    def keep(index: int) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: object, output: Tensor) -> None:
            outputs[index] = split(output, site.groups if index else site.heads)

        return hook

    def after(_module: nn.Module, _args: object, _output: object) -> None:
        call = made(site, outputs[0], outputs[1], outputs[2], dict(given))
        given.clear()
        outputs.clear()
        see(site, call)

    stack.enter_context(site.module.register_forward_pre_hook(before, with_kwargs=True))
    for index, part in enumerate(parts):
        stack.enter_context(part.register_forward_hook(keep(index), prepend=True))
    stack.enter_context(site.module.register_forward_hook(after))


def _editing(site: Site, edit: Edit) -> Callable[..., Tensor]:
    def hook(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        edited = edit(site, split(output, site.heads))
        return edited.transpose(1, 2).reshape(output.shape)

    return hook


def split(
    features: Float[Tensor, "*batch length k"], heads: int
) -> Float[Tensor, "all heads length m"]:
    """Give heads that lie side by side an axis of their own; axes before the length become one."""
    length, width = features.shape[-2:]
    return features.reshape(-1, length, heads, width // heads).transpose(1, 2)
