"""Attention that is no part of a profile: which modules, and why."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from torch import nn

_IDLE = "it did not run on these inputs"
_REASONS = {
    frozenset({"product", "softmax"}): (
        "its softmax is not of one product of queries and keys (attention that is sparse, hashed "
        "or put together from blocks)"
    ),
    frozenset({"product"}): "it multiplies without softmax (linear attention and the like)",
    frozenset({"softmax"}): (
        "its softmax is not of products of queries and keys (deformable or additive attention, "
        "pooling)"
    ),
    frozenset[str](): "what it computes cannot be seen by torch's functions",
}


@dataclass(frozen=True)
class Unseen:
    """A module that looks like attention and is not part of a profile.

    Attributes:
        name: The path of the module within the model.
        kind: The name of its class.
        why: Why it was left out.

    Examples:
        >>> import torch
        >>> class LinearAttention(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x @ (x.mT @ x)
        >>> model = torch.nn.Sequential(ar.Transformer(2, 2, n=8, m_h=4), LinearAttention())
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     found = ar.profile(model, torch.rand(4, 16, 2))
        >>> print(found.unseen[0])
        1 (LinearAttention): it multiplies without softmax (linear attention and the like)

    """

    name: str
    kind: str
    why: str

    def __str__(self) -> str:
        return f"{self.name or 'the model itself'} ({self.kind}): {self.why}"

    @property
    def is_idle(self) -> bool:
        """Whether the module did not run, so that other inputs may show what it is."""
        return self.why == _IDLE


@dataclass
class Evidence:
    """What was noticed of modules, by their numbers (`id`).

    Attributes:
        ran: Modules that have run.
        did: What modules have computed, themselves or in their parts: products, softmax.
        lost: Modules whose attention was followed and not understood, with the reason.

    """

    ran: set[int] = field(default_factory=set)
    did: dict[int, set[str]] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


def unseen_of(
    model: nn.Module, seen: Collection[int], evidence: Evidence, doubted: Mapping[int, str]
) -> list[Unseen]:
    """The modules that attend, or look like it, and are no part of a profile.

    Args:
        model: The model.
        seen: The numbers (`id`) of the modules whose attention is part of it.
        evidence: What was noticed while the model ran.
        doubted: Modules whose calls do not give their outputs, with the reason.

    """
    why = evidence.lost | dict(doubted)
    found = []
    known = _Known(model, {*seen, *why}, evidence)
    for path, part in model.named_modules():
        number = id(part)
        if number not in why and number in known.near:
            continue
        if number in why:
            reason = why[number]
        elif not looks_like_attention(part) or known.is_bystander(part):
            continue
        elif number not in evidence.ran:
            if next(part.parameters(), None) is None:
                continue  # a part that only holds settings, or computes masks
            reason = _IDLE
        else:
            reason = _REASONS[frozenset(evidence.did.get(number, ()))]
        found.append(Unseen(path, type(part).__name__, reason))
    return found


class _Known:
    """Which modules are, hold or belong to attention that has been accounted for.

    Attributes:
        near: The numbers of modules that are, hold or belong to such attention, or hold another
            module that looks like attention and is named itself.

    """

    def __init__(self, model: nn.Module, accounted: set[int], evidence: Evidence) -> None:
        self._parents = {id(child): part for part in model.modules() for child in part.children()}
        self._evidence = evidence
        self._holding: set[int] = set()
        self.near: set[int] = set()
        for part in model.modules():
            inner = {id(each) for each in part.modules()}
            if inner & accounted:
                self._holding.add(id(part))
                self.near.add(id(part))
            if id(part) in accounted:
                self.near |= {
                    id(each)
                    for each in part.modules()
                    if not (looks_like_attention(each) and evidence.did.get(id(each)))
                }
            elif looks_like_attention(part) and any(
                looks_like_attention(each) and next(each.parameters(), None) is not None
                for each in part.modules()
                if each is not part
            ):
                self.near.add(id(part))

    def is_bystander(self, part: nn.Module) -> bool:
        """Whether a module is beside attention that is accounted for, and does none itself."""
        parent = self._parents.get(id(part))
        return (
            parent is not None
            and looks_like_attention(parent)
            and id(parent) in self._holding
            and not self._evidence.did.get(id(part))
        )


def looks_like_attention(part: nn.Module) -> bool:
    """Whether the name of a module's class speaks of attention."""
    name = type(part).__name__.lower()
    return "attention" in name or "attn" in name
