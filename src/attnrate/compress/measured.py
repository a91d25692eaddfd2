"""What is measured of a cut: how good the model still is, its times, and its rivals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from attnrate.compress.how_far import At, unseen
from attnrate.compress.quality import (
    NEIGHBOURS,
    Judge,
    Quality,
    Score,
    decodes,
    embeddings,
    judged,
    neighbours_of,
    of_embeddings,
    texts,
)
from attnrate.compress.rivals import CUT, WHOLE, Rival, Ways, ways
from attnrate.compress.timing import Timing, time_batch, time_token
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.measures import counted, percent

Tensor = torch.Tensor
T = TypeVar("T")
#: What a model may raise that is not called as others are; the cut itself is done by then
_PROBLEMS = (
    *(TypeError, ValueError, RuntimeError, AttributeError, LookupError, ArithmeticError),
    *(AssertionError, MemoryError, batches.NotEnoughMemoryError),
)


@dataclass(frozen=True)
class Measurements:
    """What was measured of a model whose heads were cut.

    Attributes:
        quality: How good the model is on inputs held out, before and after.
        times: How long a batch takes, and for decoders a token.
        rivals: Ways to a smaller cache: the cut, keys in 8 and 4 bits, and the two together; also
            keys and values in so few bits where values were cut. None for a model without a cache.
        notes: What could not be measured and why, and what to know of the figures.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=1, heads=2, m_h=8, classes=3)
        >>> found = ar.compress(model, torch.randn(20, 3, 8, 8), size=4, timing=0).measured
        >>> found.times, found.rivals
        ((), ())
        >>> print(found.notes[0])
        Keys in 8 or 4 bits are no rivals here: the model keeps no keys in a cache.

    """

    quality: tuple[Quality, ...]
    times: tuple[Timing, ...]
    rivals: tuple[Rival, ...]
    notes: tuple[str, ...]

    @property
    def row(self) -> dict[str, float]:
        """The quality and the times by names, as columns of a table."""
        found: dict[str, float] = {}
        for each in self.quality:
            found[f"{each.measure}_before"] = each.before
            found[f"{each.measure}_cut"] = each.cut
            found[each.measure] = each.after
        for one in self.times:
            found[f"{one.work}_seconds_before"] = one.before
            found[f"{one.work}_seconds"] = one.after
        return found


@dataclass(frozen=True)
class Models:
    """A model before and after its cut.

    Attributes:
        whole: The original.
        closed: The model after its cut alone; None without a repair.
        after: The model after all.
        has_cache: Whether the model keeps keys and values while it writes.
        values: Whether values were cut as well as queries and keys.

    """

    whole: nn.Module
    closed: nn.Module | None
    after: nn.Module
    has_cache: bool
    values: bool = False


@dataclass(frozen=True)
class Judged:
    """A user's metric, and what it gives for the original.

    Attributes:
        judge: The function.
        before: What it gives for the original.

    """

    judge: Judge
    before: float

    @classmethod
    def of(cls, judge: Judge | None, model: nn.Module) -> "Judged | None":
        """The metric of the original, before the work begins; None without a metric."""
        return None if judge is None else cls(judge, judged(judge, model, "the whole model"))


def measured(
    models: Models,
    held: Sequence[Batch],
    judge: Judged | None,
    seconds: float,
    at: At = unseen,
) -> Measurements:
    """Measure a model before and after its cut.

    Args:
        models: The model whole, cut, and repaired.
        held: Inputs that the cut has not seen.
        judge: The user's metric.
        seconds: About how long times are measured; 0 leaves them out.
        at: Where progress is shown.

    Returns:
        What was measured. Where something cannot be, a note says why: the cut was long work, and it
        is not lost for that.

    """
    notes = _Notes()
    decoder = models.has_cache and decodes(models.whole, held)
    own = texts(held) if decoder else []
    found = None
    if own:
        three = models.whole, models.closed, models.after
        found = notes.tried("Rivals", lambda: ways(*three, own, models.values, at))
    quality = [*_perplexity(models, found)]
    if models.has_cache:
        _say_decoder(models, own, found, notes)
    else:
        notes.said.append(
            "Keys in 8 or 4 bits are no rivals here: the model keeps no keys in a cache."
        )
        at("measuring embeddings", None)
        quality += notes.tried("Embeddings", lambda: _embedded(models, held, notes)) or ()
    if judge is not None:
        at("judging by the metric", None)
        quality += notes.tried("The metric", lambda: _of_metric(models, judge)) or ()
    times: tuple[Timing, ...] = ()
    if seconds:
        at("measuring times", None)
        times = _times(models, held, own, seconds, notes)
    return Measurements(
        tuple(quality),
        times,
        () if found is None else found.rivals,
        tuple(notes.said),
    )


class _Notes:
    """Sentences on what could not be measured."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def tried(self, what: str, work: Callable[[], T]) -> T | None:
        """What some work gives; None, and a note, where it fails."""
        try:
            return work()
        except _PROBLEMS as problem:
            why = f"{type(problem).__name__}: {batches.first_line(problem)}"
            self.said.append(f"{what} could not be measured ({why.rstrip('.')}).")
            return None


def _perplexity(models: Models, found: Ways | None) -> tuple[Quality, ...]:
    """The perplexity of a language model, from the passes that were made for its rivals."""
    by_way = {} if found is None else {each.way: each.perplexity for each in found.rivals}
    before, after = by_way.get(WHOLE), by_way.get(CUT)
    if found is None or before is None or after is None:
        return ()
    cut = after if models.closed is None or found.closed is None else found.closed
    return (Quality("perplexity", before, cut, after),)


def _say_decoder(models: Models, own: Sequence[Tensor], found: Ways | None, notes: _Notes) -> None:
    if not own:
        notes.said.append(
            "Keys in 8 or 4 bits were not measured: they are the rivals of decoders without an "
            "encoder, on inputs of token ids with or without a mask."
        )
    elif found is not None:
        if found.rivals[0].perplexity is None:
            notes.said.append(
                "There is no perplexity: the model was opened without its language head "
                "(load_model(…, head=True) keeps it)."
            )
        _say_short(found.lengths, notes)


def _say_short(lengths: Sequence[int], notes: _Notes) -> None:
    """Say for how many texts quantised keys have more scales, and for how many there are none."""
    from attnrate.compress.quantised import GROUP, SHORT_GROUP, group_of

    short = sum(group_of(length) < GROUP for length in lengths)
    tiny = sum(length < SHORT_GROUP for length in lengths)
    if short:
        notes.said.append(
            f"Of {counted(len(lengths), 'input')} held out, {short} {_have(short)} fewer than "
            f"{2 * GROUP} tokens. There {SHORT_GROUP} tokens share a scale of quantised keys "
            f"instead of {GROUP}, which takes more bytes."
        )
    if tiny:
        notes.said.append(
            f"{tiny} of these {_have(tiny)} fewer than {SHORT_GROUP} tokens, none of whose keys "
            "are quantised."
        )


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _embedded(models: Models, held: Sequence[Batch], notes: _Notes) -> tuple[Quality, ...]:
    """What became of the embeddings of an encoder; nothing for any other model."""
    whole = embeddings(models.whole, held)
    after = None if whole is None else embeddings(models.after, held)
    if whole is None or after is None:
        return ()
    closed = None if models.closed is None else embeddings(models.closed, held)
    count = neighbours_of(len(whole))
    if not count:
        notes.said.append(f"Nearest neighbours need 3 inputs held out, and there are {len(whole)}.")
    elif count < NEIGHBOURS:
        chance = percent(count / (len(whole) - 1))
        notes.said.append(
            f"With {counted(len(whole), 'input')} held out, the nearest {count} neighbours are "
            f"compared instead of {NEIGHBOURS}; by chance {chance} would be the same."
        )
    return of_embeddings(whole, after if closed is None else closed, after)


def _of_metric(models: Models, judge: Judged) -> tuple[Quality, ...]:
    after = judged(judge.judge, models.after, "the model after its cut")
    cut = after
    if models.closed is not None:
        cut = judged(judge.judge, models.closed, "the model before its repair")
    if not isinstance(judge.judge, Score):
        return (Quality("metric", judge.before, cut, after),)
    return (Quality(judge.judge.name, judge.before, cut, after, judge.judge.tests),)


def _times(
    models: Models, held: Sequence[Batch], own: Sequence[Tensor], seconds: float, notes: _Notes
) -> tuple[Timing, ...]:
    """The time of a batch, and of a token of the longest text that is held out."""
    whole, after = models.whole, models.after
    each = seconds / 2 if own else seconds
    found = [notes.tried("Times", lambda: time_batch(whole, after, held[0], each))]
    if own:
        longest = max(own, key=lambda ids: ids.shape[1])
        found.append(
            notes.tried("The time per token", lambda: time_token(whole, after, longest, each))
        )
    return tuple(one for one in found if one is not None)
