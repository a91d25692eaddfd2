"""The sizes that an advice has for the layers of a model, whichever part of it was profiled."""

from collections.abc import Mapping, Sequence

from attnrate.errors import InputError, require_none
from attnrate.spectra.advise import Advice


def advised(advice: Advice, layers: Mapping[str, int], left: Sequence[str] = ()) -> dict[str, int]:
    """The advised size of each layer that can be cut, by its name in the model.

    A model that was profiled without its language head names its layers without the name of its
    base ("layers.0.self_attn" for "model.layers.0.self_attn"); these are the same layers.

    Args:
        advice: The advice.
        layers: The layers that can be cut, and the sizes of their heads.
        left: The names of layers that cannot be cut.

    Returns:
        Sizes of those layers that the advice names.

    Raises:
        InputError: The advice is of another model: it names none of the layers, names some that
            are not there, or heads of another size.

    """
    there = [*layers, *left]
    prefix = _prefix([each.name for each in advice.layers], there)
    found = {f"{prefix}{each.name}": each for each in advice.layers}
    if not {*found} & {*layers}:
        raise InputError(
            "the advice names none of the layers that can be cut; it names",
            [each.name for each in advice.layers][:5],
            f"Profile this model; it has {[*layers][:5]}.",
        )
    require_none(
        "the advice is of another model; it names layers that are not there",
        [each.name for name, each in found.items() if name not in there][:5],
        "Profile this model.",
    )
    for name, each in found.items():
        if name in layers and layers[name] != each.m_h:
            raise InputError(
                f"the advice is of another model: the heads of {name} have the size "
                f"{layers[name]}, not",
                each.m_h,
                "Profile this model.",
            )
    return {name: found[name].size for name in layers if name in found}


def _prefix(names: Sequence[str], there: Sequence[str]) -> str:
    """What stands before the names of an advice in the names of the model's layers."""
    if {*names} & {*there}:
        return ""
    tried = {each.removesuffix(names[0]) for each in there if each.endswith(f".{names[0]}")}
    return next((one for one in sorted(tried) if {one + n for n in names} <= {*there}), "")
