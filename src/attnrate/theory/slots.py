"""f, F and ρ of the mended proof of Theorem A.3 (`represent.py`); what slots hold is left open."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from math import expm1

import torch
from jaxtyping import Float, Int

Tensor = torch.Tensor


@dataclass(frozen=True)
class Slots(ABC):
    """f, F and ρ of the mended proof: every position s has a slot of `width` coordinates in f."""

    intervals: tuple[tuple[float, float], ...]
    strength: float

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of coordinates of one slot."""

    @abstractmethod
    def features(self, s: int, x: Float[Tensor, " k"]) -> Float[Tensor, "k width"]:
        """What tokens x of the interval I_s put into their slot."""

    @abstractmethod
    def readout(
        self, slots: Float[Tensor, "k length width"], t: Int[Tensor, " k"]
    ) -> Float[Tensor, "k out"]:
        """H_t from all slots."""

    @property
    def length(self) -> int:
        """τ, the number of positions."""
        return len(self.intervals)

    def position(self, x: Float[Tensor, "*shape 1"]) -> Int[Tensor, "*shape"]:
        """The interval that a token lies in; for a token in a gap, the nearest interval.

        This extends f and ρ beyond the intervals.
        """
        order = sorted(range(self.length), key=lambda s: self.intervals[s])
        ends = [self.intervals[s] for s in order]
        cuts = [(one[1] + two[0]) / 2 for one, two in pairwise(ends)]
        where = torch.bucketize(x[..., 0].detach().contiguous(), x.new_tensor(cuts))
        return torch.tensor(order, device=x.device)[where]

    def one_hot(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape length"]:
        """1 at the token's position, 0 elsewhere: the piecewise constant factors of ρ."""
        return torch.nn.functional.one_hot(self.position(x), self.length).to(x.dtype)

    def own(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape length"]:
        """The strength at the token's position, 0 elsewhere: the left factors of ρ."""
        return self.strength * self.one_hot(x)

    def f(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape n"]:
        """Eq. 26 with a slot for each position, and b_s = s/τ in the last coordinate."""
        token, at = x.reshape(-1), self.position(x).reshape(-1)
        slots = x.new_zeros(token.numel(), self.length, self.width)
        for s, (low, high) in enumerate(self.intervals):
            slots[at == s, s] = self.features(s, token[at == s].clamp(low, high)).to(x.dtype)
        marked = torch.cat([slots.flatten(1), at[:, None].to(x.dtype) / self.length], dim=1)
        return marked.reshape(*x.shape[:-1], -1)

    def F(self, u: Float[Tensor, "*shape n"]) -> Float[Tensor, "*shape out"]:
        """H_t from u: t is in the last coordinate, and the extra weight of slot t is taken off.

        (e^c + τ-1) u = Σ_s f(x(s)) + (e^c - 1) f(x(t)), c the strength, and Σ_s b_s = (τ-1)/2.
        """
        more = expm1(self.strength)
        total = u.reshape(-1, u.shape[-1]) * (more + self.length)
        mark = (total[:, -1] - (self.length - 1) / 2) / more
        t = (mark * self.length).round().long().clamp(0, self.length - 1)
        slots = total[:, :-1].reshape(-1, self.length, self.width)
        own = torch.nn.functional.one_hot(t, self.length)[:, :, None].bool()
        decoded = self.readout(torch.where(own, slots / (more + 1.0), slots), t)
        return decoded.reshape(*u.shape[:-1], -1)
