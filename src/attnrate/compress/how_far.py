"""How far a compression is: what its parts say of themselves while they work.

Each part of the work has a share of its own that grows from 0 to 1, so that the estimate of the
time left is that of the part whose name is shown. A part ends with the share 1: its pace then has
no part in the estimate of the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")
At: TypeAlias = Callable[[str, float | None], None]
"""Takes what is being done and the share of it that is done, None if unknown: `Progress.at`."""
#: What is said of a look at calibration inputs, before the number of the batch
LOOKING = "looking at inputs: batch"


def unseen(text: str, share: float | None) -> None:
    """Show nothing."""


def one_by_one(given: Sequence[T], said: str, at: At, done: int = 0) -> Iterator[T]:
    """Go through things and show at which one the work is, as "said 3 of 8".

    Args:
        given: The things.
        said: What is done with them, up to the number.
        at: Where it is shown.
        done: The number of things, from the first one on, that need no work any more.

    Yields:
        Each of the other things.

    """
    for number, one in enumerate(given[done:], done):
        at(f"{said} {number + 1} of {len(given)}", number / len(given))
        yield one
    if given:
        at(f"{said} {len(given)} of {len(given)}", 1.0)


def looking(at: At, done: float, is_first: bool) -> At:
    """Where a look at calibration inputs for some layers shows how far it is.

    The first look has a share of its own, because it would make the first step of the work that
    follows seem long; later ones are part of that work, and leave its share as it is.

    Args:
        at: Where the work is shown.
        done: The share of the work that is done.
        is_first: Whether nothing of the work was done yet.

    Returns:
        A function that takes the text of the look and its own share.

    """
    return within(at, "repair, ", 0.0, 1.0) if is_first else within(at, "repair, ", done, done)


def within(at: At, said: str, start: float, end: float) -> At:
    """Where a piece of some work shows how far it is.

    Args:
        at: Where the work is shown.
        said: What stands before the text of the piece.
        start: The share of the work that is done before the piece begins.
        end: The share that is done after it.

    Returns:
        A function that takes the text of the piece, and the share of the piece that is done.

    """

    def shown(text: str, share: float | None) -> None:
        done = share
        if share is not None:
            # exact at both ends: a share less than that before would be taken for other work
            done = end if share >= 1 else start + share * (end - start)
        at(f"{said}{text}", done)

    return shown
