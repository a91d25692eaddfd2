"""Models of equal size: rivals with about as many parameters as a small Transformer of Eq. 5."""

from collections.abc import Mapping
from functools import cache

from attnrate.models.base import SequenceModel, nearest_size
from attnrate.models.build import build_model
from attnrate.settings import Settings
from attnrate.targets.delay import delay_target

#: The name of the model whose number of parameters the others match
PIVOT = "Transformer"
TRANSFORMER: Settings = {
    "kind": "transformer",
    "n": 16,
    "m_h": 8,
    "m_v": 16,
    "width": 32,
    "depth": 2,
    "position": "learned",
}
#: The other models, each with the setting that adjusts its number of parameters
OTHERS: Mapping[str, tuple[Settings, str]] = {
    "RNN": ({"kind": "linear_rnn", "activation": "tanh"}, "hidden"),
    "linear RNN": ({"kind": "linear_rnn"}, "hidden"),
    "GRU": ({"kind": "gru"}, "hidden"),
    "convolution": ({"kind": "convolution"}, "channels"),
    "state space": ({"kind": "state_space", "state": 16}, "channels"),
}


@cache
def settings_of(name: str, length: int) -> Settings:
    """The settings of a model for scalar sequences of this length.

    Args:
        name: PIVOT, or a name in OTHERS.
        length: The number of tokens of a sequence, on which the number of parameters depends.

    Returns:
        The settings; the free size of a rival brings its parameters nearest to the Transformer's.

    """
    if name == PIVOT:
        return TRANSFORMER
    given, free = OTHERS[name]
    wanted = parameters_of(TRANSFORMER, length)
    size = nearest_size(lambda size: parameters_of({**given, free: size}, length), wanted)
    return {**given, free: size}


def parameters_of(given: Settings, length: int) -> int:
    """The number of parameters of a model with these settings, for scalar sequences."""
    model = build_model(given, delay_target(0, length=length))
    assert isinstance(model, SequenceModel)
    return model.parameter_count()
