"""Seq2Seq whose source is read in another order, with positions that are learned or sinusoidal.

The encoder is equivariant and attention across sums over the source, so an order enters only
through the place of each token. A source therefore stays as it is here, and only its places are
altered: a token whose place is t gets the t-th row of the table of positions. That is the same as
to reorder the tokens, and to mask the padding that comes between them.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import nn

from attnrate.models.decoding import last_places
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.settings import checked_fields

Tensor = torch.Tensor
#: What the first tokens are moved to the end of
Over = Literal["sentence", "padded"]


@checked_fields()
@dataclass(frozen=True)
class PlacedSettings(Seq2SeqSettings):
    """The sizes of a `PlacedSeq2Seq`, those of a Seq2Seq and two more.

    Attributes:
        positions: Whether the positions of the source are trained or those of Vaswani et al.;
            the target's are sinusoidal.
        over: What the first `moved` tokens of a source are moved to the end of: the sentence,
            which is another permutation for every length, or all `longest` places, with padding
            between, which is one permutation.

    """

    positions: Literal["learned", "sinusoidal"] = "sinusoidal"
    over: Over = "sentence"


class PlacedSeq2Seq(Seq2Seq):
    """A Seq2Seq whose source is read in one of two altered orders; see `PlacedSettings`."""

    settings: PlacedSettings

    def __init__(self, settings: PlacedSettings) -> None:
        super().__init__(settings)
        self.table: nn.Parameter | None = None
        if settings.positions == "learned":
            # as large as the sinusoids, whose mean square is 1/2
            start = 0.5**0.5 * torch.randn(settings.longest, settings.width)
            self.table = nn.Parameter(start)

    def _placed_source(
        self, source: Int[Tensor, "batch S"]
    ) -> tuple[Int[Tensor, "batch S"], Float[Tensor, "batch S width"]]:
        """The source as it is, and its tokens with the positions of their altered places."""
        chosen = self.settings
        last = last_places(source, chosen)
        places = altered_places(last, source.shape[1], chosen.moved, chosen.over, chosen.longest)
        table = self.positions if self.table is None else self.table
        return source, self.drop(self.embedded(source) + table[places])


def altered_places(
    last: Int[Tensor, " batch"], width: int, moved: int, over: Over, longest: int
) -> Int[Tensor, "batch width"]:
    """Say where the tokens 0 ... `width` - 1 of each sentence stand in an altered order.

    With "sentence" they are cyclically shifted within the sentence, and one of `moved` tokens or
    fewer stays as it is. With "padded" they are shifted within all `longest` places. `last` has the
    position of each sentence's last token; the places of padding after it do not matter.
    """
    here = torch.arange(width, device=last.device).expand(len(last), width)
    if over == "padded":
        return (here - moved) % longest
    length = last[:, None] + 1
    turned = torch.where(here < length, (here - moved) % length, here)
    return torch.where(length > moved, turned, here)
