"""Equivariance, Propositions 6.1 to 6.3 and B.1, and Theorem A.3, each as a check with a verdict.

The checks of the propositions are in theory/. Theorem A.3 is checked here, with the corrected proof
of theory/represent.py.
"""

import re
from collections import Counter
from typing import get_args

import torch

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, claim_of
from attnrate.figures.figure import Table
from attnrate.fitting.job import Sized
from attnrate.targets import AttentionTarget
from attnrate.theory.check import Check, Verdict
from attnrate.theory.propositions import check_propositions
from attnrate.theory.represent import pair_product, product_and_sum, represent

#: The place in the paper of each check's statement
PLACES = {
    "Equivariance (App. A.1)": "App. A.1",
    "Prop. 6.1": "Sec. 6.1",
    "Prop. 6.2": "Sec. 6.1",
    "Prop. 6.3": "Sec. 6.2",
    "Prop. B.1 (1)": "App. B.1",
    "Prop. B.1 (2)": "App. B.1",
    "Prop. B.1 (3)": "App. B.1",
    "Theorem A.3": "App. A.2",
}
_SAMPLES = 500
_SAME = 1e-9
#: Disjoint intervals of inputs, one per position (Eq. 7)
_TWO = ((0.0, 1.0), (2.0, 3.0))
_THREE = ((4.0, 5.0), (1.0, 2.0), (7.0, 7.5))


class ChecksOutcome(contract.Outcome):
    """The results of all checks."""

    checks: tuple[Check, ...]


class Checks(contract.Work, work="propositions.checks", trains=False):
    """A job that runs all checks, which takes a few seconds."""

    def run(self) -> ChecksOutcome:
        """Run the checks one after the other."""
        return ChecksOutcome((*check_propositions(self.seed), check_A_3(seed=self.seed)))


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan one job, which is the same in both presets."""
    del preset
    return [Sized(Checks(), 3.0)]


def check_A_3(samples: int = _SAMPLES, seed: int = 0) -> Check:
    """Check Theorem A.3: any continuous H on X^(E) is of the form Eq. 8 with n = τ(2τd+1)+1.

    It is tested on two superpositions (Eq. 24) and on one function that is not given as a
    superposition. The f of the printed proof (Eq. 26) is tested, too: two inputs with the same
    u(t) but different H_t show that there is no F for it.
    """
    gap, off, sizes = 0.0, 0.0, []
    for H, intervals in (
        (pair_product(_TWO), _TWO),
        (product_and_sum(_THREE), _THREE),
        (_entangled, _THREE),
    ):
        target = represent(H, intervals)
        x = target.sample(samples, seed)
        wanted = H(x)
        gap = max(gap, float((target(x) - wanted).abs().max() / wanted.abs().max()))
        off = max(off, _weights_off(target, x))
        length = target.length
        sizes.append((target.f(x).shape[-1], length * (2 * length + 1) + 1))
    within = all(n <= stated for n, stated in sizes)
    same, different = _printed_collision()
    return Check(
        "Theorem A.3",
        "Any continuous H on inputs with position encoding is of the form Eq. 8 with "
        "n = τ(2τd+1)+1.",
        f"x_0 x_1 and (x_0 - x_1)², a product and a square of a sum as superpositions, and "
        f"sin(x_t Σx) + max x; τ = 2, 3, 3, d = 1, {samples} sequences each, seed {seed}",
        "holds" if gap <= _SAME and off <= _SAME and within else "does not hold",
        gap,
        f"the largest |H - its representation| is {gap:.2g} of the largest output, with n = "
        f"{', '.join(str(n) for n, _ in sizes)} (the theorem: at most "
        f"{', '.join(str(stated) for _, stated in sizes)}); the attention differs from 2/(τ+1) and "
        f"1/(τ+1) by at most {off:.2g}. The printed proof has a gap: with its f (Eq. 26) two "
        f"inputs have u(t) equal to {same:.1g} and outputs that differ by {different:.2g}, so no F "
        "exists; a slot for every position closes the gap.",
    )


def _entangled(x: torch.Tensor) -> torch.Tensor:
    """H_t = sin(x_t Σ x) + max x: continuous, and not a sum of functions of one variable."""
    return torch.sin(x * x.sum(1, keepdim=True)) + x.amax(1, keepdim=True)


def _weights_off(target: AttentionTarget, x: torch.Tensor) -> float:
    """The largest deviation of the attention from 2/(τ+1) on s = t and 1/(τ+1) elsewhere."""
    length = target.length
    stated = (torch.ones(length, length) + torch.eye(length)).double() / (length + 1)
    return float((target.attention(x) - stated).abs().max())


def _printed_collision() -> tuple[float, float]:
    """|u_0 - u_0'| and |H_0 - H_0'| for H_0 = y_0 + y_1, y_s = x_s - 2s, and the f of Eq. 26.

    ψ_q,s = y_s for every q, so u(0) = (2 y_0 + y_1, 2 b_0 + b_1) / 3 depends on the y through
    one number.
    """
    one, two = torch.tensor([0.0, 1.0]).double(), torch.tensor([0.5, 0.0]).double()
    weights = torch.tensor([2.0, 1.0]).double() / 3
    return float((weights @ (one - two)).abs()), float((one.sum() - two.sum()).abs())


def conclude(results: contract.Results) -> contract.Conclusion:
    """Make one claim per check, with the verdict of the check."""
    done = results.of(Checks, ChecksOutcome)
    if not done:
        return contract.Conclusion(("The checks are not finished.",))
    checks = done[0].outcome.checks
    count = Counter(check.verdict for check in checks)
    said = ", ".join(f"{count[word]} {word}" for word in get_args(Verdict) if count[word])
    paragraph = (
        f"{len(checks)} statements of the paper, each tested numerically, without any training: "
        f"{said}. A run can refute a statement or a correction of it, but it cannot prove one: "
        '"holds" means that it held in everything that was tried.'
    )
    table = Table(
        "The propositions as checks",
        ("statement", "verdict", "deciding number", "tested"),
        tuple((check.name, check.verdict, check.value, check.tested) for check in checks),
        "The claims say what each number is, and what was found.",
    )
    return contract.Conclusion((paragraph,), (), (table,), tuple(_claim(check) for check in checks))


def _claim(check: Check) -> Claim:
    """Make the claim of a check; that of Prop. B.1 (2) is named propositions-b-1-2."""
    bare = re.sub(r"^Prop\.|\(App\. A\.1\)", "", check.name).lower()
    return claim_of(
        "propositions",
        "-".join(re.findall(r"[a-z0-9]+", bare)),
        PLACES.get(check.name, check.name),
        check.statement,
        check.verdict,
        check.detail,
        check.value,
        check.correction if check.verdict == "holds when corrected" else "",
    )


EXPERIMENT = contract.Experiment(
    "propositions",
    "Propositions and the representation theorem as checks",
    "App. A.1, A.2, B.1; sec. 6",
    160,
    plan,
    conclude,
)
