"""App. D.3: what mixing the inputs does to the rank of ρ, and whether a deconvolution undoes it.

The paper mixes two tokens, x~ = (x1, x2 + x1), and finds that ρ~(x1, x2) = ρ(x1, x2 + x1) has a
third singular value. Here: its three values, exactly; the same for random filters (1, θ), that is
x~(t) = x(t) + θ x(t-1); the same couplings on windows (x(t-1), x(t)) as tokens; and what is left
of the mixing after an inverse filter of finite length. Nothing is trained.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnrate.experiments import mixing_claims
from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task, other_work
from attnrate.fitting.trial import Trial
from attnrate.targets import seeds
from attnrate.targets.alter import convolve
from attnrate.theory.domain import Samples
from attnrate.theory.pod import pod

Rho = Callable[[Any, Any], Any]
#: The couplings: Eq. 100, and Fig. 1's with α = 1
COUPLINGS = {"Eq. 100": 2, "Fig. 1": 6}
LONGEST_FILTER = 2.0  # θ is uniform on ±LONGEST_FILTER: on both sides of minimum phase
_POD_RTOL = 1e-9


@dataclass(frozen=True)
class Settings:
    """How many random filters, how long the inverse filters, how many sequences to try them on."""

    filters: int
    inverse_lengths: tuple[int, ...]
    sequences: int
    seeds: int


QUICK = Settings(16, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 64, 1)
PAPER = Settings(40, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 256, 5)


def settings(preset: Preset) -> Settings:
    """The settings of a preset."""
    return QUICK if preset == "quick" else PAPER


def tasks(preset: Preset) -> list[Task]:
    """D.3 itself, and for each seed a set of random filters."""
    chosen = settings(preset)
    done = [other_work("mixing_rank.example", {}, {"part": "example"}, cost=0.2)]
    for seed in range(chosen.seeds):
        for name in COUPLINGS:
            done.append(
                other_work(
                    "mixing_rank.filters",
                    {"coupling": name, "filters": chosen.filters},
                    {"part": "filters", "coupling": name, "seed": seed},
                    seed,
                    0.04 * chosen.filters,
                )
            )
        done.append(
            other_work(
                "mixing_rank.deconvolution",
                {
                    "filters": chosen.filters,
                    "lengths": list(chosen.inverse_lengths),
                    "sequences": chosen.sequences,
                },
                {"part": "deconvolution", "seed": seed},
                seed,
                4e-5 * chosen.filters * len(chosen.inverse_lengths) * chosen.sequences,
            )
        )
    return done


def coupling(name: str) -> Rho:
    """ρ of that name, on numpy arrays or torch tensors."""
    if name == "Eq. 100":
        return _eq100
    return _fig1


def mixed_pair(rho: Rho, theta: float) -> Rho:
    """ρ~(x1, x2) = ρ(x1, x2 + θ x1), as in Eq. 101."""
    return lambda x1, x2: rho(x1, x2 + theta * x1)


def draw_filters(count: int, seed: int) -> list[float]:
    """The random θ of the filters (1, θ)."""
    drawn = np.random.default_rng(seed).uniform(-LONGEST_FILTER, LONGEST_FILTER, count)
    return [round(float(theta), 6) for theta in drawn]


def inverse_filter(theta: float, length: int, causal: bool) -> tuple[float, ...]:
    """The first `length` terms of the inverse of (1, θ), which reads the past or the future.

    1/(1 + θz) is Σ_{s≥0} (-θ)^s z^s, which undoes the filter from the past and is small in the end
    for |θ| < 1, or -Σ_{s≥1} (-θ)^-s z^-s, which reads the future and is so for |θ| > 1.
    """
    if causal:
        return tuple((-theta) ** s for s in range(length))
    return (0.0, *(-((-theta) ** -s) for s in range(1, length + 1)))


def example(trial: Trial) -> dict[str, Any]:
    """The singular values of Eq. 100 and 101, also modulo what softmax cannot see."""
    del trial
    values: dict[str, Any] = {}
    for name, rho in (("before", _eq100), ("after", mixed_pair(_eq100, 1.0))):
        values[name] = _rounded(pod(rho, (0.0, 1.0), rtol=_POD_RTOL).sigma)
        gauged = pod(rho, (0.0, 1.0), rtol=_POD_RTOL, gauge="softmax")
        values[f"{name}_gauge"] = _rounded(gauged.sigma)
    return values


def filters(trial: Trial) -> dict[str, Any]:
    """For random θ: the spectrum of ρ~ on two single tokens, and on windows of two inputs."""
    rho = coupling(trial.target["coupling"])
    rows = []
    for theta in draw_filters(trial.target["filters"], trial.seed):
        single = pod(mixed_pair(rho, theta), (0.0, 1.0), rtol=_POD_RTOL)
        windows = pod(_on_windows(rho, theta), window_lattice(), rtol=_POD_RTOL)
        rows.append(
            {
                "theta": theta,
                "sigma": _rounded(single.sigma),
                "windows": _rounded(windows.sigma),
                "error": max(single.error / single.norm, windows.error / windows.norm),
            }
        )
    return {"before": _rounded(pod(rho, (0.0, 1.0), rtol=_POD_RTOL).sigma), "filters": rows}


def deconvolution(trial: Trial) -> dict[str, Any]:
    """What is left of a random filter after inverse filters of several lengths.

    For z = (1, θ)∗x and x^ = the inverse filter applied to z, the root mean square of
    ρ(x^(t), x^(s)) - ρ(x(t), x(s)) over that of ρ, for Fig. 1's ρ of rank 6. Only positions in
    the middle count: near the ends the zeros outside the sequence are seen.
    """
    lengths: Sequence[int] = trial.target["lengths"]
    margin = max(lengths) + 1
    generator = seeds.generator(trial.seed)
    shape = (trial.target["sequences"], 2 * margin + 8, 1)
    x = torch.rand(shape, generator=generator, dtype=torch.float64)
    inside = slice(margin, margin + 8)
    truth = _pairs(x[:, inside])
    rows = []
    for theta in draw_filters(trial.target["filters"], trial.seed):
        z = convolve((1.0, theta), x, True)
        row: dict[str, Any] = {"theta": theta}
        for causal in (True, False):
            left = []
            for length in lengths:
                restored = convolve(inverse_filter(theta, length, causal), z, causal)[:, inside]
                gap = (_pairs(restored) - truth).square().mean() / truth.square().mean()
                left.append(float(f"{math.sqrt(float(gap)):.6g}"))
            row["past" if causal else "future"] = left
        rows.append(row)
    return {"lengths": list(lengths), "filters": rows}


def conclude(results: Sequence[Result]) -> Conclusion:
    """Tables, figures and claims of what was computed."""
    return mixing_claims.conclusion(results)


def _eq100(u: Any, v: Any) -> Any:
    return 1 + 2 * _sine(u) * _sine(v)


def _fig1(u: Any, v: Any) -> Any:
    return sum(2 / k * _sine(k * u) * _sine(k * v) for k in range(1, COUPLINGS["Fig. 1"] + 1))


def _sine(u: Any) -> Any:
    return torch.sin(2 * math.pi * u) if isinstance(u, torch.Tensor) else np.sin(2 * math.pi * u)


def window_lattice() -> Samples:
    """Windows (x(t-1), x(t)) on a lattice of the square, fine enough to integrate exactly.

    Sums over 24 equal steps of x(t) are exact for products of two of the six sines.
    """
    before, now = ((np.arange(count) + 0.5) / count for count in (8, 24))
    return Samples(np.stack(np.meshgrid(before, now, indexing="ij"), axis=-1).reshape(-1, 2))


def _on_windows(rho: Rho, theta: float) -> Rho:
    """ρ~ as a function of the windows u = (x(t-1), x(t)) and v = (x(s-1), x(s))."""
    return lambda u, v: rho(u[..., 1] + theta * u[..., 0], v[..., 1] + theta * v[..., 0])


def _pairs(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _fig1(x, x.mT)
    return found


def _rounded(sigma: Any) -> list[float]:
    return [float(f"{value:.10g}") for value in sigma]


WORK = {"example": example, "filters": filters, "deconvolution": deconvolution}
EXPERIMENT = Experiment(
    "mixing-rank",
    "Mixing and the rank of the coupling",
    "Sec. 6.2, App. D.3",
    tasks,
    conclude,
)
