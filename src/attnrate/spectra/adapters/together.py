"""Models that are made of several families, such as an image encoder with a text decoder."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from attnrate.spectra.capture import Adapter, Edit, See, Site


class Together:
    """Several adapters as one; each sees to the attention layers that it found itself."""

    def __init__(self, found: list[tuple[Adapter, list[Site]]]) -> None:
        self.family = " + ".join(adapter.family for adapter, _ in found)
        self.found = found

    def sites(self, model: nn.Module) -> list[Site]:
        """Those of all families, one family after the other."""
        return [site for adapter, _ in self.found for site in adapter.sites(model)]

    @contextmanager
    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> Iterator[None]:
        """All watches at once."""
        with ExitStack() as stack:
            for adapter, own in self.found:
                known = {id(site.module) for site in own}
                mine = [site for site in sites if id(site.module) in known]
                stack.enter_context(adapter.watch(model, mine, see, edit))
            yield
