"""Training after a cut of rotary heads: the maps X, Y of a layer against what it used to add.

A cut picks pairs and turns them. Any other maps q' = Xᵀq and k' = Yᵀk before the rotation can be
folded into the weights just as well, so training starts at the cut and moves them all, Adam on
Σ_t ‖Σ_h W_O (A'_h - A_h) V_h‖², the change of what the layer adds to the model, over that output.

Coordinates matter: X and Y act on queries and keys with unit second moments, X = C^(-1/2) θ, and
each pair's queries and keys have the same extent at the start. Raw directions differ in extent by
factors of hundreds, and Adam, which moves every number by the same amount, then diverges.

Some of the calibration inputs are not trained on; the maps that do best on them are kept, which may
be those of the cut: repair never makes these inputs worse.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import nn

from attnrate.compress.how_far import At, one_by_one, unseen
from attnrate.compress.modules.llama import turned
from attnrate.compress.modules.rotary_layers import require_rotary
from attnrate.compress.rotary import PairCut, RotaryMaps
from attnrate.errors import InputError, require_whole
from attnrate.spectra.attention import weights
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_CHECKS = 8  # how often the inputs that are not trained on are looked at
_FAR = 0.3  # the change of outputs from which steps have their full size
_SMALLEST = 1e-6  # second moment in the coordinates, beside the largest of the layer


@dataclass(frozen=True)
class Example:
    """What an attention layer is given for one input.

    Attributes:
        hidden: What its projections are applied to.
        cos: The cosines of the rotation, of all pairs.
        sin: The sines of the rotation.
        call: The call, for its values, scale, masks and biases; its queries and keys are empty.
        kept: Which tokens are no padding; None: all are.

    """

    hidden: Float[Tensor, "T d"]
    cos: Float[Tensor, "T pairs"]
    sin: Float[Tensor, "T pairs"]
    call: Call
    kept: Bool[Tensor, "1 T"] | None


@dataclass(frozen=True)
class Repaired:
    """The maps of a layer after training.

    Attributes:
        maps: The best maps.
        before: The change of the layer's output over the output, on the inputs that were not
            trained on, root of the ratio of sums of squares, as the cut left it.
        after: The same change with the best maps; at most `before`.
        best: The number of steps after which the maps were best; 0 are those of the cut.

    """

    maps: RotaryMaps
    before: float
    after: float
    best: int


def examples(
    watcher: Watcher, inputs: Iterable[Batch], names: Iterable[str]
) -> dict[str, list[Example]]:
    """What layers are given on calibration inputs, one example for each input, in one pass.

    Args:
        watcher: The model.
        inputs: The calibration inputs as batches.
        names: The layers that are wanted. Each takes (width + size of all values) numbers a token;
            for a large model ask for some layers at a time.

    Returns:
        The examples of each layer in the order of the inputs.

    """
    found: dict[str, list[Example]] = {name: [] for name in names}
    given: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def enter(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        cos, sin = kwargs.get("position_embeddings") or args[1]
        given[id(part)] = hidden.detach(), cos.detach(), sin.detach()

    with ExitStack() as hooks:
        for name in found:
            part = watcher.model.get_submodule(name)
            hooks.enter_context(part.register_forward_pre_hook(enter, with_kwargs=True))
        for batch in inputs:

            def see(site: Site, call: Call, batch: Batch = batch) -> None:
                if site.name in found:
                    kept = kept_tokens(site, call, batch)[0]
                    found[site.name] += _split(given[id(site.module)], call, kept)

            watcher.see(batch, see)
    return found


def repair(
    module: nn.Module,
    cut: PairCut | RotaryMaps,
    given: Sequence[Example],
    generator: torch.Generator,
    steps: int = 200,
    rate: float = 1e-2,
    at_once: int = 4,
    at: At = unseen,
) -> Repaired:
    """Train the maps of a layer's queries and keys against the outputs of the whole layer.

    Args:
        module: The whole layer.
        cut: The cut at which training starts.
        given: What the layer is given; every fifth example is not trained on.
        generator: Draws the examples of each step.
        steps: The number of steps.
        rate: The step size of Adam at the start; it falls to zero along a cosine. For a cut that
            changes the output by less than 0.3 of its size it is smaller in proportion: such a cut
            is nearer to the best maps, and larger steps only lead away from it.
        at_once: The number of examples in a step; of each, half of the queries are looked at.
        at: Where progress is shown.

    Returns:
        The best maps and what they change.

    """
    require_whole("steps", steps, 0)
    if len(given) < 2:
        raise InputError(
            "repair needs at least two calibration inputs: some to train on, and some to tell when "
            "to stop",
            len(given),
        )
    layer = _Layer(module, given)
    aside = range(len(given) - 1, -1, -5)
    train = [i for i in range(len(given)) if i not in aside]
    maps = cut.maps(layer.m) if isinstance(cut, PairCut) else cut
    coordinates = _Coordinates(layer, maps, train)
    thetas = [theta.requires_grad_() for theta in coordinates.start]
    optimiser = torch.optim.Adam(thetas, rate, betas=(0.9, 0.95))
    targets = [layer.target(i) for i in range(len(given))]

    def change(i: int, rows: slice) -> Tensor:
        return layer.change(i, targets[i], coordinates.maps(*thetas), rows)

    def aside_now() -> float:
        with torch.no_grad():
            wrong = sum(float(change(i, layer.rows(i))) for i in aside)
        return math.sqrt(wrong / sum(float(targets[i].square().sum()) for i in aside))

    before = lowest = aside_now()
    rate *= min(1.0, before / _FAR)
    best, kept = 0, [theta.detach().clone() for theta in thetas]
    size = sum(float(targets[i].square().sum()) for i in train) / len(train)
    every = max(1, steps // _CHECKS)
    order: list[int] = []
    for step in one_by_one(range(1, steps + 1), "step", at):
        for options in optimiser.param_groups:
            options["lr"] = rate * (1 + math.cos(math.pi * (step - 1) / steps)) / 2
        optimiser.zero_grad()
        for _ in range(at_once):
            if not order:
                order = torch.randperm(2 * len(train), generator=generator).tolist()
            number, half = divmod(order.pop(), 2)
            rows = layer.rows(train[number], half)
            (change(train[number], rows) / (size * at_once)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % every == 0 or step == steps:
            now = aside_now()
            if now < lowest:
                lowest, best = now, step
                kept = [theta.detach().clone() for theta in thetas]
    done = maps if best == 0 else coordinates.folded(*kept)
    return Repaired(done, before, lowest, best)


class _Layer:
    """The whole layer: its queries and keys before the rotation, and what it adds to the model."""

    def __init__(self, module: nn.Module, given: Sequence[Example]) -> None:
        q, k, _, o = require_rotary(module)
        self.given = given
        groups, m_v = given[0].call.value.shape[1], given[0].call.value.shape[-1]
        self.heads = o.in_features // m_v
        self.groups, self.shared = groups, self.heads // groups
        self.m = k.out_features // groups
        self.W_O = o.weight.detach().float()
        with torch.no_grad():
            self.own = [
                (_by_head(q, one.hidden, self.heads), _by_head(k, one.hidden, groups))
                for one in given
            ]

    def rows(self, i: int, half: int | None = None) -> slice:
        """The queries of an example, or one half of them."""
        T = len(self.given[i].hidden)
        middle = T // 2
        return slice(0, T) if half is None else (slice(0, middle), slice(middle, T))[half]

    def added(self, i: int, q: Tensor, k: Tensor, pairs: Tensor, rows: slice) -> Tensor:
        """What the layer adds at some queries, (t, d), for q and k of all tokens (heads, T, r)."""
        one = self.given[i]
        cos, sin = (x.float()[:, pairs].transpose(0, 1)[None] for x in (one.cos, one.sin))
        key = turned(k[None], cos, sin).repeat_interleave(self.shared, 1)
        cos, sin = (x.repeat_interleave(self.shared, 1)[:, :, rows] for x in (cos, sin))
        query = turned(q[None, :, rows], cos, sin)
        p = weights(one.call, query, key, rows, one.kept)
        value = one.call.value.float().repeat_interleave(self.shared, 1)
        made = (p @ value)[0].transpose(0, 1).flatten(1)
        if one.kept is not None:
            made = made * one.kept[0, rows, None]
        return made @ self.W_O.mT

    def target(self, i: int) -> Tensor:
        """What the whole layer adds."""
        with torch.no_grad():
            every = torch.arange(self.m // 2, device=self.W_O.device).expand(self.groups, -1)
            q, k = self.own[i]
            return self.added(i, q, k, every, self.rows(i))

    def change(self, i: int, target: Tensor, maps: RotaryMaps, rows: slice) -> Tensor:
        """The sum of squares of the change of what the layer adds at some queries."""
        q, k = self.own[i]
        made = self.added(i, q @ maps.queries, k @ maps.keys, maps.pairs, rows)
        return (made - target[rows]).square().sum()


class _Coordinates:
    """The maps X = C^(-1/2) θ, where C are the second moments of queries, and Y likewise."""

    def __init__(self, layer: _Layer, maps: RotaryMaps, train: Sequence[int]) -> None:
        parts = zip(*(layer.own[i] for i in train), strict=True)
        moments = [_moments(part) for part in parts]
        roots = [_roots(C) for C in moments]
        self.back = [inverse for _, inverse in roots]
        # a cut is made on the CPU, and its layer may be elsewhere
        self.pairs = maps.pairs.to(moments[0].device)
        X, Y = (x.to(moments[0]) for x in (maps.queries, maps.keys))
        extents = [
            (M * (C @ M)).sum(1).reshape(len(M), 2, -1).sum(1)
            for M, C in zip((X, Y), moments, strict=True)
        ]
        of_group = extents[0].reshape(layer.groups, layer.shared, -1).mean(1)
        tiny = 1e-12 * torch.stack([x.max() for x in extents]).max() + 1e-300
        balance = ((of_group + tiny) / (extents[1] + tiny)).pow(0.25).repeat(1, 2)
        balance = balance.unsqueeze(1)
        self.balance = balance.repeat_interleave(layer.shared, 0), balance
        thetas = (
            roots[0][0] @ (X / self.balance[0]),
            roots[1][0] @ (Y * self.balance[1]),
        )
        self.start = [theta.float() for theta in thetas]
        self.narrow = [inverse.float() for inverse in self.back]

    def maps(self, queries: Tensor, keys: Tensor) -> RotaryMaps:
        """The maps in float32, for training."""
        return RotaryMaps(self.pairs, self.narrow[0] @ queries, self.narrow[1] @ keys)

    def folded(self, queries: Tensor, keys: Tensor) -> RotaryMaps:
        """The maps in float64, on the CPU."""
        X, Y = (back @ x.double() for back, x in zip(self.back, (queries, keys), strict=True))
        return RotaryMaps(self.pairs.cpu(), X.cpu(), Y.cpu())


def _by_head(projection: nn.Linear, hidden: Tensor, heads: int) -> Tensor:
    """Queries or keys of one input, (heads, T, m), in float32."""
    made: Tensor = projection(hidden.to(projection.weight))
    return made.float().reshape(len(made), heads, -1).transpose(0, 1)


def _moments(parts: Sequence[Tensor]) -> Tensor:
    """Σ x xᵀ over the number of tokens, of (heads, T, m) of several inputs."""
    whole = torch.cat(list(parts), 1).double()
    return whole.mT @ whole / whole.shape[1]


def _roots(C: Float[Tensor, "heads m m"]) -> tuple[Tensor, Tensor]:
    """C^(1/2) and its inverse; small second moments are raised, so that no direction runs away."""
    value, vector = torch.linalg.eigh(C)
    value = value.clamp(min=_SMALLEST * value.max() + 1e-300).sqrt()
    value = value.unsqueeze(-2)
    return (vector * value) @ vector.mT, (vector / value) @ vector.mT


def _split(given: tuple[Tensor, Tensor, Tensor], call: Call, kept: Tensor | None) -> list[Example]:
    """One example for each row of a call."""
    hidden, cos, sin = given
    rows, T = call.query.shape[0], call.query.shape[2]
    half = cos.shape[-1] // 2
    whole = call.mask(slice(0, T)) if callable(call.mask) else call.mask

    def row(x: Tensor | None, i: int) -> Tensor | None:
        return None if x is None else x[i % len(x)][None]

    def own(x: Tensor | None, i: int) -> Tensor | None:
        return None if x is None else x[i : i + 1].detach().clone()

    made = []
    for i in range(rows):
        value = own(call.value, i)
        assert value is not None
        if kept is not None:
            value = value.masked_fill(~kept[i][None, None, :, None], 0.0)
        one = replace(
            call,
            query=call.query.new_empty(1, *call.query.shape[1:3], 0),
            key=call.key.new_empty(1, *call.key.shape[1:3], 0),
            value=value,
            mask=row(whole, i),
            bias=row(call.bias, i),
            sinks=row(call.sinks, i),
            plain=None,
            output=None,
            kept=(None, None),
        )
        x = hidden[i] if kept is None else hidden[i].masked_fill(~kept[i][:, None], 0.0)
        cosines, sines = (table[i % len(table), :, :half].clone() for table in (cos, sin))
        made.append(
            Example(x.clone(), cosines, sines, one, None if kept is None else kept[i : i + 1])
        )
    return made
