"""What a law of inputs must have, and what it must draw: the checks of laws that users write."""

import math
from typing import Annotated
from weakref import WeakSet

import torch
from jaxtyping import Float64

from attnrate.errors import InputError, require_number
from attnrate.settings import by
from attnrate.targets.inputs import IndependentInputs, InputLaw, float64
from attnrate.targets.seeds import generator as seeded

#: A token may lie outside its box by this share of the box's ends, from rounding in float32
_ROUNDING = 1e-6
#: The numbers that are drawn twice to see whether a law follows its seed
_TWICE = 2**12
#: Classes of laws that were seen to give the same sequences for the same seed
_follow_their_seed: WeakSet[type] = WeakSet()


def require_law(name: str, value: object) -> InputLaw:
    """`value` itself, or an InputError when it is no law of inputs or lacks a part of one."""
    # by the bases first: isinstance asks for d, which fails where low is no tuple
    bases = {InputLaw, IndependentInputs} & {*type(value).__mro__}
    if not bases and not isinstance(value, InputLaw):
        pair = value if isinstance(value, tuple | list) and len(value) == 2 else ()
        ways = f"Pass UniformInputs({', '.join(map(repr, pair))})."
        if callable(value) and not isinstance(value, type):
            ways = "Pass SampledInputs(function) for a function (n, length, seed)."
        raise InputError(f"{name} must be a law of the inputs", value, ways)
    law: InputLaw = value  # type: ignore[assignment]
    if _is_ours(law):
        return law
    kind = type(value).__name__
    wanted = ["low", "high", "draw", *_moments(value)]
    lacks = [one for one in wanted if _lacks(value, one)]
    if lacks:
        what = f"{kind}, the law of the inputs, must have {', '.join(wanted)}; {{value}} is missing"
        raise InputError(what, lacks[0], _AS)
    for part in (one for one in wanted if one != "draw"):
        numbers = getattr(law, part)
        if not isinstance(numbers, tuple | list) or len(numbers) != law.d:
            what = f"{kind}.{part} must be a tuple of numbers, one for each coordinate of a token"
            raise InputError(what, numbers, f"As {part} = (0.0,) where d = 1.")
        for axis, number in enumerate(numbers):
            _require_end(f"{kind}.{part}[{axis}]", number)
    return law


#: A law of the inputs
Law = Annotated[InputLaw, by(require_law)]
_AS = "As low, high = (0.0,), (1.0,) in the class, and def draw(self, n, length, generator)."


def drawn(
    law: InputLaw, n: int, length: int, generator: torch.Generator
) -> Float64[torch.Tensor, "n length d"]:
    """Draw sequences from a law, and check them where the law is a user's.

    Args:
        law: The law.
        n: The number of sequences.
        length: The number of tokens in each.
        generator: The source of all randomness.

    Returns:
        The sequences in float64, of shape (n, length, d). InputError if the law draws something
        else, leaves its box, or gives other sequences for the same seed.

    """
    if _is_ours(law):
        return law.draw(n, length, generator)
    if type(law) not in _follow_their_seed:
        _require_seeded(law, length)
        _follow_their_seed.add(type(law))
    return _checked(law, law.draw(n, length, generator), n, length)


def _checked(law: InputLaw, x: object, n: int, length: int) -> Float64[torch.Tensor, "n length d"]:
    named = f"{type(law).__name__}.draw"
    if not isinstance(x, torch.Tensor):
        what = f"{named} must return a torch tensor"
        raise InputError(what, type(x).__name__, "Wrap it in torch.as_tensor.")
    if x.shape != (n, length, law.d):
        raise InputError(
            f"{named} must return the shape (n, length, d) = ({n}, {length}, {law.d})",
            tuple(x.shape),
            "low and high have one number for each of the d coordinates.",
        )
    x = x.double()
    low, high = float64(law.low), float64(law.high)
    slack = _ROUNDING * torch.maximum(low.abs(), high.abs()).nan_to_num(posinf=0.0)
    outside = ~((x >= low - slack) & (x <= high + slack) & x.isfinite())
    if outside.any():
        raise InputError(
            f"{named} gave a token outside its box, {law.low} to {law.high}",
            float(x[outside][0]),
            "Make low and high the corners of a box that holds every token, ±math.inf for none.",
        )
    return x


def _require_seeded(law: InputLaw, length: int) -> None:
    """Draw twice from one seed; InputError if the sequences differ."""
    n = max(1, _TWICE // length)
    one, two = (_checked(law, law.draw(n, length, seeded(0)), n, length) for _ in range(2))
    if not torch.allclose(one, two):
        raise InputError(
            f"{type(law).__name__}.draw must give the same sequences for the same seed",
            float(one[one != two][0]),
            "Draw all random numbers from the generator that it is given, as "
            "torch.rand(size, generator=generator).",
        )


def _is_ours(law: object) -> bool:
    """Whether the law is one of attnrate's, which need no check."""
    return type(law).__module__.startswith("attnrate.")


def _moments(law: object) -> tuple[str, ...]:
    return ("mean", "variance") if isinstance(law, IndependentInputs) else ()


def _lacks(law: object, name: str) -> bool:
    """Whether a law has nothing of that name; InputLaw itself only declares `draw`."""
    return not hasattr(law, name) or getattr(type(law), name, None) is InputLaw.draw


def _require_end(name: str, value: object) -> None:
    if value not in (-math.inf, math.inf):
        require_number(name, value)
