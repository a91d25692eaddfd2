"""POD (Eq. 10, 11): the singular value decomposition of a function of two variables.

Phase 1  a pivoted cross approximation finds rows and columns that determine rho (`cross.py`);
Phase 2  the slices through them are resolved on adaptive Legendre panels (`panels.py`);
Phase 3  QR of both sides and the SVD of a small core give sigma, phi and psi;
Phase 4  the result is tested at points that were not used to compute it (`fresh.py`); if it fails,
         phase 1 starts again.
A coupling that is not of low rank because of kinks goes to `kinks.py` instead of phases 1-3, and a
matrix to `matrix.py`.
"""

import inspect
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from attnrate.calling import NumpyFunction
from attnrate.errors import AccuracyWarning, InputError
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, by, checked
from attnrate.theory.decomposition import EPS, Pod, Request
from attnrate.theory.domain import Domain, DomainLike, Samples, as_domain, real_array
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.matrix import decompose_matrix
from attnrate.theory.panels import Array
from attnrate.theory.search import search
from attnrate.theory.watch import MOST_EVALUATIONS, Listener, Watch
from attnrate.words import GaugeLike

if TYPE_CHECKING:
    from attnrate.targets.couplings import CouplingLike
else:
    # every coupling is such a function for those who call it, and torch is not imported for numpy
    CouplingLike = NumpyFunction

MatrixLike: TypeAlias = npt.NDArray[Any] | Sequence[Sequence[float]]
"""A matrix of values rho(u_i, v_j): a two-dimensional array, or a list of its rows."""

#: Packages whose frames lie between `pod` and whoever calls it
_WITHIN = ("attnrate", "pydantic")


def _require_rho(_: str, value: object) -> object:
    """A function as it is, a matrix as a float64 array; an InputError for anything else."""
    if callable(value):
        return value
    try:
        matrix = np.asarray(value)
    except ValueError:  # rows of different lengths
        matrix = np.asarray(None)
    if matrix.ndim != 2 or matrix.size == 0:
        what = "rho must be a function of u and v, a coupling, or a matrix"
        way_out = "Pass, for example, lambda u, v: np.exp(-(u - v)**2)."
        if isinstance(value, str):
            way_out += " Formulas as text are for the command line: attnrate pod."
        elif matrix.shape:
            way_out = f"A matrix has rows and columns; this array has the shape {matrix.shape}."
        elif isinstance(value, Sequence):
            way_out = "The rows of a matrix have the same length."
        raise InputError(what, value, way_out)
    matrix = real_array("the entries of a matrix", matrix)
    wrong = np.argwhere(~np.isfinite(matrix))
    if wrong.size:
        i, j = wrong[0].tolist()
        what, way_out = (
            f"entry ({i}, {j}) of the matrix is not finite",
            "Leave out its row or column.",
        )
        raise InputError(what, float(matrix[i, j]), way_out)
    return matrix


def _require_share(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1:
        raise InputError(f"{name} must lie between 0 and 1", value, "The default is 1e-12.")
    return float(value)


def _require_seconds(name: str, value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and value > 0):  # type: ignore[operator]
        raise InputError(f"{name} must be a positive number", value, "Leave it out for no limit.")
    return value  # type: ignore[return-value]


def _require_domain(name: str, value: object) -> Domain | None:
    return None if value is None else as_domain(value, name)


def _require_progress(name: str, value: object) -> object:
    if not (value is None or isinstance(value, bool) or callable(value)):
        what = f"{name} must be True, False, None, or a function of a PodProgress"
        raise InputError(what, value, "Leave it out for a line on a terminal or in a notebook.")
    return value


Share: TypeAlias = Annotated[float, by(_require_share)]
Seconds: TypeAlias = Annotated[float | None, by(_require_seconds)]
Shower: TypeAlias = Annotated[Listener | bool | None, by(_require_progress)]


@overload
def pod(
    rho: CouplingLike,
    u: DomainLike,
    v: DomainLike | None = None,
    *,
    rtol: float = 1e-12,
    max_rank: int = 512,
    gauge: GaugeLike = "none",
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    progress: Listener | bool | None = None,
) -> Pod: ...
@overload
def pod(
    rho: MatrixLike,
    u: Samples | npt.NDArray[Any] | None = None,
    v: Samples | npt.NDArray[Any] | None = None,
    *,
    rtol: float = 1e-12,
    max_rank: int = 512,
    gauge: GaugeLike = "none",
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    progress: Listener | bool | None = None,
) -> Pod: ...
@checked
def pod(
    rho: Annotated[CouplingLike | MatrixLike, by(_require_rho)],
    u: Annotated[DomainLike | None, by(_require_domain)] = None,
    v: Annotated[DomainLike | None, by(_require_domain)] = None,
    *,
    rtol: Share = 1e-12,
    max_rank: Count = 512,
    gauge: GaugeLike = "none",
    max_evaluations: Count | None = None,
    max_seconds: Seconds = None,
    progress: Shower = None,
) -> Pod:
    """Decompose a coupling into singular values and functions, with a bound on their error.

    rho(u, v) = Σ_k sigma_k phi_k(u) psi_k(v) (Eq. 10), phi_k and psi_k orthonormal in L² of the
    two domains. rho is called as in `AttentionTarget`: on numbers it sees arrays u and v that
    broadcast, on points of R^d, d ≥ 2, arrays with a last axis of d coordinates; it may be written
    for numpy or for torch. A matrix of values rho(u_i, v_j) is decomposed under the empirical
    measure, weight 1/m for each of its m rows and 1/n for each of its n columns: sigma are its
    singular values divided by √(mn), and phi(i), psi(j) are known at its rows and columns only.

    The search for the answer ends when it has converged, when no method goes further, or when the
    budget is spent; in the last two cases the best answer so far is returned with its error. A
    first look and the check at fresh pairs, some 20,000 evaluations (200,000 in two and three
    dimensions), are made in any case. On a terminal a line shows how far it is, once a second has
    passed.

    Args:
        rho: A function of u and v that works on whole arrays, written for numpy or for torch; a
            torch module; a `Coupling`; or a matrix.
        u: The domain of u: (a, b), a list of pairs for a box, `box`, `union`, or `Samples`. For a
            matrix, the samples that its rows belong to; by default the numbers 0, 1, ….
        v: The domain of v; by default that of u. For a matrix, the samples that its columns belong
            to; by default the numbers 0, 1, ….
        rtol: Relative accuracy, between 0 and 1: singular values below rtol·sigma_1 are left out.
        max_rank: The most singular values that are returned.
        gauge: "softmax" takes the mean over v out of rho, which softmax does not see; among all
            rho + c(u) that gives the smallest tail for every rank. "none" leaves rho as it is.
        max_evaluations: The most pairs at which rho is evaluated: 10 million by default; no limit
            for samples, whose pairs are counted.
        max_seconds: The longest time in seconds; no limit by default. With it the answer depends on
            the machine.
        progress: None (the default) shows how far it is where there is a terminal or a notebook,
            True also writes plain lines where there is none, False shows nothing. A function is
            called a few times a second with a `PodProgress` instead.

    Returns:
        The singular values, the functions, and how far they can be trusted.

    Raises:
        InputError: rho does not work on arrays, is not finite somewhere, or a setting is wrong.

    Warns:
        AccuracyWarning: The result has not converged; the message names its error.

    Examples:
        The Brownian kernel has the singular values 1/((k - 1/2) π)²:

        >>> import numpy as np
        >>> p = ar.pod(np.minimum, (0, 1), rtol=1e-6)
        >>> p.sigma[:3].round(6).tolist()
        [0.405285, 0.045032, 0.016211]
        >>> p.decay().law
        'power'

        A matrix of values, such as the logits of an attention head:

        >>> ar.pod(np.array([[3.0, 0.0], [0.0, 1.0]])).sigma.tolist()
        [1.5, 0.5]

    """
    domain_u, domain_v = cast("tuple[Domain | None, Domain | None]", (u, v))  # by their checks
    ask = Request(max(rtol, 64 * EPS), max_rank, gauge or "none")
    listener = progress if callable(progress) else None
    most = max_evaluations
    if isinstance(rho, np.ndarray):
        rows, columns = _samples_of(rho, domain_u, domain_v)
        most = None
    else:
        du, dv = _domains(domain_u, domain_v)
        if most is None and not (isinstance(du, Samples) and isinstance(dv, Samples)):
            most = MOST_EVALUATIONS
    watch = Watch(most, max_seconds, listener)
    wanted = False if callable(progress) else progress
    with Progress(lambda: str(watch.now()), wanted=wanted, after=QUIET, name="pod", steady=True):
        if isinstance(rho, np.ndarray):
            result = decompose_matrix(rho, rows, columns, ask, watch)
        else:
            evaluator = Evaluator(rho, du, dv, watch)
            result = search(evaluator, du, dv, ask)
            evaluator.watch = Watch()  # phi and psi of samples ask rho again, when they are used
    if not result.converged:
        why = "the budget is spent" if watch.spent else "no method goes further"
        way_out = "Raise max_evaluations, max_seconds or rtol" if watch.spent else "Raise rtol"
        warnings.warn(
            f"the POD did not converge: the singular values are uncertain by {result.error:.2g}, "
            f"{result.error / max(result.norm, 1e-300):.1e} of the norm of rho (rtol is "
            f"{rtol:.1e}). The search stopped after {watch.evaluations:,} evaluations because "
            f"{why}. {way_out}, or find where rho is not smooth and leave that out of the domain.",
            AccuracyWarning,
            stacklevel=level_of_caller(),
        )
    return result


def _domains(u: Domain | None, v: Domain | None) -> tuple[Domain, Domain]:
    """The domains of a function; that of v is by default that of u."""
    if u is None:
        raise InputError("the domain u of a function is missing", u, "Pass, for example, (0, 1).")
    return u, u if v is None else v


def _samples_of(
    matrix: Float[Array, "m n"], u: Domain | None, v: Domain | None
) -> tuple[Samples | None, Samples | None]:
    """What the rows and columns of a matrix belong to, where it is given."""
    sides = []
    for name, domain, size, what in zip("uv", (u, v), matrix.shape, ("row", "column"), strict=True):
        if domain is not None and not (isinstance(domain, Samples) and len(domain.points) == size):
            raise InputError(
                f"{name} must be samples, one per {what} of the matrix, which has {size}",
                domain,
                f"Pass Samples(points) with {size} points, or leave {name} out.",
            )
        sides.append(domain)
    return sides[0], sides[1]


def level_of_caller() -> int:
    """The `stacklevel` at which a warning points to the code that called attnrate."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").split(".")[0] not in _WITHIN:
            break
        level += 1
    return level
