"""attnrate: how large attention has to be. The public names; nothing else is public.

Names are loaded when first used, so that `import attnrate` and the command line's help are quick.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "AccuracyWarning": "errors",
    "AttentionTarget": "targets",
    "AttnrateError": "errors",
    "InputError": "errors",
    "LinearRNN": "models",
    "PositionedInputs": "targets",
    "Samples": "theory.domain",
    "StoreError": "errors",
    "Transformer": "models",
    "UniformInputs": "targets",
    "advise": "spectra.advise",
    "best_split": "theory.bounds",
    "box": "theory.domain",
    "bracket": "fitting.bracket",
    "centre_of_gravity": "targets",
    "compile_target": "theory.compile",
    "complexity": "theory.complexity",
    "fit": "fitting.fit",
    "fit_decay": "theory.decay",
    "gravity": "targets",
    "jackson_bound": "theory.bounds",
    "linear_target": "targets",
    "move_to_end": "targets",
    "nearest_point": "targets",
    "pod": "theory.pod",
    "profile": "spectra.profile",
    "represent": "theory.represent",
    "reproduce": "reproduction",
    "rnn_complexity": "theory.recurrent",
    "selection": "targets",
    "spectral_coupling": "targets",
    "spectral_target": "targets",
    "swap_ends": "targets",
    "sweep": "fitting.sweep",
    "train": "training.train",
    "trained": "training.train",
    "uniform_kernel": "targets",
    "union": "theory.domain",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'attnrate' has no attribute {name!r}")
    value = getattr(import_module(f"attnrate.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
