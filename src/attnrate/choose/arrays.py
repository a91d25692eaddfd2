"""Arrays of whole sequences as samples: the order of their axes is asked for, never guessed."""

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64

from attnrate.choose.cells import counted
from attnrate.choose.samples import Samples
from attnrate.errors import InputError

_NAMES = {"x": ("token", "d"), "y": ("output", "k")}


def panel(
    x: npt.ArrayLike | torch.Tensor, y: npt.ArrayLike | torch.Tensor
) -> tuple[Samples, tuple[str, ...], tuple[str, ...]]:
    """Make samples of whole sequences with an output at each token.

    Args:
        x: The tokens, of shape (N, T, d).
        y: The outputs, of shape (N, T, k).

    Returns:
        The samples, sentences about them, and sentences that say why they give no answer.

    """
    tokens, outputs = _array("x", x), _array("y", y)
    _require_axes("x", tokens, outputs)
    _require_axes("y", outputs, tokens)
    if tokens.shape[:2] != outputs.shape[:2]:
        n, t, _ = tokens.shape
        way_out = f"Here y must have the shape ({n}, {t}, k): N sequences, T tokens, k outputs."
        if tokens.shape[0] == outputs.shape[0] and tokens.shape[2] == outputs.shape[2]:
            way_out += (
                " If time is the last axis, pass x.transpose(0, 2, 1) and y.transpose(0, 2, 1)."
            )
        what = f"x of shape {tokens.shape} and y of shape {{value}} differ in N or T"
        raise InputError(what, outputs.shape, way_out)
    _require_finite("x", tokens)
    _require_finite("y", outputs)
    n, t, d = tokens.shape
    k = outputs.shape[2]
    samples = Samples(
        tokens.reshape(n * t, d),
        outputs.reshape(n * t, k),
        np.arange(n, dtype=np.int64) * t,
        t,
        0,
        True,
        np.repeat(np.arange(n, dtype=np.int64), t),
        tuple(f"x{i}" for i in range(d)),
        tuple(f"y{i}" for i in range(k)),
    )
    said = [
        f"wanted: {k} output{'s' * (k > 1)} at each token of {n:,} sequences of {t:,} tokens "
        f"with {d} coordinate{'s' * (d > 1)}"
    ]
    flat = [
        name for name, column in zip(samples.inputs, samples.x.T, strict=True) if not np.ptp(column)
    ]
    if flat:
        said.append(f"constant: {', '.join(flat)}")
    faults = [
        f"the output {name} is {column[0]:g} everywhere: nothing can be learned"
        for name, column in zip(samples.outputs, samples.y.T, strict=True)
        if not np.ptp(column)
    ]
    return samples, tuple(said), tuple(faults)


def _array(name: str, value: npt.ArrayLike | torch.Tensor) -> Float64[np.ndarray, "..."]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
    try:
        array = np.asarray(value)
    except ValueError as problem:  # lists of several lengths
        way_out = f"Pass {name} as one array; cut sequences of several lengths to the shortest."
        raise InputError(f"{name} is no array ({problem})", type(value).__name__, way_out) from None
    if array.dtype.kind not in "fiub":
        word = "complex numbers" if array.dtype.kind == "c" else f"values of type {array.dtype}"
        way_out = (
            "Pass real and imaginary parts as two coordinates."
            if array.dtype.kind == "c"
            else "Pass numbers alone: array.astype(float)."
        )
        raise InputError(f"{name} must hold real numbers, and holds {word}", array, way_out)
    return array.astype(np.float64)


def _require_axes(name: str, array: np.ndarray, other: np.ndarray) -> None:
    """Raise an InputError, with the call to write, unless an array has three axes."""
    thing, letter = _NAMES[name]
    if array.ndim == 3:
        if not array.size:
            way_out = f"Pass {name} of shape (N, T, {letter}) with at least 1 of each."
            raise InputError(f"{name} is empty: its shape is {{value}}", array.shape, way_out)
        return
    ways = {
        1: "If it is one series, pass a frame: attnrate.choose(pandas.DataFrame("
        f"{{'y': {name}}}), target='y'). ",
        2: f"If its axes are sequences and tokens, pass {name}[:, :, None]; if they are the tokens "
        f"and coordinates of one sequence, {name}[None]",
    }
    way_out = ways.get(array.ndim, "")
    if array.ndim == 2 and other.ndim == 3 and array.shape[0] == other.shape[0] != array.shape[1]:
        if array.shape == other.shape[:2]:
            way_out = f"Its axes are as long as N and T, so pass {name}[:, :, None]"
        else:
            way_out += (
                f"; if it has one row for each sequence, repeat it at each token: numpy.repeat("
                f"{name}[:, None, :], {other.shape[1]}, axis=1)"
            )
    way_out += ". " if array.ndim == 2 else ""
    raise InputError(
        f"{name} must have three axes, (N, T, {letter}): sequences, tokens, coordinates of "
        f"each {thing}; its shape is {{value}}",
        array.shape,
        f"{way_out}The order of axes is not guessed.",
    )


def _require_finite(name: str, array: Float64[np.ndarray, "n t d"]) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        first = tuple(int(i) for i in bad[0])
        where = ", ".join(map(str, first))
        raise InputError(
            f"{name} is not finite in {counted(len(bad), 'place')}; the first, {name}[{where}], is "
            "{value}",
            float(array[first]),
            "Leave such sequences out of x and y: "
            f"numpy.isfinite({name}).all(axis=(1, 2)) says which are whole.",
        )
