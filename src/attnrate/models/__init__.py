"""The hypothesis spaces: the paper's Transformer, its rivals, and models for real data.

- `transformer.py` is Eq. 5, with options that Eq. 5 does not have (`attention.py`,
  `positions.py`); in `coupling.py` F and f are the identity, so only the coupling is learned; in
  `relative.py` logits depend on t - s (rotary, ALiBi).
- `recurrent.py` (linear RNN, GRU), `state_space.py` and `convolution.py` are its rivals;
  `hybrid.py` puts one of them before it, and `stem.py` convolutions before a ViT.
- `vit.py` and `seq2seq.py` (with `multihead.py` and `decoding.py`) are for real data, and
  `rivals.py` has recurrent models for such data; `presets.py` has what their settings share.
- `base.py` has what models share; `build.py` makes one from a table of settings: a class marked
  `@MODELS.add("kind")` in a file of this room is found by being there.
"""

from attnrate.models.base import SequenceModel, feed_forward, nearest_size
from attnrate.models.convolution import CausalConvolution
from attnrate.models.coupling import Beside, CouplingTransformer, hold_values
from attnrate.models.positions import (
    IntervalShift,
    LearnedPosition,
    NoPosition,
    PositionEncoding,
    SinusoidalPosition,
    position_encoding,
)
from attnrate.models.recurrent import GRU, LinearRNN
from attnrate.models.relative import RelativeTransformer
from attnrate.models.state_space import StateSpace
from attnrate.models.transformer import LearnedCoupling, Transformer

__all__ = [
    "GRU",
    "Beside",
    "CausalConvolution",
    "CouplingTransformer",
    "IntervalShift",
    "LearnedCoupling",
    "LearnedPosition",
    "LinearRNN",
    "NoPosition",
    "PositionEncoding",
    "RelativeTransformer",
    "SequenceModel",
    "SinusoidalPosition",
    "StateSpace",
    "Transformer",
    "feed_forward",
    "hold_values",
    "nearest_size",
    "position_encoding",
]
