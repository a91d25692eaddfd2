"""What a page is about: an advice, its profile, and one table of all heads, made once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnrate.spectra.advise import Advice
from attnrate.spectra.result import Profile

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Subject:
    """An advice with the table of all heads.

    Attributes:
        advice: What `advise` returned.
        heads: The profile as a table, one row per head in the order of the layers.
        needed: The size that each head needs, in the same order.

    """

    advice: Advice
    heads: "pd.DataFrame"
    needed: "pd.Series[int]"

    @property
    def profile(self) -> Profile:
        """The profile that the advice is made from."""
        return self.advice.profile


def subject_of(advice: Advice) -> Subject:
    """The advice with the table of all heads of its profile."""
    return Subject(advice, advice.profile.to_frame(), advice.by_head().needed)
