"""Which layers of two models are compared: by name, by the user's own pairs, or by depth."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from attnrate.errors import InputError
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.result import Profile

Match: TypeAlias = Literal["name", "depth"]
MATCHES: tuple[Match, ...] = ("name", "depth")
LayerPairs: TypeAlias = Mapping[int | str, int | str]
Pair: TypeAlias = tuple[LayerSpectra, LayerSpectra]


@dataclass(frozen=True)
class Unmatched:
    """A layer of one of two models that is not compared.

    Attributes:
        model: Which model has it: "before" or "after".
        name: The path of the layer within the model.
        why: Why it is not compared.

    Examples:
        >>> import torch
        >>> one, two = (ar.Transformer(2, 1, n=8, m_h=4, layers=n) for n in (1, 2))
        >>> found = ar.compare(*(ar.profile(model, torch.rand(4, 16, 2)) for model in (one, two)))
        >>> print(found.unmatched[0])
        inner.0 (after): no layer before has this name

    """

    model: Literal["before", "after"]
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.model}): {self.why}"


def matched(
    before: Profile, after: Profile, layers: LayerPairs | None, match: Match
) -> tuple[list[Pair], list[Unmatched]]:
    """The pairs of layers that are compared, and what is left over.

    Args:
        before: The first profile.
        after: The second profile.
        layers: Numbers or names of the second profile's layers, each with that of the first to
            which it is compared; None to match all.
        match: Without `layers`: "name" compares layers of one name, "depth" layers of one relative
            depth.

    Returns:
        Pairs (before, after) in the order of the second profile, and the layers of neither pair.

    """
    if layers is not None:
        chosen = _given(before, after, layers, match)
    elif match == "depth":
        chosen = _by_depth(before, after)
    else:
        names = {layer.name: layer for layer in before.layers}
        chosen = {layer.name: names.get(layer.name) for layer in after.layers}
    pairs: list[Pair] = []
    lost: dict[tuple[Literal["before", "after"], str], str] = {}
    for layer in after.layers:
        other = chosen.get(layer.name)
        if other is None:
            lost["after", layer.name] = _why(layers, match, "before")
        elif other.heads != layer.heads:
            said = f"{other.heads} heads before, {layer.heads} after"
            lost["after", layer.name] = lost["before", other.name] = said
        else:
            pairs.append((other, layer))
    taken = {one.name for one, _ in pairs}
    for layer in before.layers:
        if layer.name not in taken:
            lost.setdefault(("before", layer.name), _why(layers, match, "after"))
    if not pairs:
        raise _nothing(before, after, lost)
    return pairs, [Unmatched(model, name, why) for (model, name), why in lost.items()]


def _given(
    before: Profile, after: Profile, layers: LayerPairs, match: Match
) -> dict[str, LayerSpectra | None]:
    """The layers of the user's own pairs, by the names of those after."""
    if match != "name":
        raise InputError("only one of layers and match can be given", match, "Leave one out.")
    if not layers:
        raise InputError("layers names no pair", dict(layers), "Name some, or leave layers out.")
    chosen: dict[str, LayerSpectra | None] = {}
    for two, one in layers.items():
        new, old = after.layer(two), before.layer(one)
        if new.name in chosen:
            raise InputError("layers names a layer after twice", new.name, "Name it once.")
        if new.heads != old.heads:
            raise InputError(
                f"a head is compared to the head of its number, so layers must have equally many; "
                f"{new.name} and {old.name} have {{value}}",
                f"{new.heads} and {old.heads}",
                "Leave this pair out.",
            )
        chosen[new.name] = old
    return chosen


def _by_depth(before: Profile, after: Profile) -> dict[str, LayerSpectra | None]:
    """For each layer after the one before in whose span of depth its middle lies, within a part.

    Layer j of n takes up the depths from j/n to (j + 1)/n, its middle is at (j + ½)/n.
    """
    old, new = _groups(before), _groups(after)
    chosen: dict[str, LayerSpectra | None] = {}
    for key, group in new.items():
        others = old.get(key, [])
        for place, layer in enumerate(group):
            # (2 j + 1) / (2 n) of the others, in whole numbers
            at = (2 * place + 1) * len(others) // (2 * len(group))
            chosen[layer.name] = others[at] if others else None
    return chosen


def _groups(profile: Profile) -> dict[tuple[str, str], list[LayerSpectra]]:
    """The layers of a profile by part and kind, in the order in which they run."""
    found: dict[tuple[str, str], list[LayerSpectra]] = {}
    for layer in profile.layers:
        found.setdefault((profile.parts[layer.name], layer.kind), []).append(layer)
    return found


def _why(layers: LayerPairs | None, match: Match, other: str) -> str:
    if layers is not None:
        return "not among the given pairs"
    if match == "name":
        return f"no layer {other} has this name"
    if other == "after":
        return "no layer after is matched to it"
    return "before has no part of this name with attention of this kind"


def _nothing(
    before: Profile, after: Profile, lost: Mapping[tuple[Literal["before", "after"], str], str]
) -> InputError:
    """The error for two models of which no layers can be compared."""
    if any("heads before" in why for why in lost.values()):
        return InputError(
            f"no layer of {after.model} has as many heads as its partner in {before.model}",
            next(why for why in lost.values() if "heads before" in why),
            "Heads can be compared one by one only where there are equally many.",
        )
    return InputError(
        f"no layer of {after.model} is matched to one of {before.model}; their first layers",
        (after.layers[0].name, before.layers[0].name),
        "Say which belong together: layers={name after: name before}, or match='depth' "
        "(--match depth) for layers of one relative depth.",
    )
