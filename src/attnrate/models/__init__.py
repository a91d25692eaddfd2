"""The hypothesis spaces: the paper's Transformer, its rivals, and models for real data.

- `transformer.py` is Eq. 5 with what it leaves open (`attention.py`, `positions.py`);
  `coupling.py` holds F and f at the identity, so that the coupling alone is learned.
- `recurrent.py` (linear RNN, GRU), `state_space.py` and `convolution.py` are its rivals.
- `vit.py` and `seq2seq.py` (with `multihead.py` and `decoding.py`) are for real data, `rivals.py`
  has recurrent models for the same; `presets.py` has their settings by name.
- `base.py` has what models share; `build.py` makes one from a table of settings: a class marked
  `@MODELS.add("kind")` in a file of this room is found by being there.
"""

from attnrate.models.base import SequenceModel, feed_forward
from attnrate.models.convolution import CausalConvolution
from attnrate.models.coupling import CouplingTransformer
from attnrate.models.positions import (
    IntervalShift,
    LearnedPosition,
    NoPosition,
    PositionEncoding,
    SinusoidalPosition,
    position_encoding,
)
from attnrate.models.recurrent import GRU, LinearRNN
from attnrate.models.state_space import StateSpace
from attnrate.models.transformer import LearnedCoupling, Transformer

__all__ = [
    "GRU",
    "CausalConvolution",
    "CouplingTransformer",
    "IntervalShift",
    "LearnedCoupling",
    "LearnedPosition",
    "LinearRNN",
    "NoPosition",
    "PositionEncoding",
    "SequenceModel",
    "SinusoidalPosition",
    "StateSpace",
    "Transformer",
    "feed_forward",
    "position_encoding",
]
