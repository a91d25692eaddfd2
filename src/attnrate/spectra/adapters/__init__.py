"""Attention that a model at work does not show by itself, and adapters of a user's own.

- `mha`: torch.nn.MultiheadAttention; `own`: this package's own models
- `hooks`: watching attention by hooks at the parts that make queries, keys and values

A file of this folder with a tuple ADAPTERS is found by itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, cast

from torch import nn

from attnrate.errors import InputError
from attnrate.found import modules_of
from attnrate.own import load
from attnrate.settings import by, checked
from attnrate.spectra.capture import Adapter, Site

_KNOWN: list[Adapter] = [
    adapter for file in modules_of(__name__) for adapter in getattr(file, "ADAPTERS", ())
]
_ADAPTERS: list[Adapter] = [*_KNOWN]


def _require_adapter(name: str, value: object) -> Adapter:
    lacks = [word for word in ("family", "sites", "watch") if not hasattr(value, word)]
    if lacks or isinstance(value, type):
        raise InputError(
            "an adapter is an object (no class) that has family, sites and watch; "
            + (f"this one has no {' and no '.join(lacks)}" if lacks else "this one is a class"),
            value,
            "See docs/profile.md, 'An adapter of your own', for an example.",
        )
    return cast(Adapter, value)


@checked
def register(adapter: Annotated[Adapter, by(_require_adapter)]) -> None:
    """Add the adapter of a family; it is asked before those that are known already.

    Args:
        adapter: An object with `family`, `sites` and `watch`, as docs/profile.md shows.

    """
    _ADAPTERS.insert(0, adapter)


def unregister(adapter: Adapter) -> None:
    """Remove the adapter of a family.

    Args:
        adapter: An adapter that was registered.

    """
    _ADAPTERS.remove(adapter)


@contextmanager
def adapter_of(word: str | None) -> Iterator[None]:
    """While it is open, an adapter of the user's own is registered.

    Args:
        word: "module:Class", a class or function that gives the adapter when it is called without
            arguments; None for no adapter. The module is looked for in the current folder too.

    Raises:
        InputError: There is no such class, it cannot be called, or what it gives is no adapter.

    """
    if word is None:
        yield
        return
    made = load("adapter", word, "--adapter")
    try:
        adapter = made()
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise InputError(
            f"--adapter: the adapter could not be made without arguments ({said})",
            word,
            "Give all arguments of its class defaults.",
        ) from problem
    register(adapter)
    try:
        yield
    finally:
        unregister(adapter)


def registered() -> list[Adapter]:
    """The adapters that were added by `register`, the last one first."""
    return [adapter for adapter in _ADAPTERS if all(adapter is not known for known in _KNOWN)]


def claims(model: nn.Module) -> list[tuple[Adapter, list[Site]]]:
    """The adapters that know attention layers of a model, each with those layers.

    A layer that two adapters claim belongs to the one that was registered last.
    """
    found: list[tuple[Adapter, list[Site]]] = []
    claimed: set[int] = set()
    for adapter in _ADAPTERS:
        sites = [site for site in adapter.sites(model) if id(site.module) not in claimed]
        claimed.update(id(part) for site in sites for part in site.module.modules())
        if sites:
            found.append((adapter, sites))
    return found
