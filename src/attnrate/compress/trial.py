"""Inputs that have no part in a cut, and how much the output of a model changes on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.check import output_of

Tensor = torch.Tensor
_SHARE = 5  # one input of five is held out
_MOST = 16  # inputs held out


@dataclass(frozen=True)
class Split:
    """Inputs by which a model is cut, and others on which it is measured.

    Attributes:
        own: The inputs by which it is cut and repaired.
        held: The inputs that are held out.

    """

    own: Sequence[Batch]
    held: Sequence[Batch]


def split(given: Sequence[Batch]) -> Split:
    """Hold out the last inputs: neighbouring pieces of a text are alike, so they stay together.

    Args:
        given: All inputs.

    Returns:
        One input of five is held out, one at least and 16 at most; where inputs of a batch cannot
        be taken apart, the last batch is.

    Raises:
        InputError: There is one input alone.

    """
    places = [(b, i) for b, batch in enumerate(given) for i in range(batches.size(batch))]
    if len(places) < 2:
        raise InputError(
            "a model is cut by some inputs and measured on others, so that two at least are needed",
            len(places),
            "Pass more inputs, or shorter ones.",
        )
    if not all(batches.is_separable(batch) for batch in given):
        if len(given) < 2:
            raise InputError(
                "inputs that cannot be taken apart are needed in two batches at least",
                len(given),
                "Pass smaller batches.",
            )
        return Split(given[:-1], given[-1:])
    wanted = min(_MOST, max(1, len(places) // _SHARE))
    return Split(_picked(given, places[:-wanted]), _picked(given, places[-wanted:]))


def _picked(given: Sequence[Batch], places: Sequence[tuple[int, int]]) -> list[Batch]:
    own: dict[int, list[int]] = {}
    for b, i in places:
        own.setdefault(b, []).append(i)
    return [batches.pick(given[b], inputs) for b, inputs in own.items()]


def outputs(model: nn.Module, given: Sequence[Batch]) -> list[Tensor]:
    """What a model gives for batches, in float32, without the places of padding."""
    made = []
    with batches.at_rest(model):
        for batch in given:
            made.append(output(model, batch).float().cpu())
    return made


def output(model: nn.Module, batch: Batch) -> Tensor:
    """What a model gives for a batch, without the places of padding."""
    made = output_of(batches.run(model, batch))
    kept = batches.padding(model, batch, tuple(made.shape[:2]))
    return made if kept is None else made[kept.to(made.device)]


def changes(
    whole: nn.Module, others: Sequence[nn.Module], given: Sequence[Batch]
) -> tuple[float, ...]:
    """How much the outputs of other models differ from those of a model.

    Args:
        whole: The model.
        others: The other models.
        given: The inputs. The outputs of one batch and two models are in memory at a time.

    Returns:
        The root of Σ ‖change‖² / Σ ‖output‖² over all inputs, for each of the other models.

    """
    wrong, size = [0.0] * len(others), 0.0
    for batch in given:
        right = outputs(whole, [batch])[0].double()
        size += float(right.square().sum())
        for number, model in enumerate(others):
            wrong[number] += float((outputs(model, [batch])[0] - right).square().sum())
    return tuple(relative(each, size) for each in wrong)


def change(whole: Sequence[Tensor], made: Sequence[Tensor]) -> float:
    """The size of the change of outputs over their size: the root of Σ ‖change‖² / Σ ‖output‖²."""
    wrong = sum(float((a - b).double().square().sum()) for a, b in zip(made, whole, strict=True))
    size = sum(float(b.double().square().sum()) for b in whole)
    return relative(wrong, size)


def relative(wrong: float, size: float) -> float:
    """The root of Σ ‖change‖² / Σ ‖output‖², from the two sums."""
    return float((wrong / max(size, 1e-300)) ** 0.5)
