"""Joining profiles of one model that were made on different inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnrate.errors import InputError
from attnrate.spectra.gather import Gathered, Piece
from attnrate.spectra.layer import FACTS, LayerSpectra
from attnrate.spectra.result import Profile
from attnrate.spectra.watching.unseen import Unseen

#: What all records of a layer agree on; whether a mask is causal is read from each input
_ALIKE = tuple(name for name in FACTS if name not in ("name", "causal"))
_ANOTHER = "a profile of another model cannot be joined"
_SAME_MODEL = "Join profiles of one model, with the same weights."


def joined(first: Profile, others: Sequence[object]) -> Profile:
    """The profile of all inputs of some profiles; an InputError unless they belong together."""
    profiles = [first, *(_require_alike(first, other) for other in others)]
    gathered = Gathered()
    numbers = {layer.name: layer.number for layer in first.layers}
    for each in profiles:
        gathered.add(Piece(1, tuple(numbers), each.layers))
    layers = (replace(each, number=numbers[each.name]) for each in gathered.piece().layers)
    digests = {each.digest for each in profiles}
    return Profile(
        model=first.model,
        family=first.family,
        gauge=first.gauge,
        layers=tuple(layers),
        made_by=_made_by([each.made_by for each in profiles]),
        unseen=_unseen(profiles),
        digest=first.digest if len(digests) == 1 else None,
    )


def _require_alike(one: Profile, other: object) -> Profile:
    """`other` itself; an InputError that names in what it differs from a profile of the model."""
    if not isinstance(other, Profile):
        raise InputError("this is not a profile", type(other).__name__, "Call profile() first.")
    if one.gauge != other.gauge:
        raise InputError(
            f"a profile of another gauge cannot be joined to one of the gauge {one.gauge!r}",
            other.gauge,
            "Profile both in the same gauge.",
        )
    if one.family != other.family:
        said = f"{_ANOTHER}: this one is of the family {one.family!r}, the other of another family"
        raise InputError(said, other.family, _SAME_MODEL)
    known = {layer.name: layer for layer in one.layers}
    theirs = {layer.name: layer for layer in other.layers}
    alone = [name for name in (*known, *theirs) if (name in known) != (name in theirs)]
    if alone:
        raise InputError(
            f"profiles with different layers cannot be joined; of {len({*known, *theirs})} layers, "
            f"{len(alone)} are in one profile alone",
            alone[:5],
            f"{_SAME_MODEL} Ask for the same layers, and let all of them run on both inputs.",
        )
    for name, layer in known.items():
        _require_alike_layers(layer, theirs[name])
    _require_same_weights(one, other)
    return other


def _require_alike_layers(one: LayerSpectra, other: LayerSpectra) -> None:
    for fact in _ALIKE:
        have, theirs = getattr(one, fact), getattr(other, fact)
        if have != theirs:
            raise InputError(
                f"{_ANOTHER}: {one.name} has {fact} = {have!r} in this profile, but not in the "
                "other one",
                theirs,
                _SAME_MODEL,
            )


def _require_same_weights(one: Profile, other: Profile) -> None:
    if one.digest is not None and other.digest is not None:
        if one.digest != other.digest:
            raise InputError(
                f"{_ANOTHER}: the layers are alike but the weights are not; the digest of "
                f"{one.model} is {one.digest[:12]}, that of the other one is not",
                other.digest[:12],
                _SAME_MODEL,
            )
    elif one.model != other.model:
        raise InputError(
            f"the weights of {one.model} or of the other model were not in memory, so that they "
            "cannot be compared, and their names differ",
            other.model,
            "Pass the same name to profile, if they are the same model.",
        )


def _made_by(
    each: Sequence[Mapping[str, str | bool | None]],
) -> dict[str, str | bool | None]:
    """What made all of them; where they differ, all values with "and" between them."""
    found: dict[str, str | bool | None] = {}
    for name in dict.fromkeys(name for one in each for name in one):
        values = [*dict.fromkeys(one.get(name) for one in each)]
        found[name] = values[0] if len(values) == 1 else " and ".join(map(str, values))
    return found


def _unseen(profiles: Sequence[Profile]) -> tuple[Unseen, ...]:
    """What none of the profiles has seen; a reason other than an idle module's comes first."""
    names = [{unseen.name for unseen in each.unseen} for each in profiles]
    everywhere = set.intersection(*names)
    found: dict[str, Unseen] = {}
    for each in profiles:
        for unseen in each.unseen:
            if unseen.name in everywhere:
                known = found.setdefault(unseen.name, unseen)
                if known.is_idle and not unseen.is_idle:
                    found[unseen.name] = unseen
    return tuple(found.values())
