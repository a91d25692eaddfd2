"""How good a model is after a cut: perplexity, embeddings, neighbours, and a metric of the user's.

All is measured on inputs that the cut has not seen, of the original, of the model after the cut
alone, and of the model after its repair.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import nn

from attnrate.compress.trial import change
from attnrate.errors import AttnrateError, InputError
from attnrate.models.decoding import WordTranslator
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.check import output_of

Tensor = torch.Tensor
Judge: TypeAlias = Callable[[nn.Module], float]
"""What a user judges a model by: a function of the torch module that gives a number."""
NEIGHBOURS = 10  # nearest inputs that are compared
_IDS = "input_ids"
_KEPT = {_IDS, "attention_mask"}


@dataclass(frozen=True)
class Quality:
    """A figure of how good a model is, before and after its cut.

    Attributes:
        measure: What was measured, on inputs held out. "perplexity": the exponential of the mean
            surprise at the next token. "embedding_change": the root of Σ ‖change‖² / Σ ‖e‖² of the
            embeddings e, which are means over the tokens of an input. "embedding_cosine": the mean
            cosine of an embedding and that of the original. "neighbours": the share of the nearest
            inputs of an input, by the cosine of embeddings, that are still among its nearest.
            "metric": what the function gives that was passed as `metric`. "accuracy": the share of
            test images that are recognised, and "bleu": the score of translations from 0 to 100, by
            which the command judges a model of `train`.
        before: That of the original.
        cut: That of the model after the cut alone.
        after: That of the model after its repair; without one `cut`.
        tests: The number of test inputs, for "accuracy" and "bleu".

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=1, heads=2, m_h=8, classes=3)
        >>> size = lambda model: sum(x.numel() for x in model.parameters())
        >>> done = ar.compress(model, torch.randn(20, 3, 8, 8), size=4, metric=size)
        >>> done.measured.quality[0]
        Quality(measure='metric', before=10163.0, cut=9891.0, after=9891.0, tests=None)

    """

    measure: str
    before: float
    cut: float
    after: float
    tests: int | None = None


@dataclass(frozen=True)
class Score:
    """A metric with a name, and the data on which it is measured.

    Attributes:
        name: "accuracy" is a share from 0 to 1, "bleu" goes from 0 to 100.
        judge: Gives the score of a model.
        tests: The number of test inputs.

    """

    name: Literal["accuracy", "bleu"]
    judge: Judge
    tests: int

    def __call__(self, model: nn.Module) -> float:
        """The score of a model."""
        return self.judge(model)


def require_judge(name: str, value: object) -> Judge | None:
    """`value` itself, or an InputError when it is no function."""
    if value is not None and not callable(value):
        raise InputError(
            f"{name} must be a function of a model that gives a number",
            value,
            f"Pass {name} as a function, such as one that computes the model's accuracy.",
        )
    return value


def judged(judge: Judge, model: nn.Module, which: str) -> float:
    """What the user's function gives for a model, which is in evaluation mode for that.

    Args:
        judge: The function.
        model: The model.
        which: Which model it is, for messages.

    Returns:
        A finite number.

    Raises:
        InputError: The function raises an exception, or gives anything else.

    """
    known = judge.name if isinstance(judge, Score) else getattr(judge, "__name__", None)
    name = known or type(judge).__name__
    try:
        with batches.at_rest(model):
            found: Any = judge(model)
    except AttnrateError:
        raise
    except Exception as problem:
        raise InputError(
            f"the metric {{value}} raised {type(problem).__name__} for {which} "
            f"({batches.first_line(problem)})",
            name,
            "It is called with the torch module alone, and must return a number.",
        ) from problem
    try:
        number = math.nan if isinstance(found, str | bytes) else float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"the metric {name} must return a finite number, and for {which} it returned {{value}}",
            found,
            "Return e.g. the accuracy as a float.",
        )
    return number


def has_language_head(model: nn.Module) -> bool:
    """Whether a model gives numbers for all words of its vocabulary."""
    find: Any = getattr(model, "get_output_embeddings", None)
    return isinstance(model, WordTranslator) or (find is not None and find() is not None)


def decodes(model: nn.Module, given: Sequence[Batch]) -> bool:
    """Whether the inputs are texts for a decoder of transformers: token ids and their mask alone.

    Such a model takes a cache, and each of its outputs depends on earlier tokens only.
    """
    config = getattr(model, "config", None)
    if config is None or getattr(config, "is_encoder_decoder", False):
        return False
    named = [{*each} for each in given if not isinstance(each, Tensor)]
    return len(named) == len(given) and all(_IDS in own and own <= _KEPT for own in named)


def texts(given: Sequence[Batch]) -> list[Tensor]:
    """The token ids of each input without padding, as (1, tokens)."""
    found = []
    for batch in given:
        assert not isinstance(batch, Tensor)
        kept = batches.kept(batch, "attention_mask")
        for number, ids in enumerate(batch[_IDS]):
            own = ids if kept is None else ids[kept[number].to(ids.device)]
            if len(own) > 1:
                found.append(own[None])
    return found


def surprise(logits: Float[Tensor, "1 T words"], ids: Tensor) -> float:
    """The sum over tokens of -log of the probability that the tokens before them give."""
    said, came = logits[0, :-1].float(), ids[0, 1:].to(logits.device)
    return float(nn.functional.cross_entropy(said, came, reduction="sum"))


def embeddings(model: nn.Module, given: Sequence[Batch]) -> Float[Tensor, "inputs width"] | None:
    """One vector for each input: the mean of the model's outputs over tokens, without padding.

    None where the model does not give a vector for each token: a classifier, a language head, a
    translator.
    """
    if has_language_head(model):
        return None
    width = getattr(getattr(model, "config", None), "hidden_size", None)
    made = []
    with batches.at_rest(model):
        for batch in given:
            output = output_of(batches.run(model, batch)).double().cpu()
            if output.dim() != 3 or output.shape[-1] != (width or output.shape[-1]):
                return None
            kept = batches.padding(model, batch, tuple(output.shape[:2]))
            weight = torch.ones(output.shape[:2]) if kept is None else kept.cpu()
            weight = weight.double()[..., None]
            made.append((output * weight).sum(1) / weight.sum(1).clamp(min=1))
    return torch.cat(made)


def neighbours_of(inputs: int) -> int:
    """How many nearest inputs are compared among that many: ten, or half of the others.

    Were all others compared, none could be missing.
    """
    return min(NEIGHBOURS, (inputs - 1) // 2)


def same_neighbours(
    one: Float[Tensor, "inputs width"], other: Float[Tensor, "inputs width"], count: int
) -> float:
    """The mean share of the nearest inputs by one embedding that are so by another one, too."""
    nearest = []
    for each in (one, other):
        unit = nn.functional.normalize(each, dim=-1)
        alike = (unit @ unit.mT).fill_diagonal_(-torch.inf)
        near = torch.zeros_like(alike, dtype=torch.bool)
        nearest.append(near.scatter(1, alike.topk(count).indices, True))
    return float((nearest[0] & nearest[1]).sum()) / (len(one) * count)


def of_embeddings(
    whole: Float[Tensor, "inputs width"],
    cut: Float[Tensor, "inputs width"],
    after: Float[Tensor, "inputs width"],
) -> tuple[Quality, ...]:
    """What became of embeddings: their change, their cosines, and their nearest neighbours."""

    def of(measure: str, before: float, felt: Callable[[Tensor], float]) -> Quality:
        return Quality(measure, before, felt(cut), felt(after))

    def cosine(x: Tensor) -> float:
        return float(nn.functional.cosine_similarity(whole, x, dim=-1).mean())

    found = [
        of("embedding_change", 0.0, lambda x: change([whole], [x])),
        of("embedding_cosine", 1.0, cosine),
    ]
    count = neighbours_of(len(whole))
    if count:
        found.append(of("neighbours", 1.0, lambda x: same_neighbours(whole, x, count)))
    return tuple(found)
