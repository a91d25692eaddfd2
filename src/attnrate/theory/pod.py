"""POD (Eq. 10, 11): the singular value decomposition of a function of two variables.

Phase 1  a pivoted cross approximation finds the points through which rho is known (`cross.py`);
Phase 2  the slices through them are resolved on adaptive Legendre panels (`panels.py`);
Phase 3  QR of both sides and the SVD of a small core give sigma, phi and psi;
Phase 4  the result is tried at points that did not make it, and phase 1 begins again if it fails.
A coupling that is not of low rank because of kinks goes to `kinks.py` instead of phases 1-3.
"""

import warnings
from typing import TypeGuard

from attnrate.errors import AccuracyWarning, InputError, require_whole
from attnrate.progress import Progress
from attnrate.theory.decomposition import EPS, Pod, Request, as_gauge
from attnrate.theory.domain import Samples, as_domain
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.search import search
from attnrate.theory.watch import MOST_EVALUATIONS, Listener, Watch

_QUIET = 1.0  # seconds before a terminal shows anything


def pod(
    rho: object,
    u: object,
    v: object = None,
    *,
    rtol: object = 1e-12,
    max_rank: object = 512,
    gauge: object = None,
    max_evaluations: object = None,
    max_seconds: object = None,
    progress: Listener | None = None,
) -> Pod:
    """The SVD of rho on u x v (Eq. 10): sigma, phi and psi, with a bound on their error.

    rho is a vectorised function of numpy arrays, a torch module, or a coupling of a target. u and v
    are domains as in `as_domain`; v defaults to u. Singular values below rtol·sigma_1 are dropped,
    and at most max_rank are returned. With gauge="softmax" the constants in v are projected out,
    rho - mean_v rho, because softmax does not see them; that gives the smallest tail for every
    rank among all rho + c(u).

    The search for the answer ends when it has converged, when no method goes further, or when it
    has asked rho at max_evaluations pairs (10 million by default, and no limit for samples, whose
    pairs are counted) or has taken max_seconds (no limit by default): then the best answer so far
    is returned with its error, and an AccuracyWarning. A first look and the check at fresh pairs,
    some 20,000 evaluations (200,000 in two and three dimensions), are made in any case. With
    max_seconds the answer depends on the machine. `progress` is called a few times a second with a
    `PodProgress`; by default a line is shown on a terminal once a second has passed.
    """
    du = as_domain(u, "u")
    dv = du if v is None else as_domain(v, "v")
    if not _positive(rtol) or not rtol < 1:
        raise InputError("rtol must lie between 0 and 1", rtol, "The default is 1e-12.")
    most = require_whole("max_rank", max_rank, 1)
    ask = Request(max(float(rtol), 64 * EPS), most, as_gauge(gauge))
    evaluations = None
    if max_evaluations is not None:
        evaluations = require_whole("max_evaluations", max_evaluations, 1)
    elif not (isinstance(du, Samples) and isinstance(dv, Samples)):
        evaluations = MOST_EVALUATIONS
    if max_seconds is not None and not _positive(max_seconds):
        raise InputError(
            "max_seconds must be a positive number", max_seconds, "Leave it out for no limit."
        )
    with Progress(after=_QUIET) as shown:
        watch = Watch(evaluations, max_seconds, progress or (lambda now: shown.at(str(now))))
        evaluator = Evaluator(rho, du, dv, watch)
        result = search(evaluator, du, dv, ask)
    evaluator.watch = Watch()  # phi and psi of samples ask rho again, whenever they are used
    if not result.converged:
        why = "the budget was spent; raise it or rtol" if watch.spent else "raise rtol"
        warnings.warn(
            f"the POD did not converge: the singular values are uncertain by {result.error:.2g} "
            f"({result.error / max(result.norm, 1e-300):.1e} of the norm of rho), "
            f"asked for {rtol:.1e}. After {watch.evaluations:,} evaluations {why}, or look for "
            "where rho is rough.",
            AccuracyWarning,
            stacklevel=2,
        )
    return result


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(value > 0)
