"""The sizes that compress is asked for: which options go together, and the advice of a profile."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnrate.errors import InputError, require_number, require_whole

if TYPE_CHECKING:
    from attnrate.spectra.advise import Advice

_WAYS = ("size", "keep", "loss", "bytes", "average", "profile")


@dataclass(frozen=True)
class GivenSizes:
    """What the options of sizes say.

    Attributes:
        size: The size for all layers.
        keep: The share of each head that stays.
        loss: The most that the output may change.
        bytes: The most bytes of keys and values per token.
        average: The largest mean size.
        multiple_of: The number of which sizes are multiples.
        profile: The folder of a profile by whose advice heads are cut.
        tolerance: The share of attention that this advice may move.

    """

    size: int | None
    keep: float | None
    loss: float | None
    bytes: int | None
    average: float | None
    multiple_of: int | None
    profile: Path | None
    tolerance: float | None

    def require_fitting(self) -> None:
        """Raise an InputError where options do not go together or have values that cannot be."""
        given = [f"--{name}" for name in _WAYS if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(
                f"only one of {', '.join(f'--{name}' for name in _WAYS[:-1])} and --profile can "
                "be given",
                given,
                "Leave the others out.",
            )
        for name in ("size", "bytes", "multiple_of"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)
        for name, usual in (("keep", 0.5), ("loss", 0.05)):
            value = getattr(self, name)
            if value is not None and not 0 < require_number(name, value) < 1:
                way_out = f"Pass {name}={usual}."
                raise InputError(f"{name} must be a share between 0 and 1", value, way_out)
        if self.average is not None:
            require_number("average", self.average, 0.0)
        if self.tolerance is not None and self.profile is None:
            raise InputError(
                "--tolerance is for --profile", self.tolerance, "Pass --profile DIR as well."
            )
        from attnrate.spectra.advise import goal

        goal(None, self.tolerance)

    def advice(self) -> "Advice | None":
        """The advice of the profile's folder; None without one."""
        if self.profile is None:
            return None
        from attnrate.spectra.advise import advise
        from attnrate.spectra.saved import load_profile

        return advise(load_profile(self.profile), tolerance=self.tolerance)
