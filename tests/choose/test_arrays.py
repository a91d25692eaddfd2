"""Arrays: whole sequences as samples, and the call to write where axes are missing."""

import numpy as np
import pytest
import torch

from attnrate.choose.data import from_arrays
from attnrate.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 8, 2)), RNG.normal(size=(60, 8, 1))


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_arrays_tensors_and_lists_become_whole_sequences(make: object) -> None:
    assert callable(make)
    data = from_arrays(make(X), make(Y))
    samples, which = data.samples, np.arange(60)
    np.testing.assert_array_equal(samples.tokens(which), X)
    np.testing.assert_array_equal(samples.truth(which), Y)
    assert (samples.whole, samples.horizon, samples.length) == (True, 0, 8)
    assert (samples.inputs, samples.outputs) == (("x0", "x1"), ("y0",))
    np.testing.assert_array_equal(samples.time, np.repeat(which, 8))
    assert (data.source, data.step, data.faults) == ("arrays", "", ())


def test_few_sequences_and_constant_outputs_are_faults() -> None:
    few, flat = from_arrays(X[:49], Y[:49]).faults, from_arrays(X, Y * 0 + 2).faults
    assert "49 sequences, and an answer needs at least 50" in few[0]
    assert flat == ("the output y0 is 2 everywhere: nothing can be learned",)


NAN = X.copy()
NAN[3, 2, 1], NAN[5, 0, 0] = np.nan, np.inf


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:, :, 0], Y, r"its shape is \(60, 8\)\. .*pass x\[:, :, None\]"),
        (X, Y[:, :, 0], r"pass y\[:, :, None\]"),
        (X, Y[:, 0], r"numpy\.repeat\(y\[:, None, :\], 8, axis=1\)"),
        (X[0], Y[0], r"x\[None\].*not guessed"),
        (X[0, :, 0], Y, r"pandas\.DataFrame\(\{'y': x\}\)"),
        (X[None], Y, r"its shape is \(1, 60, 8, 2\)"),
        (X.transpose(0, 2, 1), Y.transpose(0, 2, 1), r"x\.transpose\(0, 2, 1\)"),
        (X[:30], Y, r"y must have the shape \(30, 8, k\)"),
        (X[:0], Y[:0], "x is empty"),
        (NAN, Y, r"x is not finite in 2 places; the first, x\[3, 2, 1\], is nan"),
        (X + 1j, Y, "holds complex numbers"),
        (X.astype(object), Y, "values of type object"),
        ([[[1.0]], [[1.0], [2.0]]], Y, "x is no array"),
        ("text", Y, "must hold real numbers"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(x: object, y: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(x, y)  # type: ignore[arg-type]
