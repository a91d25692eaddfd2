"""A family of models that attnrate does not know: its adapter, and a profile through it."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

import attnrate as ar
from attnrate.spectra.adapters import register
from attnrate.spectra.adapters.hooks import watch_outputs
from attnrate.spectra.capture import Call, Edit, See, Site


class ToyAttention(nn.Module):
    """Two heads of size 3 whose logits are q(t)ᵀ k(s)."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(4, 6) for _ in range(3))
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, T, 4) -> (batch, T, 4)."""
        made = (part(x).unflatten(-1, (2, 3)) for part in (self.to_q, self.to_k, self.to_v))
        q, k, v = (side.transpose(1, 2) for side in made)
        mixed = (q @ k.mT).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Toy:
    """The adapter for models that are made of ToyAttention."""

    family = "toy"

    def sites(self, model: nn.Module) -> list[Site]:
        """Where the attention is, how many heads it has and of which size."""
        return [
            Site(name=path, module=part, heads=2, groups=2, m_h=3, streams=(None, None))
            for path, part in model.named_modules()
            if isinstance(part, ToyAttention)
        ]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Look at what these parts of a site give, and make a call of it."""
        return watch_outputs(sites, see, edit, self.parts, self.call)

    def parts(self, module: ToyAttention) -> tuple[nn.Module, nn.Module, nn.Module]:
        """Those that give queries, keys and values."""
        return module.to_q, module.to_k, module.to_v

    def call(self, site: Site, q: Tensor, k: Tensor, v: Tensor, given: dict[str, Any]) -> Call:
        """`given` has the arguments of the module, such as masks."""
        return Call(q, k, v, scale=1.0)


if __name__ == "__main__":
    register(Toy())
    torch.manual_seed(0)
    model = nn.Sequential(ToyAttention(), ToyAttention())
    print(ar.profile(model, torch.randn(10, 30, 4)))
