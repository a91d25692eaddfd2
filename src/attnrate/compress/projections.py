"""Where a layer's queries, keys, values and outputs are made: rows and columns of its Linear parts.

They are found by running. What the Linear parts of a model give is compared, feature by feature,
with the queries, keys and values of each call; the part whose input is what the heads gave is the
output projection. So it does not matter how a model names its parts, whether one part makes all
three, and in which order the heads lie there. A layer for which that fails is named with the
reason.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from attnrate.compress.held import Held
from attnrate.compress.modules.normed import normed_parts
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_FEWEST, _FEWEST_COARSE = 4, 16  # tokens of one input, in 32 bits and more and in fewer
#: Two features are one if they differ by less than this share of their size
_SAME, _SAME_COARSE = 1e-5, 1e-2
#: What heads gave is computed here once more, and may be rounded otherwise
_SAME_OUTPUT, _SAME_OUTPUT_COARSE = 1e-3, 6e-2
_APART = 0.2  # by which the factors of features may differ at most, however coarse numbers are
_NORMS = (
    *("q_norm", "k_norm", "query_norm", "key_norm", "norm_q", "norm_k", "qk_norm"),
    *("q_layernorm", "k_layernorm", "query_layernorm", "key_layernorm", "ln_q", "ln_k"),
)


@dataclass(frozen=True)
class Slice:
    """Features of a Linear part that belong to the heads of a layer.

    Attributes:
        path: The part's path within the model.
        features: The numbers of the part's features, head by head: of its outputs for queries, keys
            and values, of its inputs for the output projection.
        part: The part.
        factor: What a model multiplies these features by before they are used.
        of_inputs: Whether the features are inputs of the part.

    """

    path: str
    features: Int[Tensor, "heads m"]
    part: nn.Module = field(repr=False)
    factor: float = 1.0
    of_inputs: bool = False

    @property
    def weight(self) -> Float[Tensor, "heads m n"]:
        """The weights of these features, one row each, in float64 and with the factor."""
        rows = _rows(self.part)
        own = (rows.mT if self.of_inputs else rows).detach().double()
        return self.factor * own[self.features]

    @property
    def bias(self) -> Float[Tensor, "heads m"] | Float[Tensor, " n"]:
        """The bias of these features; that of the whole part if they are inputs. Zeros for none."""
        bias = getattr(self.part, "bias", None)
        if bias is None:
            bias = _rows(self.part).new_zeros(_rows(self.part).shape[0])
        own: Tensor = bias.detach().double()
        return own if self.of_inputs else self.factor * own[self.features]

    @property
    def weight_bytes(self) -> int:
        """The bytes of one number of the part's weights, as the model keeps them."""
        return _rows(self.part).element_size()

    def rows_of(self, weight: Tensor) -> Tensor:
        """A weight of the part with a row for each output, or back from that."""
        return weight.mT if _is_conv1d(self.part) else weight


@dataclass(frozen=True)
class Projections:
    """The parts of a layer that make queries, keys, values and its output.

    Attributes:
        site: The layer.
        query: Where its queries are made: weight (heads, m, n).
        key: Where its keys are made: weight (groups, m, n).
        value: Where its values are made: weight (groups, m_v, n).
        output: Where the heads' outputs go: weight (heads, m_v, n), bias (n).
        behind: Whether queries and keys are normalised and turned after these parts have made them,
            so that they are cut behind that, and the parts stay whole.

    """

    site: Site
    query: Slice
    key: Slice
    value: Slice
    output: Slice
    behind: bool = False


@dataclass(frozen=True)
class Refusal:
    """A layer that cannot be cut.

    Attributes:
        name: The layer's name.
        reason: Why it cannot be cut.

    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """The layers of a model whose projections are known, and those that cannot be cut.

    Attributes:
        projections: By the names of the layers, in the order in which they run.
        refused: The others.

    """

    projections: Mapping[str, Projections]
    refused: tuple[Refusal, ...]


def find(watcher: Watcher, batch: Batch, plain: bool = False) -> Found:
    """Find the projections of all attention layers of a model by running it.

    Args:
        watcher: The model.
        batch: Some inputs; that with the most tokens is used.
        plain: Whether queries and keys before a rotary embedding are looked for; without it, layers
            with such an embedding are refused, unless they normalise queries and keys as well.

    Returns:
        The projections of layers, and the layers that are refused, each with its reason.

    """
    one = fullest(batch)
    search = _Search(watcher.model)
    with ExitStack() as stack:
        search.follow(stack)
        watcher.see(one, lambda site, call: search.met(site, call, one, plain))
    found, refused = search.result()
    lost = [Refusal(each.name, each.why) for each in watcher.unseen()]
    return Found(found, (*refused, *lost))


def fullest(batch: Batch) -> Batch:
    """The one input of a batch with the most tokens; the batch itself if it cannot be taken apart.

    Where there are two sequences, an encoder's and a decoder's, the shorter of the two counts.
    """
    if not batches.is_separable(batch):
        return batch
    masks = [batches.kept(batch, f"{side}attention_mask") for side in ("", "decoder_")]
    counts = [mask.sum(1) for mask in masks if mask is not None and len(mask) > 1]
    first = int(torch.stack(counts).amin(0).argmax()) if counts else 0
    return batches.pick(batch, [first])


@dataclass(frozen=True)
class _Open:
    """A layer whose output projection is still looked for."""

    site: Site
    parts: tuple[Slice, Slice, Slice]
    mixed: Float[Tensor, "seen features"]
    seen: Bool[Tensor, " tokens"]
    behind: bool


class _Search:
    """What the Linear parts of a model took and gave in a pass, and what is known by that."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(part): path for path, part in model.named_modules()}
        self._linear = [part for part in model.modules() if _is_linear(part)]
        self._gave: dict[int, tuple[nn.Module, Tensor]] = {}
        self._took: list[tuple[nn.Module, Tensor]] = []
        self._open: list[_Open] = []
        self._refused: list[Refusal] = []

    def follow(self, stack: ExitStack) -> None:
        """Keep what parts take and give for as long as the stack is open."""

        def keep(part: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            self._gave.pop(id(part), None)  # the last to run stands last
            self._gave[id(part)] = part, output.detach()
            self._took.append((part, args[0].detach()))

        for part in self._linear:
            stack.enter_context(part.register_forward_hook(keep, prepend=True))

    def met(self, site: Site, call: Call, batch: Batch, plain: bool) -> None:
        """Take a call of a layer: find what made its queries, keys and values."""
        held = Held.of(call, kept_tokens(site, call, batch))
        found = self._parts(site, call, plain, held)
        if isinstance(found, str):
            self._refused.append(Refusal(site.name, found))
            return
        key, value = held.spread(held.key), held.spread(held.value)
        mixed = torch.cat(
            [held.weights(held.query[:, :, p], key, p) @ value for p in held.blocks()], 2
        )
        # what padding gives is never used, and models differ in it
        seen = held.counted.flatten() > 0
        self._open.append(_Open(site, found, _tokens(mixed)[seen], seen, site.rotary and not plain))

    def result(self) -> tuple[dict[str, Projections], list[Refusal]]:
        """The projections of the layers for which all four were found, and the others."""
        found: dict[str, Projections] = {}
        refused = list(self._refused)
        for each in self._open:
            output = self._output(each)
            if output is None:
                said = "between its heads and the next Linear part it does more than to join them"
                refused.append(Refusal(each.site.name, said))
            else:
                found[each.site.name] = Projections(each.site, *each.parts, output, each.behind)
        owners: dict[tuple[int, bool], list[str]] = {}
        for name, own in found.items():
            for part in (own.query, own.key, own.value, own.output):
                owners.setdefault((id(part.part), part.of_inputs), []).append(name)
        several = {name for names in owners.values() if len({*names}) > 1 for name in names}
        for name in sorted(several):
            del found[name]
            refused.append(Refusal(name, "its weights serve several layers"))
        return found, refused

    def _parts(
        self, site: Site, call: Call, plain: bool, held: Held
    ) -> tuple[Slice, Slice, Slice] | str:
        behind = normed_parts(site.module) if site.rotary and not plain else None
        if site.rotary and not plain and behind is None:
            return "its queries and keys are turned by their positions (rotary embedding)"
        fewest = _FEWEST_COARSE if _is_coarse(call.value) else _FEWEST
        if min(float(x.sum()) for x in (held.counted, held.tokens)) < fewest:
            return f"fewer than {fewest} tokens do not tell its parts apart; pass longer inputs"
        query, key = call.query, call.key
        if call.plain is not None and plain:
            query, key = call.plain
        found: list[Slice] = []
        for word, made in (("queries", query), ("keys", key), ("values", call.value)):
            if behind is not None and word != "values":
                found.append(self._whole(behind[len(found)], made))
                continue
            own = self._made_by(site.module, made)
            if own is None:
                ran = any(id(part) in self._gave for part in site.module.modules())
                return _why(site.module, word, ran)
            found.append(own)
        return found[0], found[1], found[2]

    def _made_by(self, module: nn.Module, made: Tensor) -> Slice | None:
        """The part that gives these vectors of heads; the layer's own parts come first."""
        inside = {id(part) for part in module.modules()}
        ran = list(reversed(self._gave.values()))
        ran.sort(key=lambda each: id(each[0]) not in inside)
        wanted = _tokens(made)
        for part, output in ran:
            limit = _SAME_COARSE if _is_coarse(made) or _is_coarse(output) else _SAME
            for tokens in _layouts(output):
                features = _matched(tokens, wanted, limit)
                if features is not None:
                    factor = _ratio(tokens[:, features], wanted)
                    if abs(factor - 1) < limit:
                        factor = 1.0
                    shape = made.shape[1], made.shape[3]
                    return Slice(self._paths[id(part)], features.reshape(shape), part, factor)
        return None

    def _whole(self, part: nn.Linear, made: Tensor) -> Slice:
        """All features of a part, head by head."""
        features = torch.arange(part.out_features).reshape(made.shape[1], made.shape[3])
        return Slice(self._paths[id(part)], features, part)

    def _output(self, each: _Open) -> Slice | None:
        for part, taken in self._took:
            limit = _SAME_OUTPUT_COARSE if _is_coarse(taken) else _SAME_OUTPUT
            for tokens in _layouts(taken):
                if len(tokens) != len(each.seen):
                    continue
                tokens = tokens[each.seen]
                features = _in_order(tokens, each.mixed, limit)
                if features is None:
                    features = _matched(tokens, each.mixed, limit)
                if features is None or features.numel() != tokens.shape[1]:
                    continue
                if abs(_ratio(tokens[:, features], each.mixed) - 1) > limit:
                    continue
                shape = each.site.heads, features.numel() // each.site.heads
                path = self._paths[id(part)]
                return Slice(path, features.reshape(shape), part, of_inputs=True)
        return None


def _why(module: nn.Module, word: str, ran: bool) -> str:
    """Why no part was found that makes these vectors, as far as the module's parts tell it.

    `ran` says whether a Linear part of the module has run before the call.
    """
    names = {name.rpartition(".")[2].lower() for name, _ in module.named_modules()}
    if names & {*_NORMS} and word != "values":
        return f"QK-norm: between projection and attention its {word} are normalised"
    if not ran:
        kind = type(module).__name__
        return f"its {word} are made by no Linear part ({kind} keeps its weights otherwise)"
    return f"between projection and attention it does more to its {word} than to scale them"


def _is_linear(part: nn.Module) -> bool:
    """Whether a part is torch's Linear or the Conv1D of transformers, with plain numbers inside."""
    plain = type(part) is nn.Linear or isinstance(
        part, nn.modules.linear.NonDynamicallyQuantizableLinear
    )
    weight = getattr(part, "weight", None)
    there = isinstance(weight, Tensor) and weight.is_floating_point() and weight.dim() == 2
    return there and (plain or _is_conv1d(part))


def _is_conv1d(part: nn.Module) -> bool:
    kind = type(part)
    return kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def _rows(part: nn.Module) -> Tensor:
    """The weight of a part with a row for each output."""
    weight = part.weight
    assert isinstance(weight, Tensor)
    return weight.mT if _is_conv1d(part) else weight


def _tokens(made: Float[Tensor, "rows heads T m"]) -> Float[Tensor, "tokens features"]:
    return made.detach().transpose(1, 2).flatten(2).flatten(0, 1).double()


def _layouts(x: Tensor) -> list[Tensor]:
    """The features of a part as (tokens, features), inputs first or tokens first."""
    first = x.reshape(-1, x.shape[-1]).double()
    if x.dim() == 3 and min(x.shape[:2]) > 1:
        return [first, x.transpose(0, 1).reshape(-1, x.shape[-1]).double()]
    return [first]


def _ratio(tokens: Tensor, wanted: Tensor) -> float:
    return float((tokens * wanted).sum() / tokens.square().sum().clamp(min=1e-300))


def _is_coarse(x: Tensor) -> bool:
    """Whether numbers have 16 bits or fewer."""
    return x.itemsize < 4


def _in_order(tokens: Tensor, wanted: Tensor, limit: float) -> Tensor | None:
    """All features of a part in their order, where they are the wanted ones; None otherwise."""
    if tokens.shape != wanted.shape or not bool(torch.isfinite(tokens).all()):
        return None
    if not float((tokens - wanted).norm()) <= limit * float(wanted.norm()):
        return None
    return torch.arange(tokens.shape[1], device=tokens.device)


def _matched(tokens: Tensor, wanted: Tensor, limit: float) -> Tensor | None:
    """For each wanted feature the number of that of a part which is the same up to one factor.

    Features are sorted by one product with fixed numbers, the same for both, so that a feature is
    compared with its neighbours in that order alone.
    """
    if len(tokens) != len(wanted) or tokens.shape[1] < wanted.shape[1]:
        return None
    if not bool(torch.isfinite(tokens).all() and torch.isfinite(wanted).all()):
        return None
    numbers = torch.linspace(0.5, 1.5, len(tokens), dtype=torch.float64, device=tokens.device)
    probe = torch.stack([numbers * (37.0 * numbers).sin(), numbers * (91.0 * numbers).cos()])
    sizes, own = tokens.norm(dim=0), wanted.norm(dim=0)
    there = own > 0
    units = tokens / sizes.clamp(min=1e-300)
    aims = wanted / own.clamp(min=1e-300)
    apart = torch.cdist((probe @ aims).mT, (probe @ units).mT)
    nearest = apart.topk(min(4, tokens.shape[1]), largest=False).indices  # (wanted, 4)
    off = torch.stack([(units[:, one] - aims).norm(dim=0) for one in nearest.mT])
    best = off.argmin(0)
    features = nearest.gather(1, best[:, None])[:, 0]
    # a feature that is always zero is one of the part's that is, too
    if float(off.amin(0).max()) > limit:
        return None
    ratios = own[there] / sizes[features[there]].clamp(min=1e-300)
    if len(ratios) and float(ratios.max() / ratios.min()) > 1 + min(100 * limit, _APART):
        return None
    return features
