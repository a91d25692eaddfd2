"""Hooks that are taken away again, for models that do not go through an attention interface."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import nn

from attnrate.spectra.capture import PROJECTIONS, Call, Edit, See, Site

Tensor = torch.Tensor
Parts = Callable[[Any], tuple[nn.Module, nn.Module, nn.Module]]
"""A site's module to its parts that give queries, keys and values, heads side by side."""

Made = Callable[[Site, Tensor, Tensor, Tensor, dict[str, Any]], Call]
"""A site, what its parts gave with heads apart, and the arguments of its module, to a call."""


@contextmanager
def watch_outputs(
    sites: list[Site],
    see: See | None,
    edit: Edit | None,
    parts: Parts,
    made: Made,
    names: tuple[str, ...] = (),
) -> Iterator[None]:
    """Watch sites at their parts. `names` are those of their modules' positional arguments."""
    with ExitStack() as stack:
        for site in sites:
            own = parts(site.module)
            # The last hook at a part runs first: what is seen is not edited yet, while a watch
            # around this one sees what this one has edited.
            if edit is not None:
                hook = _editing(site, edit)
                stack.enter_context(own[0].register_forward_hook(hook, prepend=True))
            if see is not None:
                _look(stack, site, own, see, made, names)
        yield


def projections(module: nn.Module) -> tuple[nn.Module, nn.Module, nn.Module]:
    """The parts of a module that make queries, keys and values, by the names of known families."""
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
    """Hand over the site's calls for as long as the stack is open."""
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
    """Heads side by side to an axis of their own; any axes before the length become one."""
    length, width = features.shape[-2:]
    return features.reshape(-1, length, heads, width // heads).transpose(1, 2)
