"""The variants of Eq. 5 that the paper leaves open, as settings of a model."""

from dataclasses import dataclass
from typing import Any

BASELINE = "Eq. 5"
#: Fig. 1's value size, which heads share
_VALUES = 32


@dataclass(frozen=True)
class Variant:
    """One change of Eq. 5; `cost` is the time of a step beside the baseline's."""

    heads: int = 1
    layers: int = 1
    residual: bool = False
    layer_norm: bool = False
    scale: bool = False
    cost: float = 1.0

    def model(self, size: int) -> dict[str, Any]:
        """Settings of the model with the given total head size, without those left as in Eq. 5."""
        plain = Variant()
        switches = {
            name: getattr(self, name)
            for name in ("heads", "layers", "residual", "layer_norm", "scale")
            if getattr(self, name) != getattr(plain, name)
        }
        share = {"m_v": _VALUES // self.heads} if self.heads > 1 else {}
        return {"m_h": size // self.heads, **share, **switches}


VARIANTS = {
    BASELINE: Variant(),
    "2 heads": Variant(heads=2, cost=1.1),
    "4 heads": Variant(heads=4, cost=1.2),
    "2 layers": Variant(layers=2, cost=1.5),
    "2 layers, residual": Variant(layers=2, residual=True, cost=1.5),
    "2 layers, residual, layer norm": Variant(layers=2, residual=True, layer_norm=True, cost=1.6),
    "layer norm": Variant(layer_norm=True, cost=1.1),
    "1/√m_h": Variant(scale=True),
}
