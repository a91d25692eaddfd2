"""The families of models whose attention attnrate can watch, and finding the family of a model.

- `families`: the families of `transformers`, as data over one generic adapter
- `mha`: torch.nn.MultiheadAttention; `own`: this package's own models
- `interface` and `hooks`: watching attention by the interface of `transformers`, or by hooks

A file of this folder with a tuple ADAPTERS is found by itself.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, cast

from torch import nn

from attnrate.errors import InputError
from attnrate.found import modules_of
from attnrate.settings import by, checked
from attnrate.spectra.batches import require_module
from attnrate.spectra.capture import Adapter, Edit, See, Site

_ADAPTERS: list[Adapter] = [
    adapter for file in modules_of(__name__) for adapter in getattr(file, "ADAPTERS", ())
]


def _require_adapter(name: str, value: object) -> Adapter:
    lacks = [word for word in ("family", "sites", "watch") if not hasattr(value, word)]
    if lacks or isinstance(value, type):
        raise InputError(
            "an adapter is an object (no class) that has family, sites and watch; "
            + (f"this one has no {' and no '.join(lacks)}" if lacks else "this one is a class"),
            value,
            "See docs/profile.md, 'Another family', for an example.",
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


def adapter_for(model: object) -> tuple[Adapter, list[Site]]:
    """The adapter for a model, and the attention layers that it finds there.

    A layer that two families claim belongs to the family that was registered last.
    """
    model = require_module(model)
    found: list[tuple[Adapter, list[Site]]] = []
    claimed: set[int] = set()
    for adapter in _ADAPTERS:
        sites = [site for site in adapter.sites(model) if id(site.module) not in claimed]
        claimed.update(id(part) for site in sites for part in site.module.modules())
        if sites:
            found.append((adapter, sites))
    if not found:
        raise _unknown(model)
    if len(found) == 1:
        return found[0]
    place = {id(part): index for index, part in enumerate(model.modules())}
    found.sort(key=lambda family: place[id(family[1][0].module)])
    return _Together(found), [site for _, sites in found for site in sites]


@dataclass(frozen=True)
class _Together:
    """Several adapters as one, for a model such as an image encoder with a text decoder.

    Each adapter watches the attention layers that it has found.
    """

    found: list[tuple[Adapter, list[Site]]]

    @property
    def family(self) -> str:
        """The names of the families, in the order in which the model has them."""
        return " + ".join(adapter.family for adapter, _ in self.found)

    def sites(self, model: nn.Module) -> list[Site]:
        """The attention layers of all families, one family after the other."""
        return [site for adapter, _ in self.found for site in adapter.sites(model)]

    @contextmanager
    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> Iterator[None]:
        """Open the watches of all adapters at once."""
        with ExitStack() as stack:
            for adapter, own in self.found:
                known = {id(site.module) for site in own}
                mine = [site for site in sites if id(site.module) in known]
                stack.enter_context(adapter.watch(model, mine, see, edit))
            yield


def _unknown(model: nn.Module) -> InputError:
    seen = Counter(type(part).__name__ for part in model.modules())
    alike = sorted(name for name in seen if "attention" in name.lower())
    families = ", ".join(adapter.family for adapter in _ADAPTERS)
    if alike:
        return InputError(
            f"no adapter knows the attention of this {type(model).__name__}, which has {{value}}",
            alike,
            f"Known families: {families}. Pass an adapter to attnrate.spectra.adapters.register: "
            f"for a class of transformers Family('mine', ({alike[0]!r},)) may do; docs/profile.md, "
            "'Another family', shows both.",
        )
    return InputError(
        f"this {type(model).__name__} has no attention that attnrate knows, but {{value}}",
        dict(seen.most_common(12)),
        f"Known families: {families}. For attention of your own, write an adapter and pass it to "
        "attnrate.spectra.adapters.register: docs/profile.md, 'Another family', has a whole one.",
    )
