"""The hypothesis spaces: modules that are trained, compiled and measured."""

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
