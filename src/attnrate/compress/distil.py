"""Repairing all layers of a cut model together, against the output of the original model.

Layers that are repaired one by one do not know which of their errors matter later, nor which the
others make up for. Here the queries' weights Pᵀ W_Q stand in the model while it runs, and gradients
of the relative change of its output go to X and Y of all layers at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import nn

from attnrate.compress.content import Factors, balanced
from attnrate.compress.how_far import At, one_by_one, unseen
from attnrate.compress.modules.normed import projecting
from attnrate.compress.moments import Moments
from attnrate.compress.projections import Projections, Slice
from attnrate.compress.repair import rate, whitening
from attnrate.compress.resume import NOWHERE, Repairs
from attnrate.compress.trial import relative
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.check import output_of

Tensor = torch.Tensor
_RATE = 0.003  # of Adam, for numbers of size one
_INPUTS = 2  # in a step
_LOOKS = 4  # measurements on the inputs held out during a repair
_HELD_OUT = 8  # every eighth input is held out
_MOMENTS = "exp_avg", "exp_avg_sq"  # of Adam


@dataclass(frozen=True)
class Distilled:
    """What a repair of all layers together came to.

    Attributes:
        factors: The cuts after the repair, by the names of layers.
        before: The relative change of the model's output by the cuts to begin with, on inputs held
            out.
        after: The relative change of the model's output on these inputs after the repair; never
            more than `before`.

    """

    factors: Mapping[str, Factors]
    before: float
    after: float


@contextmanager
def queries_cut(
    projections: Mapping[str, Projections], cuts: Mapping[str, Float[Tensor, "heads m m"]]
) -> Iterator[None]:
    """While it is open, the model makes the queries Pᵀ q; gradients reach the projections P.

    Args:
        projections: Where each layer makes its queries.
        cuts: P of each query head, by the names of layers.

    """
    kept: list[tuple[nn.Module, str, nn.Parameter]] = []
    turned: list[nn.Module] = []
    try:
        for name, P in cuts.items():
            if projections[name].behind:
                module = projections[name].site.module
                vars(module)["forward"] = projecting(module, P)
                turned.append(module)
                continue
            part = projections[name].query.part
            for word in ("weight", "bias"):
                old = part._parameters.get(word)
                if old is not None:
                    made = _cut(old.detach(), projections[name].query, P, word == "weight")
                    kept.append((part, word, old))
                    del part._parameters[word]
                    setattr(part, word, made)
        yield
    finally:
        for module in turned:
            del vars(module)["forward"]  # that of its class serves again
        for part, word, old in kept:
            delattr(part, word)
            part._parameters[word] = old


def distil(
    model: nn.Module,
    given: Sequence[Batch],
    projections: Mapping[str, Projections],
    moments: Mapping[str, Moments],
    start: Mapping[str, Factors],
    steps: int = 100,
    seed: int = 0,
    at: At = unseen,
    kept: Repairs = NOWHERE,
) -> Distilled:
    """Repair the cuts of all layers of a model together by gradient steps.

    Args:
        model: The original model.
        given: The calibration inputs.
        projections: Where each layer makes its queries.
        moments: The moments of each layer, for the coordinates.
        start: The cuts to begin with.
        steps: The number of steps.
        seed: The seed of the order of inputs.
        at: Where progress is shown.
        kept: Where the state is kept at each look at the inputs held out.

    Returns:
        The best cuts on the inputs held out, and what they came to.

    """
    places = [(b, i) for b, batch in enumerate(given) for i in range(batches.size(batch))]
    away = places[_HELD_OUT - 1 :: _HELD_OUT] or places[-1:]
    own = [place for place in places if place not in away] or away
    frozen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        task = _Task(model, given, projections)
        layers = {name: _White.of(moments[name], start[name]) for name in start}
        before = task.error(away, start)
        found, least = dict(start), before
        search = torch.optim.Adam(
            [x for each in layers.values() for x in each.trained.values()],
            lr=_RATE,
            betas=(0.9, 0.99),
        )
        behind, name_of_state = 0, f"together-{steps}"
        state = kept.recall(name_of_state, _state(0, least, layers, found, search))
        if state is not None:
            behind, least, found = _restored(state, layers, search)
        order = _drawn(len(own), steps, seed)
        look = max(1, steps // _LOOKS)
        for step in one_by_one(range(1, steps + 1), "all layers together: step", at, behind):
            search.param_groups[0]["lr"] = _RATE * rate(step, steps)
            some = [own[i] for i in order[step - 1]]
            search.zero_grad()
            for place in some:
                loss = task.loss(place, {n: each.projection() for n, each in layers.items()})
                (loss / len(some)).backward()  # type: ignore[no-untyped-call]
            search.step()
            if step % look == 0 or step == steps:
                made = {name: each.factors(moments[name]) for name, each in layers.items()}
                error = task.error(away, made)
                if error < least:
                    found, least = made, error
                kept.keep(name_of_state, _state(step, least, layers, found, search))
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
        for part, training in modes:
            part.training = training
    return Distilled(found, before, least)


@dataclass(frozen=True)
class _Task:
    """The change of a model's output, input by input."""

    model: nn.Module
    given: Sequence[Batch]
    projections: Mapping[str, Projections]

    def loss(self, place: tuple[int, int], cuts: Mapping[str, Tensor]) -> Tensor:
        """The square of the relative change of the output for an input."""
        wrong, size = self._parts(place, cuts)
        return wrong / size.clamp(min=1e-30)

    def error(self, places: Sequence[tuple[int, int]], cuts: Mapping[str, Factors]) -> float:
        """The relative change of the output over several inputs."""
        P = {name: each.projection().float() for name, each in cuts.items()}
        with torch.no_grad():
            parts = [self._parts(place, P) for place in places]
        wrong, size = (sum(float(part[i]) for part in parts) for i in (0, 1))
        return relative(wrong, size)

    def _parts(self, place: tuple[int, int], cuts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        one = batches.pick(self.given[place[0]], [place[1]])
        with torch.no_grad():
            whole = output_of(batches.run(self.model, one)).float()
        with queries_cut(self.projections, cuts):
            made = output_of(batches.run(self.model, one)).float()
        kept = batches.padding(self.model, one, tuple(whole.shape[:2]))
        if kept is not None:
            whole, made = whole[kept.to(whole.device)], made[kept.to(made.device)]
        return (made - whole).square().sum(), whole.square().sum()


@dataclass(frozen=True)
class _White:
    """The cut of a layer in coordinates in which its queries and keys have unit moments."""

    X: Tensor
    Y: Tensor
    of_query: Tensor
    of_key: Tensor

    @classmethod
    def of(cls, moments: Moments, start: Factors) -> "_White":
        q_root, q_inverse = whitening(moments.query / moments.queries)
        k_root, k_inverse = whitening(moments.gauge / moments.keys)
        return cls(
            (q_root @ start.X).float().requires_grad_(),
            (k_root @ start.Y).float().requires_grad_(),
            q_inverse.float(),
            k_inverse.float(),
        )

    @property
    def trained(self) -> dict[str, Tensor]:
        """What steps change, by name."""
        return {"X": self.X, "Y": self.Y}

    def projection(self) -> Tensor:
        shared = len(self.X) // len(self.Y)
        Y = (self.of_key @ self.Y).repeat_interleave(shared, 0)
        made: Tensor = self.of_query @ self.X @ Y.mT
        return made

    def factors(self, moments: Moments) -> Factors:
        X, Y = self.of_query @ self.X.detach(), self.of_key @ self.Y.detach()
        return balanced(Factors(X.double(), Y.double()), moments)


def _drawn(count: int, steps: int, seed: int) -> list[list[int]]:
    """The numbers of the inputs of each step: all in random order, and again in another one."""
    drawn = torch.Generator().manual_seed(seed)
    order: list[int] = []
    found = []
    for _ in range(steps):
        if len(order) < _INPUTS:
            order += torch.randperm(count, generator=drawn).tolist()
        found.append(order[:_INPUTS])
        order = order[_INPUTS:]
    return found


def _state(
    step: int,
    least: float,
    layers: Mapping[str, _White],
    best: Mapping[str, Factors],
    search: torch.optim.Adam,
) -> dict[str, Tensor]:
    """All that the steps after one go on from, as tensors by name."""
    made = {"numbers": torch.tensor([step, least], dtype=torch.float64)}
    for name, each in layers.items():
        made |= {f"{name} best X": best[name].X, f"{name} best Y": best[name].Y}
        for word, theta in each.trained.items():
            made[f"{name} {word}"] = theta.detach()
            for moment in _MOMENTS:
                known = search.state[theta].get(moment) if theta in search.state else None
                made[f"{name} {word} {moment}"] = (
                    torch.zeros_like(theta) if known is None else known
                )
    return made


def _restored(
    state: Mapping[str, Tensor], layers: Mapping[str, _White], search: torch.optim.Adam
) -> tuple[int, float, dict[str, Factors]]:
    """Put layers and their search where a state was; its step, its least error, its best cuts."""
    step, least = state["numbers"].tolist()
    for name, each in layers.items():
        for word, theta in each.trained.items():
            theta.detach().copy_(state[f"{name} {word}"])
            moments = {moment: state[f"{name} {word} {moment}"] for moment in _MOMENTS}
            search.state[theta] = {"step": torch.tensor(float(step)), **moments}
    best = {name: Factors(state[f"{name} best X"], state[f"{name} best Y"]) for name in layers}
    return int(step), least, best


def _cut(old: Tensor, own: Slice, P: Tensor, is_weight: bool) -> Tensor:
    """A weight or bias with Pᵀ before the features that are queries."""
    rows = own.rows_of(old) if is_weight else old[:, None]
    features = own.features.flatten()
    heads = rows[features].reshape(*own.features.shape, -1)
    made = rows.index_copy(0, features, (P.to(rows).mT @ heads).flatten(0, 1))
    return own.rows_of(made) if is_weight else made[:, 0]
