"""Fig. 1's work that is more than a fit: bounds, compiled Transformers, and what training learns.

Everything is measured in E mean_t |H_t - Ĥ_t|² over fresh inputs, the L1 norm of the theorem
beside it where the theorem is at stake.
"""

from typing import Any

import torch

from attnrate.fitting.build import build_recipe
from attnrate.fitting.fit import fit
from attnrate.fitting.trial import Trial
from attnrate.models import CouplingTransformer, Transformer
from attnrate.targets import AttentionTarget, FunctionCoupling, error_of, spectral_target
from attnrate.targets.form import identity
from attnrate.theory.bounds import jackson_bound
from attnrate.theory.compile import compile_target

Tensor = torch.Tensor
#: Inputs for measuring, of a seed that no fit uses
_SEED = 1 << 45
#: Sequences and grid points for comparing logits; the grid resolves the 256th sine
_COMPARED, _GRID = 512, 1024
#: c(u) = _SHIFT cos 2πu is added to ρ to show the gauge: larger than any of the target's terms
_SHIFT = 3.0


def theory(trial: Trial) -> dict[str, Any]:
    """Bounds and compiled errors of one target for every head size, with exact bases."""
    given = trial.target
    target = spectral_target(given["alpha"], given["rank"])
    x = target.sample(given["sequences"], _SEED + trial.seed)
    truth = target(x)
    rows: dict[str, list[float]] = {}
    for m_h in given["m_h"]:
        gap = _gap(compile_target(target, m_h, gauge=None), x, truth)
        each = gap.square().mean(-1)
        rigorous = jackson_bound(target, m_h, norm="mse")
        row = {
            "mse": float(each.mean()),
            "standard_error": float(each.std() / len(each) ** 0.5),
            "l1": float(gap.sum(-1).mean()),
            "rigorous": rigorous.value,
            "rigorous_l1": jackson_bound(target, m_h, norm="l1").value,
            "trivial": rigorous.trivial,
            "printed": jackson_bound(
                target, m_h, norm="mse", form="printed", alpha=given["alpha"]
            ).value,
        }
        for name, value in row.items():
            rows.setdefault(name, []).append(value)
    return {"m_h": list(given["m_h"]), **rows}


def gauge(trial: Trial) -> dict[str, Any]:
    """The same map written with ρ and with ρ + c(u), compiled with the gauge and without it.

    softmax does not see c(u), but a POD that does not know this spends a term on it.
    """
    given = trial.target
    plain = spectral_target(given["alpha"], given["rank"])
    shifted = AttentionTarget(
        identity, identity, FunctionCoupling(_shifted(plain.rho)), plain.length
    )
    return {
        f"{name}_{word}": error_of(
            compile_target(target, given["m_h"], gauge=modulo),
            plain,
            given["sequences"],
            _SEED + trial.seed,
        ).value
        for name, target in (("plain", plain), ("shifted", shifted))
        for word, modulo in (("without", None), ("with", "softmax"))
    }


def coupling(trial: Trial) -> dict[str, Any]:
    """Train Eq. 5 with F = f = id, and compare its logits with those of the truncated POD.

    Of either, the squared error of the logits over pairs of independent tokens and over the pair
    s = t, both modulo the gauge, and that of the attention weights.
    """
    given = trial.target
    target, m_h = spectral_target(given["alpha"], given["rank"]), given["m_h"]
    found = fit(
        target,
        lambda: CouplingTransformer(target.d, target.out, m_h=m_h),
        recipe=build_recipe(given["recipe"]),
        seed=trial.seed,
        threads=1,
    )
    values = found.outcome
    if found.diverged or not isinstance(found.model, Transformer):
        return values
    truncated = compile_target(target, m_h)
    values["pod_error"] = error_of(truncated, target, 1024, _SEED).value
    for name, model in (("trained", found.model.double()), ("pod", truncated)):
        values |= {f"{name}_{what}": v for what, v in logit_errors(target, model).items()}
    return values


def logit_errors(target: AttentionTarget, model: Transformer) -> dict[str, float]:
    """Squared errors of a model's logits, over pairs and on the diagonal, and of its weights."""
    u = ((torch.arange(_GRID, dtype=torch.float64) + 0.5) / _GRID)[:, None]
    x = target.sample(_COMPARED, _SEED)
    with torch.no_grad():
        gap = model.logits(u[None])[0] - target.rho.outer(u, u)
        gap = gap - gap.mean(-1, keepdim=True)
        weights = model.attention(x) - target.attention(x)
    return {
        "pairs": float(gap.square().mean()),
        "diagonal": float(gap.diagonal().square().mean()),
        "weights": float(weights.square().sum(-1).mean()),
    }


def _gap(model: Transformer, x: Tensor, truth: Tensor) -> Tensor:
    with torch.no_grad():
        parts = [model(part) for part in torch.split(x, 256)]
    gap: Tensor = (torch.cat(parts) - truth).norm(dim=-1)
    return gap


def _shifted(rho: Any) -> Any:
    def value(u: Tensor, v: Tensor) -> Tensor:
        moved: Tensor = rho(u, v) + _SHIFT * torch.cos(2 * torch.pi * u[..., 0])
        return moved

    return value
