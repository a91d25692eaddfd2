"""Times of a model whole and cut, measured in turn, so that a busy machine slows both alike."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError, require_number
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.offloaded import device_of

Tensor = torch.Tensor
Work: TypeAlias = Literal["batch", "token"]
SECONDS = 2.0  # in which times are measured, if nothing else is asked for
_LEAST, _MOST = 3, 12  # rounds


@dataclass(frozen=True)
class Timing:
    """How long a model takes, whole and cut, in rounds in which each had its turn.

    Attributes:
        work: "batch" is a forward pass without a cache; "token" is one more token of one text, with
            the keys and values of the tokens before it in a cache.
        inputs: The number of inputs.
        tokens: The number of tokens before the one that is timed; None for a batch.
        rounds: The number of rounds.
        before: The median number of seconds of the whole model.
        after: The median number of seconds of the model that was cut.
        ratio: The median over rounds of the time of the cut model over that of the whole one.
        low: A quarter of the rounds have a smaller ratio.
        high: A quarter of the rounds have a larger ratio.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=1, heads=2, m_h=8, classes=3)
        >>> timed, = ar.compress(model, torch.randn(20, 3, 8, 8), size=4).measured.times
        >>> timed.work, timed.inputs, timed.low <= timed.ratio <= timed.high
        ('batch', 4, True)

    """

    work: Work
    inputs: int
    tokens: int | None
    rounds: int
    before: float
    after: float
    ratio: float
    low: float
    high: float


def require_seconds(name: str, value: object) -> float:
    """`value` as a number of seconds, 0 or more; InputError for any other."""
    seconds = require_number(name, value)
    if seconds < 0:
        raise InputError(
            f"{name} must be a number of seconds, at least 0", value, f"Pass {name}=0 for no times."
        )
    return seconds


def timed(
    work: Work, inputs: int, tokens: int | None, found: Sequence[tuple[float, float]]
) -> Timing:
    """What pairs of times say, those of the whole model and of the cut one."""
    seconds = np.array(found)
    low, ratio, high = np.quantile(seconds[:, 1] / seconds[:, 0], (0.25, 0.5, 0.75))
    before, after = np.median(seconds, 0)
    own = [float(each) for each in (before, after, ratio, low, high)]
    return Timing(work, inputs, tokens, len(found), *own)


def in_turn(
    whole: Callable[[int], object],
    cut: Callable[[int], object],
    seconds: float,
    most: int = _MOST,
    clock: Callable[[], float] = time.perf_counter,
) -> list[tuple[float, float]]:
    """Times of two functions, called in turn; who is first changes from round to round.

    Args:
        whole: A function of the round's number, from 0 on.
        cut: Another one.
        seconds: The time after which no further round begins; three rounds are run in any case.
        most: The largest number of rounds.
        clock: What tells the time.

    Returns:
        The times of both in each round.

    """
    found: list[tuple[float, float]] = []
    begun = clock()
    while len(found) < min(_LEAST, most) or (len(found) < most and clock() - begun < seconds):
        number, own = len(found), [0.0, 0.0]
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            start = clock()
            (whole, cut)[which](number)
            own[which] = clock() - start
        found.append((own[0], own[1]))
    return found


def time_batch(whole: nn.Module, cut: nn.Module, batch: Batch, seconds: float) -> Timing:
    """The time of a forward pass of a batch, or of its first inputs if the whole takes too long.

    Args:
        whole: The original model.
        cut: The model with smaller heads.
        batch: Some inputs.
        seconds: About how long all may take.

    """
    waited = _waiting(whole)

    def run(model: nn.Module, given: Batch) -> None:
        with torch.no_grad():
            batches.run(model, given)
        waited()

    with batches.at_rest(whole), batches.at_rest(cut):
        if batches.is_separable(batch):
            one = batches.pick(batch, [0])
            run(whole, one)
            start = time.perf_counter()
            run(whole, one)
            each = max(time.perf_counter() - start, 1e-9)
            fitting = int(seconds / (2 * (_LEAST + 1) * each))
            batch = batches.pick(batch, [*range(max(1, min(batches.size(batch), fitting)))])
        run(whole, batch)
        run(cut, batch)  # what is slow the first time alone
        found = in_turn(lambda _: run(whole, batch), lambda _: run(cut, batch), seconds)
    return timed("batch", batches.size(batch), None, found)


def time_token(whole: nn.Module, cut: nn.Module, ids: Tensor, seconds: float) -> Timing | None:
    """The time of one more token of a text, near its end; None for a text of fewer than 4 tokens.

    Args:
        whole: The original decoder.
        cut: The decoder with smaller heads.
        ids: The token ids of a text, as (1, tokens).
        seconds: About how long all may take.

    """
    from attnrate.compress.quantised import new_cache

    rounds = min(_MOST, ids.shape[1] // 2 - 1)
    if rounds < 1:
        return None
    known = ids.shape[1] - rounds - 1
    waited = _waiting(whole)

    def decoder(model: nn.Module) -> Callable[[int], None]:
        cache = new_cache(None)
        there = batches.placed(model, ids)

        def step(tokens: slice) -> None:
            assert isinstance(there, Tensor)
            own: Any = model
            own(input_ids=there[:, tokens], past_key_values=cache, use_cache=True)
            waited()

        step(slice(known))
        step(slice(known, known + 1))  # what is slow the first time alone
        return lambda number: step(slice(known + 1 + number, known + 2 + number))

    with batches.at_rest(whole), batches.at_rest(cut), torch.no_grad():
        found = in_turn(decoder(whole), decoder(cut), seconds, rounds)
    return timed("token", 1, known + 1, found)


def _waiting(model: nn.Module) -> Callable[[], None]:
    """A function that waits until the model's device has done what was asked of it."""
    kind = device_of(model).type
    if kind == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if kind == "mps" else lambda: None
