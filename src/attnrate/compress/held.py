"""A call of attention that is kept, to be computed again with other queries and keys."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch.nn.functional import pad

from attnrate.spectra.capture import Call, Kept

Tensor = torch.Tensor
#: Added to a logit it hides a key; two of them do not overflow
_HIDDEN = -1e30
_BLOCK = 2**22  # numbers in a block of attention weights: 16 MB in float32


@dataclass(frozen=True)
class Held:
    """What a call needs to be computed again, in float32, with zeros in place of padding.

    Attributes:
        query: The queries.
        key: The keys, of which several query heads may share one.
        value: The values.
        scale: The factor of the logits.
        added: What is added to the logits: position biases, and masks as numbers.
        counted: 1 for each query that is a token, 0 for padding.
        tokens: 1 for each key that is a token, 0 for padding.
        softcap: A bound that logits are given before anything is added; None for none.
        sinks: Logits for attention to no token; None for none.

    """

    query: Float[Tensor, "inputs heads T m"]
    key: Float[Tensor, "inputs groups S m"]
    value: Float[Tensor, "inputs groups S m_v"]
    scale: float
    added: tuple[Float[Tensor, "#inputs #heads #T S"], ...]
    counted: Float[Tensor, "inputs T"]
    tokens: Float[Tensor, "inputs S"]
    softcap: float | None = None
    sinks: Float[Tensor, "#inputs heads #T 1"] | None = None

    @classmethod
    def of(cls, call: Call, kept: Kept) -> "Held":
        """Keep a call; `kept` says which of its queries and keys are no padding."""
        inputs, _, T, _ = call.query.shape
        S = call.key.shape[2]
        added = [] if call.bias is None else [_once(call.bias.detach().float())]
        mask = call.mask
        if mask is not None and not isinstance(mask, Tensor):
            mask = mask(slice(0, T))
        if mask is not None:
            added.append(_as_numbers(mask.detach()))
        if call.causal:
            t = torch.arange(T, device=call.key.device)[:, None] + S - T
            added.append(_as_numbers((torch.arange(S, device=call.key.device) <= t)[None, None]))
        if kept[1] is not None:
            added.append(_as_numbers(kept[1][:, None, None, :]))
        return cls(
            query=_emptied(call.query, kept[0]),
            key=_emptied(call.key, kept[1]),
            value=_emptied(call.value, kept[1]),
            scale=call.scale,
            added=tuple(added),
            counted=_flags(kept[0], call.query.new_ones(inputs, T)),
            tokens=_flags(kept[1], call.query.new_ones(inputs, S)),
            softcap=call.softcap,
            sinks=None if call.sinks is None else call.sinks.detach().float(),
        )

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.query.shape[1]

    @property
    def shared(self) -> int:
        """The number of query heads that share a key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return self.query.shape[0]

    def pick(self, inputs: Sequence[int]) -> "Held":
        """The call of those inputs whose numbers are given."""
        own = list(inputs)

        def of(x: Tensor) -> Tensor:
            return x[own] if x.shape[0] == self.inputs > 1 else x

        return replace(
            self,
            query=self.query[own],
            key=self.key[own],
            value=self.value[own],
            added=tuple(of(x) for x in self.added),
            counted=self.counted[own],
            tokens=self.tokens[own],
            sinks=None if self.sinks is None else of(self.sinks),
        )

    def spread(self, keys: Float[Tensor, "inputs groups S k"]) -> Float[Tensor, "inputs heads S k"]:
        """Keys or values once for each query head."""
        return keys if self.shared == 1 else keys.repeat_interleave(self.shared, 1)

    def weights(
        self,
        query: Float[Tensor, "inputs heads t r"],
        key: Float[Tensor, "inputs heads S r"],
        rows: Int[Tensor, " t"] | slice,
    ) -> Float[Tensor, "inputs heads t S"]:
        """The attention weights of some queries; `rows` are their numbers in the call."""
        logits = self.scale * (query @ key.mT)
        if self.softcap is not None:
            logits = self.softcap * (logits / self.softcap).tanh()
        for each in self.added:
            logits = logits + (each[:, :, rows] if each.shape[2] > 1 else each)
        if self.sinks is None:
            return logits.softmax(-1)
        sinks = self.sinks[:, :, rows] if self.sinks.shape[2] > 1 else self.sinks
        wide = torch.cat([logits, sinks.expand(*logits.shape[:3], 1)], -1)
        return wide.softmax(-1)[..., :-1]

    def blocks(self) -> list[slice]:
        """Parts of the queries that are small enough to be computed at once."""
        T, S = self.query.shape[2], self.key.shape[2]
        rows = max(1, _BLOCK // max(1, self.inputs * self.heads * S))
        return [slice(start, min(start + rows, T)) for start in range(0, T, rows)]


def joined(calls: Sequence[Held]) -> Held:
    """Several calls of a layer as one, inputs after inputs; shorter ones are filled up."""
    if len(calls) == 1:
        return calls[0]
    T, S = (max(size) for size in zip(*(_lengths(each) for each in calls), strict=True))
    most = max(len(each.added) for each in calls)
    filled = [_filled(each, T, S, most) for each in calls]

    def all_of(parts: Sequence[Tensor]) -> Tensor:
        if all(part.shape[0] == 1 and torch.equal(part, parts[0]) for part in parts):
            return parts[0]
        own = [max(part.shape[axis] for part in parts) for axis in (1, 2, 3)]
        pairs = zip(parts, filled, strict=True)
        return torch.cat([part.expand(each.inputs, *own) for part, each in pairs])

    sinks = [each.sinks for each in filled if each.sinks is not None]
    return replace(
        filled[0],
        query=torch.cat([each.query for each in filled]),
        key=torch.cat([each.key for each in filled]),
        value=torch.cat([each.value for each in filled]),
        added=tuple(all_of(parts) for parts in zip(*(each.added for each in filled), strict=True)),
        counted=torch.cat([each.counted for each in filled]),
        tokens=torch.cat([each.tokens for each in filled]),
        sinks=all_of(sinks) if sinks else None,
    )


def _lengths(held: Held) -> tuple[int, int]:
    return held.query.shape[2], held.key.shape[2]


def _filled(held: Held, T: int, S: int, most: int) -> Held:
    """The call with T queries and S keys, the new ones being padding, and `most` masks."""
    t, s = _lengths(held)

    def rows(x: Tensor, more: int) -> Tensor:
        return pad(x, (0, 0, 0, more))

    added = [pad(x, (0, S - s, 0, T - t if x.shape[2] > 1 else 0)) for x in held.added]
    added += [held.query.new_zeros(1, 1, 1, S)] * (most - len(added))
    tokens = pad(held.tokens, (0, S - s))
    # where lengths differ, each call hides its own padding by a mask more
    added.append(_as_numbers((tokens > 0)[:, None, None, :]))
    wide = held.sinks is not None and held.sinks.shape[2] > 1
    return replace(
        held,
        query=rows(held.query, T - t),
        key=rows(held.key, S - s),
        value=rows(held.value, S - s),
        added=tuple(added),
        counted=pad(held.counted, (0, T - t)),
        tokens=tokens,
        sinks=rows(held.sinks, T - t) if wide and held.sinks is not None else held.sinks,
    )


def _as_numbers(mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return _once(torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, _HIDDEN))
    return _once(mask.float().clamp(min=_HIDDEN))


def _once(added: Tensor) -> Tensor:
    """A tensor with 1 row for all inputs, heads or queries where they have the same."""
    for axis in range(3):
        first = added.narrow(axis, 0, 1)
        if added.shape[axis] > 1 and bool((added == first).all()):
            added = first
    return added.clone()


def _emptied(x: Tensor, kept: Tensor | None) -> Tensor:
    whole = x.detach().float()
    return whole if kept is None else whole.masked_fill(~kept[:, None, :, None], 0.0)


def _flags(kept: Tensor | None, ones: Tensor) -> Tensor:
    return ones.float() if kept is None else kept.to(ones.device).float()
