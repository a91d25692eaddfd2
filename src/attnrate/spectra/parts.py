"""The parts of a model, such as encoder and decoder, by the paths of its attention layers."""

import re

_NUMBER = re.compile(r"(^|\.)\d+(\.|$)")


def parts_of(names: list[str]) -> dict[str, str]:
    """The part that each layer belongs to, by the layer's name.

    A part is what stands before the first number of a path, such as "vision_model.encoder.layers",
    with words that all parts share left out. In a model of one part it is "".

    Args:
        names: The paths of layers.

    Returns:
        A dictionary from names to parts.

    """
    stems = {name: _stem(name).split(".") for name in names}
    different = {tuple(words) for words in stems.values()}
    if len(different) < 2:
        return dict.fromkeys(names, "")
    while _all_share(different, 0):
        different = {words[1:] for words in different}
        stems = {name: words[1:] for name, words in stems.items()}
    while _all_share(different, -1):
        different = {words[:-1] for words in different}
        stems = {name: words[:-1] for name, words in stems.items()}
    return {name: ".".join(words) for name, words in stems.items()}


def _stem(name: str) -> str:
    """A path up to its first number, or without its last word where it has none."""
    found = _NUMBER.search(name)
    if found:
        return name[: found.start()]
    return name.split("#")[0].rpartition(".")[0]


def _all_share(words: set[tuple[str, ...]], place: int) -> bool:
    """Whether all parts have the same word in a place, and more than one word."""
    return all(len(each) > 1 for each in words) and len({each[place] for each in words}) == 1
