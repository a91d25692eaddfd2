"""One way to call a coupling ρ(u, v), whether it is written for numpy or for torch.

A token in R¹ is a plain number: ρ sees arrays u and v that broadcast against each other, and
returns one value per pair. A token in R^d, d ≥ 2, is a point: u and v have a last axis of d
coordinates, and the axes before it broadcast. `pod` and `AttentionTarget` both call ρ like this.

A function may also be written with a last axis of length 1 for tokens in R¹. Which of the two it
wants, and whether it is written for numpy or for torch, is found out by calling it on a few tokens.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from attnrate.errors import InputError

if TYPE_CHECKING:
    import torch

Array = np.ndarray
Library: TypeAlias = Literal["numpy", "torch"]
#: A function of two numpy arrays of tokens
NumpyFunction: TypeAlias = Callable[
    [npt.NDArray[np.float64], npt.NDArray[np.float64]], npt.ArrayLike
]
#: Shapes of u and v, without coordinates. The second pair shows a function that reduces the last
#: axis of plain numbers, the third one that drops an axis of length 1
_SHAPES = (((3, 1), (1, 4)), ((3, 4), (3, 4)), ((5, 1), (1, 1)))
_VECTORISE = (
    "Write rho with functions of whole arrays: np.exp for math.exp, np.where(u > v, a, b) for "
    "a if u > v else b, torch.broadcast_tensors(u, v) before torch.stack([u, v], -1). "
    "A function of single numbers works as np.vectorize(rho), slowly."
)


@dataclass(frozen=True, eq=False)
class Called:
    """A function of two tokens, and how it wants them.

    Args:
        function: ρ as the user wrote it.
        library: Whether the function takes and returns numpy arrays or torch tensors.
        axis: Whether tokens in R¹ have a last axis of length 1; by default they are plain numbers.

    """

    function: Callable[..., object]
    library: Library = "numpy"
    axis: bool = False

    def on_arrays(self, u: Array, v: Array) -> Array:
        """ρ as a numpy array, for arrays of tokens with a last axis of coordinates."""
        left, right = self._as_wanted(u), self._as_wanted(v)
        if self.library == "numpy":
            with np.errstate(all="ignore"):
                return _as_array(self.function(left, right))
        import torch

        with torch.no_grad():
            tensors = [torch.from_numpy(np.ascontiguousarray(side)) for side in (left, right)]
            return _as_array(self.function(*tensors))

    def on_tensors(self, u: "torch.Tensor", v: "torch.Tensor") -> object:
        """ρ as it comes, a torch tensor or a number, for tokens with a last axis of coordinates."""
        left, right = self._as_wanted(u), self._as_wanted(v)
        if self.library == "torch":
            return self.function(left, right)
        import torch

        arrays = [side.detach().cpu().numpy() for side in (left, right)]
        with np.errstate(all="ignore"):
            values = _as_array(self.function(*arrays))
        if values.dtype.kind not in "fiub":
            return values
        return torch.from_numpy(np.array(values)).to(u.device, u.dtype)

    def _as_wanted(self, tokens: Any) -> Any:
        plain = not self.axis and tokens.shape[-1] == 1
        return tokens[..., 0] if plain else tokens


def find_call(
    function: Callable[..., object],
    u: Array,
    v: Array,
    home: Library,
    libraries: tuple[Library, ...] = ("numpy", "torch"),
) -> tuple[Called, int]:
    """Find out how a function wants its tokens, by calling it on a few of them.

    Plain numbers come before a last axis of length 1, and `home` comes before the other library.

    Args:
        function: A function of two tokens.
        u: Some tokens for the first argument, shape (count, d); any values that are right.
        v: Some tokens for the second argument, shape (count, e).
        home: The library whose arrays the caller has.
        libraries: The libraries for which the function may be written.

    Returns:
        How to call the function, and the number of pairs at which it was called here.

    Raises:
        InputError: In no way the function gives one real number per pair.

    """
    scalars = 1 in (u.shape[-1], v.shape[-1])
    failed: list[_Failure] = []
    pairs = 0
    for axis in (False, True) if scalars else (False,):
        for library in sorted(libraries, key=lambda name: name != home):
            if library == "torch" and home == "numpy" and "torch" not in sys.modules:
                continue  # nothing written for torch runs without it
            call = Called(function, library, axis)
            # what is written with a last axis need not bear every shape, if it bears the usual one
            strict = scalars and not axis
            tried = [*_tried(call, u, v, _SHAPES if strict else _SHAPES[:1])]
            pairs += sum(count for count, _ in tried)
            _, problem = tried[-1]
            if problem is None:
                return call, pairs
            failed.append(problem)
    raise _explained(function, u, v, failed)


@dataclass(frozen=True, eq=False)
class _Failure:
    """Why a function does not bear a way to call it: what it raised, or what it returned."""

    u: tuple[int, ...]
    v: tuple[int, ...]
    wanted: tuple[int, ...]
    raised: Exception | None = None
    returned: Array | None = None


def _tried(
    call: Called, u: Array, v: Array, shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> Iterator[tuple[int, _Failure | None]]:
    """Call the function on tokens in these shapes until it fails; yield pairs and failure."""
    for shape_u, shape_v in shapes:
        wanted = np.broadcast_shapes(shape_u, shape_v)
        left = np.resize(u, (*shape_u, u.shape[-1]))
        right = np.resize(v, (*shape_v, v.shape[-1]))
        seen_u, seen_v = (call._as_wanted(side).shape for side in (left, right))
        problem = None
        try:
            with warnings.catch_warnings():
                # it may not be written for this library; what it warns of is shown in later calls
                warnings.simplefilter("ignore")
                # numpy functions take tensors, but not for long: such a function is one of numpy
                warnings.filterwarnings("error", message=".*__array_wrap__")
                values = _on_own(call, left, right)
            if values.dtype.kind not in "fiub" or not _broadcasts(values.shape, wanted):
                problem = _Failure(seen_u, seen_v, wanted, returned=values)
        except Exception as error:
            problem = _Failure(seen_u, seen_v, wanted, raised=error)
        yield int(np.prod(wanted)), problem
        if problem is not None:
            return


def _on_own(call: Called, u: Array, v: Array) -> Array:
    """Values of a function; an error where one of torch gives an array of numpy."""
    if call.library == "numpy":
        return call.on_arrays(u, v)
    import torch

    with torch.no_grad():
        values = call.on_tensors(torch.from_numpy(u), torch.from_numpy(v))
    if isinstance(values, np.ndarray | np.generic):
        raise TypeError("a numpy array for torch tensors")
    return _as_array(values)


def _as_array(values: Any) -> Array:
    """Values of numpy, torch or Python as a numpy array."""
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def _explained(
    function: Callable[..., object], u: Array, v: Array, failed: list[_Failure]
) -> InputError:
    """The error to show, from all ways to call the function that failed."""
    own = next((one.raised for one in failed if isinstance(one.raised, InputError)), None)
    if own is not None:
        return own
    if not _takes_two(function):
        what = "rho must be a function of two arguments, u and v"
        return InputError(what, function, "Write it as lambda u, v: ...")
    unreal = next((one.returned for one in failed if not _is_real(one.returned)), None)
    if unreal is not None:
        return not_real(unreal)
    if u.shape[-1] == v.shape[-1] == 1 and _takes_numbers(function, u, v):
        what = "rho works for single numbers u and v, but not for arrays of them"
        return InputError(what, _raised(failed[0]), _VECTORISE)
    # a wrong shape says more than an error, and an error more than one of a wrong library
    shown = min(failed, key=lambda one: _rank(one.raised))
    called = f"rho was called with arrays of shape {shown.u} and {shown.v}"
    if shown.raised is not None:
        error = InputError(f"{called}, and failed", _raised(shown), _VECTORISE)
        error.__cause__ = shown.raised
        return error
    assert shown.returned is not None
    returned = shown.returned.shape
    points = len(shown.u) > len(shown.wanted)
    way_out = _VECTORISE
    if returned == (*shown.wanted, 1):
        way_out = "Drop the last axis, for example with .squeeze(-1)."
    elif points:
        way_out = "Reduce the last axis, that of the coordinates, for example with .sum(-1)."
    return InputError(
        f"{called}, which broadcast to {shown.wanted}{' points' if points else ''}, and must "
        "return one number for each; the shape of what it returned does not fit",
        returned,
        way_out,
    )


def not_real(values: Array) -> InputError:
    """The error for a function whose values are complex, None, or anything but real numbers."""
    if values.dtype.kind == "c":
        way_out = "Return its real part, np.real(...), or its absolute value, np.abs(...)."
        what = "rho must return real numbers, but its values have the dtype {value}"
        return InputError(what, str(values.dtype), way_out)
    first = values.flat[0] if values.size else values.dtype
    return InputError("rho must return real numbers", first, "Return an array of floats.")


def _is_real(values: Array | None) -> bool:
    return values is None or values.dtype.kind in "fiub"


def _takes_two(function: Callable[..., object]) -> bool:
    """Whether a function can be called with two arguments, as far as its signature says."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        pass
    return True


def _rank(raised: Exception | None) -> int:
    return 0 if raised is None else 2 if isinstance(raised, TypeError | AttributeError) else 1


def _raised(failure: _Failure) -> object:
    return failure.raised if failure.raised is not None else failure.returned


def _takes_numbers(function: Callable[..., object], u: Array, v: Array) -> bool:
    """Whether a function gives a number for two numbers."""
    try:
        value = function(float(u.flat[0]), float(v.flat[0]))
    except Exception:
        return False
    return isinstance(value, int | float | np.floating | np.integer)
