"""What is to be approximated: maps H from sequences to sequences, each with a law of its inputs.

- `form.py` has what every target offers, and Eq. 8, the form that the theory speaks about;
  `couplings.py` has its ρ, `inputs.py` and `sampled.py` have laws of the inputs.
- `graph.py` has nearest point, centre of gravity, selection and gravity; `linear.py` linear
  functionals with the exact floors of causal models. `delay.py` looks back by a lag, sharply or
  blurred; `irregular.py` has inputs at random times.
- `alter.py` permutes and mixes (sec. 6); `unmix.py` has tokens that come mixed;
  `error.py` measures how far a model is from a target.
- `build.py` makes a target from a table of settings: a function marked `@TARGETS.add("kind")` in a
  file of this room is found by being there, a user's own as "module:name".
- `checks.py` and `seeds.py` have what these share.
"""

from attnrate.targets.alter import (
    MixedTarget,
    PermutedAttentionTarget,
    PermutedTarget,
    convolve,
    inverse,
    mixed,
    move_to_end,
    permuted,
    swap_ends,
)
from attnrate.targets.couplings import (
    Coupling,
    FactoredCoupling,
    FiniteRankCoupling,
    FunctionCoupling,
    SpectralCoupling,
    spectral_coupling,
)
from attnrate.targets.error import ErrorEstimate, error_of
from attnrate.targets.form import AttentionTarget, Target, identity, spectral_target
from attnrate.targets.graph import (
    EQ66_INDICES,
    centre_of_gravity,
    gravity,
    nearest_point,
    selection,
    selection_example,
)
from attnrate.targets.inputs import (
    GaussianInputs,
    IndependentInputs,
    InputLaw,
    PositionedInputs,
    UniformInputs,
)
from attnrate.targets.linear import LinearTarget, linear_target, uniform_kernel
from attnrate.targets.sampled import SampledInputs

__all__ = [
    "EQ66_INDICES",
    "AttentionTarget",
    "Coupling",
    "ErrorEstimate",
    "FactoredCoupling",
    "FiniteRankCoupling",
    "FunctionCoupling",
    "GaussianInputs",
    "IndependentInputs",
    "InputLaw",
    "LinearTarget",
    "MixedTarget",
    "PermutedAttentionTarget",
    "PermutedTarget",
    "PositionedInputs",
    "SampledInputs",
    "SpectralCoupling",
    "Target",
    "UniformInputs",
    "centre_of_gravity",
    "convolve",
    "error_of",
    "gravity",
    "identity",
    "inverse",
    "linear_target",
    "mixed",
    "move_to_end",
    "nearest_point",
    "permuted",
    "selection",
    "selection_example",
    "spectral_coupling",
    "spectral_target",
    "swap_ends",
    "uniform_kernel",
]
